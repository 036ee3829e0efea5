//! `ProxyKubeApi` of `weebo.si.rs/v1`: one cluster behind the gateway.
//!
//! Purpose: read every object that was written for ProxyAuthK8S, plus the fields that are ours.
//! Invariant: a field is enforced, or has a notice that it has no effect, or refuses the cluster
//! as not supported yet. None is dropped silently.
//! Upstream counterpart: the custom resource `proxykubeapis.weebo.si.rs`.

use std::path::PathBuf;

use serde::Deserialize;

use crate::metadata::ObjectMeta;

pub mod authentication;
pub mod certificate;
pub mod security;
mod crd;
mod effect;
mod validate;

pub use authentication::{AuthenticationConfig, Review};
pub use certificate::{Certificate, ClientCertificate, KeyReference, Material};
pub use crd::crd;
pub use security::SecurityConfig;

/// API group of the object.
pub const GROUP: &str = "weebo.si.rs";
/// Version of the object.
pub const VERSION: &str = "v1";
/// `apiVersion` of the object.
pub const API_VERSION: &str = "weebo.si.rs/v1";
/// `kind` of the object.
pub const KIND: &str = "ProxyKubeApi";
/// Resource name in paths.
pub const PLURAL: &str = "proxykubeapis";
/// Most host names of one cluster.
pub const MAX_HOSTS: usize = 64;

/// The whole object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProxyKubeApi {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Name and namespace, which make the cluster's path.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    pub spec: ProxyKubeApiSpec,
    #[serde(default, rename = "status")]
    _status: Option<serde::de::IgnoredAny>,
}

/// What the owner of a cluster wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyKubeApiSpec {
    /// Whether the cluster is served at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Host names by which the cluster answers besides its path.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Which server certificates of the target are believed.
    pub cert: Certificate,
    /// Where the target is.
    pub service: Service,
    /// How callers are checked; absent = against the target.
    #[serde(default)]
    pub auth_config: Option<AuthenticationConfig>,
    /// What callers may ask; absent = everything.
    #[serde(default)]
    pub security_config: Option<SecurityConfig>,
    /// Without effect: there is no dashboard.
    #[serde(default)]
    pub expose_via_dashboard: Option<bool>,
    /// Without effect: there is no dashboard.
    #[serde(default)]
    pub dashboard_group: Option<String>,
    /// The group that a caller must be a member of.
    #[serde(default)]
    pub proxy_group: Option<String>,
    /// A client certificate as the gateway's identity at the target.
    #[serde(default)]
    pub client_cert: Option<ClientCertificate>,
    /// APIs that the target lacks.
    #[serde(default)]
    pub virtual_apis: Vec<VirtualApi>,
    /// As whom requests reach the target.
    #[serde(default)]
    pub upstream_mode: UpstreamMode,
    /// The gateway's own identity at the target.
    #[serde(default)]
    pub gateway_credential: Option<GatewayCredential>,
}

/// Where the target is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Service {
    /// A Service of the cluster the object lives in.
    KubernetesService(KubernetesService),
    /// Any URL.
    ExternalService(ExternalService),
}

/// A Service of the cluster the object lives in. Always TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesService {
    /// Name.
    pub name: String,
    /// Namespace; absent = that of the object.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Port number.
    #[serde(default)]
    pub port: Option<u16>,
    /// Port name, if no number is given. Neither = the Service's first port.
    #[serde(default)]
    pub port_name: Option<String>,
}

/// Any URL.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalService {
    /// `https://HOST[:PORT][/PREFIX]`.
    pub url: String,
}

/// An API that the target lacks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualApi {
    /// Which one.
    pub kind: VirtualApiKind,
    /// Whether it is served.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Token for lists that callers may not make themselves.
    #[serde(default)]
    pub list_fallback_token: Option<Certificate>,
}

/// APIs that can be added.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum VirtualApiKind {
    /// `project.openshift.io/v1`.
    OpenShiftProject,
}

/// As whom requests reach the target.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum UpstreamMode {
    /// With the caller's own credential.
    #[default]
    PassThrough,
    /// With the gateway's credential and impersonation headers.
    Impersonate,
}

/// The gateway's own identity at the target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum GatewayCredential {
    /// A file with a token, read again when it is replaced.
    TokenFile(TokenFile),
    /// A token.
    Token(TokenSource),
    /// Files with a client certificate.
    ClientCertFile(ClientCertFile),
}

/// A file with a token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    /// Its path.
    pub path: PathBuf,
}

/// Where a token stands.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum TokenSource {
    /// In a Secret.
    Secret(KeyReference),
}

/// Files with a client certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertFile {
    /// Certificate chain, PEM.
    pub cert_path: PathBuf,
    /// Private key, PEM.
    pub key_path: PathBuf,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum ApiVersion {
    #[serde(rename = "weebo.si.rs/v1")]
    V1,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Kind {
    ProxyKubeApi,
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;
