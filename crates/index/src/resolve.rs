//! From a `ProxyKubeApi` to the configuration of a cluster.
//!
//! Invariant: the result depends on the object and on what it refers to, on nothing else; every
//! fault names a field of the object.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use portcullis_api::proxy_kube_api::security::{
    AllowedResource, NamespaceRule as WrittenNamespaceRule,
};
use portcullis_api::proxy_kube_api::{
    ProxyKubeApiSpec, Review as WrittenReview, SecurityConfig, UpstreamMode as WrittenMode,
};
use portcullis_authz::AllowedResources;
use portcullis_authz::allowed_resources::{NamespaceRule, Rule};
use portcullis_core::Redacted;
use portcullis_core::yaml::Fault;

use crate::snapshot::{
    Authentication, BanSettings, ClusterConfig, ClusterKey, ClusterState, GroupRateLimit, Review,
    Security, UpstreamMode,
};

mod material;
mod upstream;

/// What objects may refer to.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// Whether Secrets and ConfigMaps of other namespaces may be used.
    pub cross_namespace: bool,
    /// Whether files of the gateway may be used.
    pub files: Files<'a>,
}

/// Whether files of the gateway may be used.
#[derive(Clone, Copy, Debug)]
pub enum Files<'a> {
    /// They may; relative paths mean this folder.
    In(&'a Path),
    /// They may, by absolute path.
    Absolute,
    /// They may not: whoever wrote the object must not choose what the gateway reads.
    Refused,
}

/// Values of a Secret.
pub type SecretValues = BTreeMap<String, Redacted<Vec<u8>>>;
/// Values of a ConfigMap.
pub type ConfigMapValues = BTreeMap<String, Vec<u8>>;

/// The objects that a `ProxyKubeApi` can refer to, as they are known now.
pub trait References {
    /// The values of a Secret.
    ///
    /// # Errors
    /// Why they are not known, in words that go behind the field's name.
    fn secret(&self, namespace: &str, name: &str) -> Result<&SecretValues, String>;

    /// The values of a ConfigMap.
    ///
    /// # Errors
    /// As [`References::secret`].
    fn config_map(&self, namespace: &str, name: &str) -> Result<&ConfigMapValues, String>;

    /// A Service; `None` where Services are not known at all.
    ///
    /// # Errors
    /// As [`References::secret`].
    fn service(&self, namespace: &str, name: &str) -> Result<Option<&ServicePorts>, String>;
}

/// What matters of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePorts {
    /// Address inside the cluster, unless it is headless or an alias.
    pub cluster_ip: Option<String>,
    /// Names and numbers, in order.
    pub ports: Vec<(Option<String>, u16)>,
}

/// What one cluster is resolved with.
#[derive(Clone, Copy)]
struct Context<'a> {
    namespace: &'a str,
    policy: &'a Policy<'a>,
    references: &'a dyn References,
}

/// The configuration of a cluster that is switched on and has passed `validate`.
pub(crate) fn cluster(
    key: &ClusterKey,
    spec: &ProxyKubeApiSpec,
    policy: &Policy<'_>,
    references: &dyn References,
) -> Result<ClusterConfig, Vec<Fault>> {
    let context = Context {
        namespace: &key.namespace,
        policy,
        references,
    };
    let mut faults = Vec::new();
    let upstream = upstream::upstream(spec, context, &mut faults);
    let credential = keep(material::gateway_credential(spec, context), &mut faults);
    let security = spec.security_config.as_ref().map(security).transpose();
    let security = keep(security.map_err(|fault| vec![fault]), &mut faults);
    match (upstream, credential, security) {
        (Some(upstream), Some(credential), Some(security)) if faults.is_empty() => {
            Ok(ClusterConfig {
                key: key.clone(),
                hosts: spec.hosts.clone(),
                state: ClusterState::Serving,
                upstream,
                mode: match spec.upstream_mode {
                    WrittenMode::PassThrough => UpstreamMode::PassThrough,
                    WrittenMode::Impersonate => UpstreamMode::Impersonate,
                },
                credential,
                authentication: authentication(spec),
                security: security.unwrap_or_default(),
                proxy_group: spec.proxy_group.clone(),
            })
        }
        _ => Err(faults),
    }
}

fn keep<T>(result: Result<T, Vec<Fault>>, faults: &mut Vec<Fault>) -> Option<T> {
    result.map_err(|found| faults.extend(found)).ok()
}

fn authentication(spec: &ProxyKubeApiSpec) -> Authentication {
    Authentication {
        disable_validation: spec
            .auth_config
            .as_ref()
            .is_some_and(|auth| auth.disable_validation),
        review: match spec.review() {
            WrittenReview::SelfSubjectReview => Review::SelfSubject,
            WrittenReview::TokenReview => Review::Token,
        },
    }
}

fn security(written: &SecurityConfig) -> Result<Security, Fault> {
    if !written.enabled {
        return Ok(Security::default());
    }
    let (fields, rules): (Vec<_>, Vec<_>) = written
        .rules()
        .map(|(field, rule)| (field, allowed(rule)))
        .unzip();
    let none = rules.is_empty();
    let allowed_resources = AllowedResources::new(rules).map_err(|error| {
        let field = fields
            .get(error.index)
            .map_or("security_config.allowed_resources", |f| f);
        Fault::new(format!("spec.{field}"), error.problem, error.remedy)
    })?;
    let ban = &written.fail2login_equal_ban;
    let rate = &written.rate_limiting;
    Ok(Security {
        allowed_resources: (!none).then_some(allowed_resources),
        ban: ban.enabled.then(|| BanSettings {
            max_failed_logins: ban.max_failed_logins,
            ban_duration: (ban.ban_duration > 0)
                .then(|| Duration::from_secs(u64::from(ban.ban_duration))),
            exponential_backoff: ban.exponential_backoff,
        }),
        rate_limit: (rate.enabled && rate.max_requests_per_minute > 0)
            .then_some(rate.max_requests_per_minute),
        group_rate_limits: written
            .per_user_group_rate_limiting
            .iter()
            .map(|limit| GroupRateLimit {
                group: limit.group.clone(),
                max_requests_per_minute: limit.max_requests_per_minute,
            })
            .collect(),
    })
}

fn allowed(written: &AllowedResource) -> Rule {
    match written {
        AllowedResource::Path(path) => Rule::Path {
            path: path.path.clone(),
            parametised: path.parametised,
        },
        AllowedResource::Crd(crd) => Rule::Crd {
            group: crd.group.clone(),
            version: crd.version.clone(),
            kind: crd.kind.clone(),
            plural: crd.plural.clone(),
            namespaced: crd.namespaced,
            namespace: crd
                .namespace
                .as_ref()
                .filter(|access| access.enabled)
                .map(|access| match access.rule_kind.clone() {
                    WrittenNamespaceRule::AllowedNamespaces(names) => {
                        NamespaceRule::AllowedNamespaces(names)
                    }
                    WrittenNamespaceRule::DeniedNamespaces(names) => {
                        NamespaceRule::DeniedNamespaces(names)
                    }
                    WrittenNamespaceRule::ParametisedRule(pattern) => {
                        NamespaceRule::ParametisedRule(pattern)
                    }
                }),
        },
    }
}

#[cfg(test)]
mod tests;
