//! ProxyKubeApi objects: a cluster as the gateway is told of it.

use serde_json::{Value, json};

use super::merge;
use crate::Result;
use crate::control_plane::{ControlPlane, User};
use crate::fakeup::FakeUpstream;
use crate::yaml;

/// How the gateway speaks for its callers at the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamMode {
    /// The caller's own credential goes on.
    PassThrough,
    /// The gateway's credential and impersonation headers.
    Impersonate,
}

/// One ProxyKubeApi object.
#[derive(Debug, Clone)]
pub struct Cluster {
    namespace: String,
    name: String,
    spec: Value,
}

impl Cluster {
    /// The control plane as cluster `default/kube`, callers' credentials passed through.
    pub fn of(plane: &ControlPlane) -> Self {
        Self::new(
            "default",
            "kube",
            json!({
                "service": {"ExternalService": {"url": plane.url()}},
                "cert": {"File": {"path": plane.ca_file()}},
            }),
        )
    }

    /// The control plane as cluster `default/kube` in the given mode; to impersonate, the gateway
    /// uses the client certificate of the test user `gateway`.
    ///
    /// # Errors
    /// When the control plane has no such user.
    pub fn in_mode(plane: &ControlPlane, mode: UpstreamMode) -> Result<Self> {
        let cluster = Self::of(plane);
        Ok(match mode {
            UpstreamMode::PassThrough => cluster,
            UpstreamMode::Impersonate => cluster.impersonate(plane.user("gateway")?),
        })
    }

    /// A scripted upstream as cluster `default/fake`, reached below `/pfx/a`. Whoever calls is let
    /// through unchecked: the upstream reviews nobody.
    pub fn fake(upstream: &FakeUpstream) -> Self {
        Self::new(
            "default",
            "fake",
            json!({
                "service": {"ExternalService": {"url": format!("{}/pfx/a", upstream.url())}},
                "cert": {"Cert": upstream.ca_pem()},
                "auth_config": {"disable_validation": true},
            }),
        )
    }

    /// Any other object.
    pub fn new(namespace: &str, name: &str, spec: Value) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            spec,
        }
    }

    /// Under another namespace and name.
    #[must_use]
    pub fn named(mut self, namespace: &str, name: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        name.clone_into(&mut self.name);
        self
    }

    /// In mode Impersonate, with the user's client certificate as the gateway's credential.
    #[must_use]
    pub fn impersonate(self, user: &User) -> Self {
        self.with(json!({
            "upstream_mode": "Impersonate",
            "gateway_credential":
                {"ClientCertFile": {"cert_path": user.cert_file, "key_path": user.key_file}},
        }))
    }

    /// Only these items of `security_config.allowed_resources`.
    #[must_use]
    pub fn allowed_resources(self, items: &Value) -> Self {
        self.with(json!({"security_config": {"allowed_resources": items}}))
    }

    /// Answering by these host names too.
    #[must_use]
    pub fn hosts(self, hosts: &[&str]) -> Self {
        self.with(json!({"hosts": hosts}))
    }

    /// With these fields merged over `spec` (RFC 7396: null removes).
    #[must_use]
    pub fn with(mut self, spec: Value) -> Self {
        merge(&mut self.spec, spec);
        self
    }

    /// Its path at the gateway.
    pub fn path(&self) -> String {
        format!("/clusters/{}/{}", self.namespace, self.name)
    }

    pub(super) fn file_name(&self) -> String {
        format!("{}.{}.yaml", self.namespace, self.name)
    }

    pub(super) fn manifest(&self) -> String {
        yaml::to_string(&json!({
            "apiVersion": "weebo.si.rs/v1",
            "kind": "ProxyKubeApi",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self.spec,
        }))
    }
}
