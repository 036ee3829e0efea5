//! Live sources of clusters, merged into one stream of snapshots.
//!
//! Purpose: start what `resources` of the gateway's configuration names, and keep it up to date.
//! Invariant: each source is all-or-nothing and keeps its last good set; what is published is
//! the merge of those sets. Tasks end when nobody holds a receiver any more.
//! Upstream counterpart: client-go's `SharedInformerFactory` with its `WaitForCacheSync`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube::Client;
use portcullis_api::gateway_configuration::Resources;
use portcullis_core::observer::Observer;
use portcullis_core::yaml::Diagnostic;
use serde_json::Value;
use tokio::sync::watch;

use crate::candidate::Candidate;
use crate::snapshot::{ClusterKey, Snapshot};

mod directory;
mod federation;
mod merge;

use directory::Pace;

/// The part of the gateway's configuration that names sources.
pub type SourcesSettings = Resources;

/// Running sources.
#[derive(Clone)]
pub struct Sources {
    /// What is served.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// How the sources are.
    pub health: watch::Receiver<Health>,
    /// The federating cluster, if it is a source: for the status of its objects.
    pub federation: Option<Federation>,
}

/// The federating cluster and what became of its objects.
#[derive(Clone)]
pub struct Federation {
    /// Speaks to it.
    pub client: Client,
    /// By object.
    pub outcomes: watch::Receiver<Arc<Outcomes>>,
}

/// What became of each object of the federating cluster.
pub type Outcomes = BTreeMap<ClusterKey, Outcome>;

/// What became of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether the gateway serves it.
    pub exposed: bool,
    /// Why not.
    pub error: Option<String>,
    /// What its owner should know all the same.
    pub notices: Vec<String>,
    /// The object's `status` as it is in the cluster now.
    pub observed: Value,
}

/// How the sources are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// One item per source that was configured, in a fixed order.
    pub sources: Vec<SourceHealth>,
}

/// How one source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceHealth {
    /// `directory` or `federation`.
    pub name: &'static str,
    /// Whether it was read once. It stays so: what was read is kept when the source turns bad.
    pub synced: bool,
    /// What is wrong with it now.
    pub problem: Option<String>,
}

/// What a source holds.
#[derive(Clone, Debug)]
struct SourceState {
    candidates: Arc<Vec<Candidate>>,
    /// The status of each object, where objects have one.
    observed: Arc<BTreeMap<ClusterKey, Value>>,
    health: SourceHealth,
}

/// Why sources do not start.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The folder's first reading found faults; see [`SourceError::diagnostics`].
    #[error("resources.directory: {}", Lines(.0))]
    Directory(Vec<Diagnostic>),
    /// The kubeconfig, or the credentials of the pod, cannot be used.
    #[error("{field}: {problem}")]
    Client {
        /// Field of the configuration.
        field: &'static str,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The folder could not be read because the process is ending.
    #[error("resources.directory: the reading was interrupted")]
    Interrupted,
}

impl SourceError {
    /// The faults of files, if they are the cause.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Directory(diagnostics) => diagnostics,
            Self::Client { .. } | Self::Interrupted => &[],
        }
    }
}

/// Diagnostics, one a line.
struct Lines<'a>(&'a [Diagnostic]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        Ok(())
    }
}

impl Sources {
    /// Starts all sources that `settings` names.
    ///
    /// The folder has been read when this returns. The federating cluster may not have answered
    /// yet: its clusters come with a later snapshot, and `health` says when.
    ///
    /// # Errors
    /// The folder has a fault, or there is no way to speak to the federating cluster.
    pub async fn start(
        settings: &SourcesSettings,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, SourceError> {
        let client = match (&settings.kubeconfig, settings.in_cluster) {
            (Some(path), _) => {
                Some(federation::client::from_kubeconfig(path, settings.context.as_deref()).await?)
            }
            (None, true) => Some(federation::client::in_cluster()?),
            (None, false) => None,
        };
        Self::start_with(settings, client, observer, Pace::default()).await
    }

    async fn start_with(
        settings: &SourcesSettings,
        client: Option<Client>,
        observer: Arc<dyn Observer>,
        pace: Pace,
    ) -> Result<Self, SourceError> {
        let directory = match &settings.directory {
            Some(folder) => {
                let cross_namespace = settings.allow_cross_namespace_references;
                let observer = Arc::clone(&observer);
                Some(directory::start(folder, cross_namespace, pace, observer).await?)
            }
            None => None,
        };
        let cluster = client
            .clone()
            .map(|client| federation::start(client, settings, Arc::clone(&observer), pace));
        let merged = merge::start(directory, cluster);
        Ok(Self {
            snapshots: merged.snapshots,
            health: merged.health,
            federation: client.map(|client| Federation {
                client,
                outcomes: merged.outcomes,
            }),
        })
    }
}

#[cfg(test)]
mod tests;
