//! What one source makes of one object, before sources are merged.

use std::sync::Arc;

use portcullis_api::ProxyKubeApi;
use portcullis_core::yaml::Fault;

use crate::resolve::{self, Policy, References};
use crate::snapshot::{ClusterConfig, ClusterKey, ClusterState};

/// A cluster as one source describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How it is to be served.
    pub config: Arc<ClusterConfig>,
    /// What its owner should know although it is served.
    pub notices: Vec<String>,
    /// What it asks for and is not built yet. The configuration is refused then.
    pub unsupported: Vec<String>,
    /// When the object was created, in milliseconds since 1970; 0 for files.
    pub created: i64,
}

impl Candidate {
    /// Reads `object` and all that it refers to.
    ///
    /// An object that asks for what is not built yet, or that is switched off, is no fault.
    ///
    /// # Errors
    /// All faults of the object and of what it refers to.
    pub fn new(
        object: &ProxyKubeApi,
        policy: &Policy<'_>,
        references: &dyn References,
    ) -> Result<Self, Vec<Fault>> {
        let faults = object.validate();
        if !faults.is_empty() {
            return Err(faults);
        }
        let key = ClusterKey::new(object.metadata.namespace(), &object.metadata.name);
        let mut config = if object.spec.enabled {
            resolve::cluster(&key, &object.spec, policy, references)?
        } else {
            ClusterConfig::without_upstream(key, object.spec.hosts.clone(), ClusterState::Disabled)
        };
        let unsupported = object.spec.unsupported();
        if config.state == ClusterState::Serving && !unsupported.is_empty() {
            config.state = ClusterState::Refused {
                reason: unsupported.join("; "),
            };
        }
        let notices = object.spec.notices();
        Ok(Self {
            config: Arc::new(config),
            notices,
            unsupported,
            created: 0,
        })
    }

    /// A cluster that cannot be served because of `reason`.
    ///
    /// It keeps its `hosts`: while it is out of order, nobody else may answer in its name.
    #[must_use]
    pub fn refused(key: ClusterKey, hosts: Vec<String>, reason: String) -> Self {
        let state = ClusterState::Refused { reason };
        let config = ClusterConfig::without_upstream(key, hosts, state);
        Self {
            config: Arc::new(config),
            notices: Vec::new(),
            unsupported: Vec::new(),
            created: 0,
        }
    }
}
