//! The clusters that are served at one moment.
//!
//! Invariant: a cluster that did not change keeps its [`Arc`] from one snapshot to the next, so
//! pools and caches that belong to it survive a reload.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use portcullis_authz::AllowedResources;
use portcullis_core::Redacted;

/// All clusters, whatever their state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// By namespace and name of the `ProxyKubeApi`.
    pub clusters: BTreeMap<ClusterKey, Arc<ClusterConfig>>,
}

/// Namespace and name of a `ProxyKubeApi`. Counterpart: `types.NamespacedName`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl ClusterKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// `namespace/name`.
impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How one cluster is served.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// Which object this is.
    pub key: ClusterKey,
    /// Lower-case host names by which the cluster answers besides its path.
    pub hosts: Vec<String>,
    /// Whether requests are taken at all.
    pub state: ClusterState,
    /// Where requests go.
    pub upstream: Upstream,
    /// As whom requests go on.
    pub mode: UpstreamMode,
    /// The gateway's own identity at the target.
    pub credential: GatewayCredential,
    /// How callers are checked.
    pub authentication: Authentication,
    /// What callers may ask.
    pub security: Security,
    /// The group that a caller must be a member of.
    pub proxy_group: Option<String>,
}

impl ClusterConfig {
    /// A cluster that takes no requests, so that only its names and its state matter.
    #[must_use]
    pub fn without_upstream(key: ClusterKey, hosts: Vec<String>, state: ClusterState) -> Self {
        Self {
            key,
            hosts,
            state,
            upstream: Upstream {
                host: String::new(),
                port: 0,
                path_prefix: String::new(),
                connect_host: None,
                trust: Trust::SystemRoots,
            },
            mode: UpstreamMode::default(),
            credential: GatewayCredential::None,
            authentication: Authentication::default(),
            security: Security::default(),
            proxy_group: None,
        }
    }
}

/// Whether a cluster takes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It does.
    Serving,
    /// Its owner switched it off: it answers as if it did not exist.
    Disabled,
    /// It cannot be served as written; callers get the reason.
    Refused {
        /// What is wrong, in words for the cluster's owner.
        reason: String,
    },
}

/// The target API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Name for TLS and `Host`.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// `""` or `/x/y`: put before every path; no trailing slash.
    pub path_prefix: String,
    /// Address to dial when it differs from `host`, e.g. the cluster IP of a Service.
    pub connect_host: Option<String>,
    /// Which certificates are believed.
    pub trust: Trust,
}

/// Which server certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by an authority of the system's store.
    SystemRoots,
    /// Those signed by an authority of this PEM bundle.
    Pem(Vec<u8>),
    /// Any at all: the connection can be intercepted.
    Insecure,
}

/// As whom requests reach the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamMode {
    /// With the caller's own credential.
    #[default]
    PassThrough,
    /// With the gateway's credential and impersonation headers.
    Impersonate,
}

/// The gateway's own identity at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayCredential {
    /// It has none.
    None,
    /// A bearer token.
    Token(Redacted<String>),
    /// A file with a bearer token that is replaced from time to time.
    TokenFile(PathBuf),
    /// A client certificate.
    ClientCertificate {
        /// Certificate chain, PEM.
        cert_pem: Vec<u8>,
        /// Private key, PEM.
        key_pem: Redacted<Vec<u8>>,
    },
}

/// How callers are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Pass requests on without asking who sent them.
    pub disable_validation: bool,
    /// The question put to the target about a bearer token.
    pub review: Review,
}

/// The question put to the target about a bearer token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Review {
    /// `SelfSubjectReview`, asked with the token itself.
    #[default]
    SelfSubject,
    /// `TokenReview`, asked with the gateway's credential.
    Token,
}

/// What callers may ask, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Paths and resources that may be called; `None` = every one.
    pub allowed_resources: Option<AllowedResources>,
    /// What happens after failed logins.
    pub ban: Option<BanSettings>,
    /// Requests per user and minute.
    pub rate_limit: Option<u32>,
    /// Requests per user and minute by group; of several, the most permissive counts.
    pub group_rate_limits: Vec<GroupRateLimit>,
}

/// What happens to an address after failed logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanSettings {
    /// Failures before the ban.
    pub max_failed_logins: u32,
    /// How long it lasts; `None` = until the gateway restarts.
    pub ban_duration: Option<Duration>,
    /// Whether each further ban lasts twice as long.
    pub exponential_backoff: bool,
}

/// A limit for the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRateLimit {
    /// Group name.
    pub group: String,
    /// Requests per user and minute.
    pub max_requests_per_minute: u32,
}
