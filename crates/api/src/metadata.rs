//! `metadata` of the objects that are read from files.

use std::collections::BTreeMap;

use portcullis_core::yaml::Fault;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::names;
use crate::rules::Rules;

/// Namespace of an object that names none, as with `kubectl apply`.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What matters of an object's metadata. What the API server sets is accepted and dropped, so
/// that the output of `kubectl get -o yaml` can be used. Counterpart: `metav1.ObjectMeta`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectMeta {
    /// Name.
    pub name: String,
    /// Namespace; see [`DEFAULT_NAMESPACE`].
    #[serde(default)]
    pub namespace: Option<String>,
    /// Generation of the spec, as the API server counts.
    #[serde(default)]
    pub generation: Option<i64>,
    #[serde(default, rename = "labels")]
    _labels: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "annotations")]
    _annotations: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "generateName")]
    _generate_name: Option<IgnoredAny>,
    #[serde(default, rename = "selfLink")]
    _self_link: Option<IgnoredAny>,
    #[serde(default, rename = "uid")]
    _uid: Option<IgnoredAny>,
    #[serde(default, rename = "resourceVersion")]
    _resource_version: Option<IgnoredAny>,
    #[serde(default, rename = "creationTimestamp")]
    _creation_timestamp: Option<IgnoredAny>,
    #[serde(default, rename = "deletionTimestamp")]
    _deletion_timestamp: Option<IgnoredAny>,
    #[serde(default, rename = "deletionGracePeriodSeconds")]
    _deletion_grace_period_seconds: Option<IgnoredAny>,
    #[serde(default, rename = "finalizers")]
    _finalizers: Option<IgnoredAny>,
    #[serde(default, rename = "ownerReferences")]
    _owner_references: Option<IgnoredAny>,
    #[serde(default, rename = "managedFields")]
    _managed_fields: Option<IgnoredAny>,
}

impl ObjectMeta {
    /// The namespace, defaulted.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace
            .as_deref()
            .filter(|n| !n.is_empty())
            .unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Faults of the names.
    #[must_use]
    pub fn validate(&self) -> Vec<Fault> {
        let mut rules = Rules::default();
        let remedy = "use lower-case letters, digits, '-' and '.'";
        rules.check(
            names::is_subdomain(&self.name),
            "metadata.name",
            "is no object name",
            remedy,
        );
        let remedy = "use lower-case letters, digits and '-'";
        let namespace = "metadata.namespace";
        rules.check(
            names::is_label(self.namespace()),
            namespace,
            "is no namespace name",
            remedy,
        );
        rules.finish()
    }
}
