//! `spec.security_config`: what callers may ask, and how often.

use serde::Deserialize;

use super::yes;

/// What callers may ask, and how often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityConfig {
    /// Whether the rest of this section is enforced.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Paths and resources that may be called; none = every one.
    #[serde(default)]
    pub allowed_resources: Vec<AllowedResource>,
    /// Old spelling of `allowed_resources`; both lists count.
    #[serde(default)]
    pub allowed_ressources: Vec<AllowedResource>,
    /// What happens after failed logins.
    #[serde(default)]
    pub fail2login_equal_ban: Fail2LoginEqualBan,
    /// Limits for members of groups.
    #[serde(default)]
    pub per_user_group_rate_limiting: Vec<GroupRateLimiting>,
    /// Limit for everybody else.
    #[serde(default)]
    pub rate_limiting: RateLimiting,
}

/// Something that may be called.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum AllowedResource {
    /// A path.
    Path(AllowedPath),
    /// A resource.
    Crd(AllowedCrd),
}

/// A path that may be called.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedPath {
    /// Absolute, without the cluster's prefix.
    pub path: String,
    /// Whether `*`, `**`, `{{username}}` and `{{group}}` have a meaning in it.
    #[serde(default)]
    pub parametised: bool,
    /// Ports of a port-forward: `8080` or `9000-9100`.
    #[serde(default)]
    pub allowed_ports: Option<Vec<String>>,
}

/// A resource that may be called.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedCrd {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Resource name in paths; absent = guessed from the kind.
    #[serde(default)]
    pub plural: Option<String>,
    /// In which namespaces.
    #[serde(default)]
    pub namespace: Option<NamespacedAccess>,
    /// Whether its objects live in namespaces.
    #[serde(default = "yes")]
    pub namespaced: bool,
}

/// In which namespaces a resource may be called.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespacedAccess {
    /// Whether the rule counts.
    #[serde(default)]
    pub enabled: bool,
    /// The rule.
    pub rule_kind: NamespaceRule,
}

/// Which namespaces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum NamespaceRule {
    /// These.
    AllowedNamespaces(Vec<String>),
    /// All but these.
    DeniedNamespaces(Vec<String>),
    /// Those that match a pattern.
    ParametisedRule(String),
}

/// What happens after failed logins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fail2LoginEqualBan {
    /// Whether anything happens.
    pub enabled: bool,
    /// Failures before the ban.
    pub max_failed_logins: u32,
    /// Seconds; 0 = forever.
    pub ban_duration: u32,
    /// Whether each further ban lasts twice as long.
    pub exponential_backoff: bool,
}

/// A limit for the members of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRateLimiting {
    /// Name of the group.
    pub group: String,
    /// Requests per user and minute; 0 = no limit.
    pub max_requests_per_minute: u32,
    /// Without effect: groups are those that authentication finds.
    #[serde(default)]
    pub claim: Option<String>,
}

/// A limit for everybody.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimiting {
    /// Whether it counts.
    pub enabled: bool,
    /// Requests per user and minute; 0 = no limit.
    pub max_requests_per_minute: u32,
}

impl Default for Fail2LoginEqualBan {
    fn default() -> Self {
        Self {
            enabled: false,
            max_failed_logins: 5,
            ban_duration: 300,
            exponential_backoff: false,
        }
    }
}

impl Default for RateLimiting {
    fn default() -> Self {
        Self {
            enabled: false,
            max_requests_per_minute: 60,
        }
    }
}
