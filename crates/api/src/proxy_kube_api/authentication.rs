//! `spec.auth_config`: how callers are checked.

use portcullis_core::Redacted;
use serde::Deserialize;

use crate::secret_text;

/// How callers are checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthenticationConfig {
    /// Issuers whose tokens the gateway checks itself.
    pub jwt: Vec<JwtAuthenticator>,
    /// Provider of logins.
    pub oidc_provider: Option<OidcProvider>,
    /// Who says whether a token is good.
    pub validate_against: ValidateAgainst,
    /// Pass requests on without asking who sent them.
    pub disable_validation: bool,
    /// The question put to the target about a token; absent = by the upstream mode.
    pub review: Option<Review>,
}

/// Who says whether a token is good.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum ValidateAgainst {
    /// `oidc_provider`.
    OidcProvider,
    /// The target.
    #[default]
    Kubernetes,
    /// `jwt`.
    JwtAuthenticators,
}

/// The question put to the target about a token.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Review {
    /// "Who am I?", asked with the token.
    SelfSubjectReview,
    /// "Whose is this token?", asked with the gateway's credential.
    TokenReview,
}

/// An issuer whose tokens the gateway checks itself. Counterpart: `JWTAuthenticator` of
/// `apiserver.config.k8s.io`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtAuthenticator {
    /// Who signs, and for whom.
    pub issuer: Issuer,
    /// What the claims must be.
    #[serde(default)]
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// How claims become a user.
    pub claim_mappings: ClaimMappings,
    /// What the user must be.
    #[serde(default)]
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// Who signs tokens, and for whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Claim `iss`.
    pub url: String,
    /// Discovery document, if it is not below `url`.
    #[serde(default)]
    pub discovery_url: Option<String>,
    /// Authorities of the issuer's server, PEM.
    #[serde(default)]
    pub certificate_authority: Option<String>,
    /// Accepted values of the claim `aud`.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// How they are matched.
    #[serde(default)]
    pub audience_match_policy: AudienceMatchPolicy,
    /// Accepted for compatibility.
    #[serde(default)]
    pub egress_selector: EgressSelector,
}

/// How audiences are matched.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum AudienceMatchPolicy {
    /// One of them is enough.
    #[default]
    MatchAny,
}

/// Where connections to an issuer start.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EgressSelector {
    /// At the control plane.
    #[default]
    ControlPlane,
    /// In the cluster.
    Cluster,
}

/// What a claim must be: `claim` with `required_value`, or `expression` with `message`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimValidationRule {
    /// Name of the claim.
    pub claim: Option<String>,
    /// Its value.
    pub required_value: Option<String>,
    /// CEL over `claims`.
    pub expression: Option<String>,
    /// Why a token is refused.
    pub message: Option<String>,
}

/// How claims become a user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimMappings {
    /// The name; required.
    pub username: Option<PrefixedClaim>,
    /// The groups.
    pub groups: Option<PrefixedClaim>,
    /// The identifier.
    pub uid: Option<ClaimOrExpression>,
    /// Further attributes.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrefixedClaim {
    /// Put before the claim's value; required with `claim`.
    pub prefix: Option<String>,
    /// Name of the claim.
    pub claim: Option<String>,
    /// CEL over `claims`.
    pub expression: Option<String>,
}

/// A claim, or an expression.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimOrExpression {
    /// Name of the claim.
    pub claim: Option<String>,
    /// CEL over `claims`.
    pub expression: Option<String>,
}

/// One further attribute of a user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraMapping {
    /// Its key.
    pub key: String,
    /// CEL over `claims`.
    #[serde(default)]
    pub value_expression: String,
}

/// What a user must be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserValidationRule {
    /// CEL over `user`.
    pub expression: String,
    /// Why a user is refused.
    pub message: String,
}

/// Provider of logins.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OidcProvider {
    /// Whether it is used.
    pub enabled: bool,
    /// Its issuer URL.
    pub issuer_url: String,
    /// The gateway's client identifier there.
    pub client_id: String,
    /// The gateway's secret there.
    #[serde(deserialize_with = "secret_text::optional")]
    pub client_secret: Option<Redacted<String>>,
    /// Scopes besides the usual ones.
    pub extra_scope: Option<String>,
    /// Accepted audience; absent = `client_id`.
    pub audience: Option<String>,
    /// Whether `azp` may stand in for the audience.
    pub accept_authorized_party: bool,
    /// Whether the gateway is an OAuth authorization server for this cluster.
    pub expose_oauth_authorization_server: bool,
    /// Object with values that win over those written here.
    pub config_from: Option<ConfigFrom>,
}

/// Object with the values of a provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ConfigFrom {
    /// A Secret.
    Secret(ObjectReference),
}

/// An object of some namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectReference {
    /// Its name.
    pub name: String,
    /// Its namespace; absent = that of the `ProxyKubeApi`.
    #[serde(default)]
    pub namespace: Option<String>,
}
