//! Schema of `spec.auth_config`.

use serde_json::json;

use super::schema::{Schema, boolean, list, object, one_of, text, word};
use crate::proxy_kube_api::validate::authentication::MAX_ISSUERS;

const EXACTLY_ONE: &str = "has(self.claim) != has(self.expression)";
const EXACTLY_ONE_MESSAGE: &str = "exactly one of claim and expression must be set";

pub(super) fn schema() -> Schema {
    object(
        "How callers are checked. Absent: against the cluster itself.",
        [
            ("jwt", list("Issuers whose tokens the gateway checks itself. Not supported yet.", jwt())
                .at_most(MAX_ISSUERS).default(json!([]))),
            ("oidc_provider", oidc_provider()),
            ("validate_against", word("Who says whether a token is good. OidcProvider and \
                JwtAuthenticators are not supported yet.",
                &["OidcProvider", "Kubernetes", "JwtAuthenticators"]).default("Kubernetes")),
            ("disable_validation", boolean("true: requests pass without the gateway asking who \
                sent them; the cluster still does.").default(false)),
            ("review", word("The question put to the cluster about a token: SelfSubjectReview \
                asks with the token itself, TokenReview with the gateway's credential. Absent: \
                SelfSubjectReview with PassThrough, TokenReview with Impersonate.",
                &["SelfSubjectReview", "TokenReview"])),
        ],
    )
    .rule(
        "self.validate_against != 'OidcProvider' || (has(self.oidc_provider) && self.oidc_provider.enabled)",
        "validate_against OidcProvider needs an enabled oidc_provider",
    )
    .rule(
        "self.validate_against != 'JwtAuthenticators' || size(self.jwt) > 0",
        "validate_against JwtAuthenticators needs at least one item of jwt",
    )
    .rule(
        "self.jwt.all(a, self.jwt.exists_one(b, a.issuer.url == b.issuer.url))",
        "each issuer of jwt must have its own url",
    )
}

fn jwt() -> Schema {
    let rule = object(
        "A claim with its value, or an expression with a message.",
        [
            ("claim", text("Name of the claim.").at_most(253)),
            (
                "required_value",
                text("Value that the claim must have.").at_most(1024),
            ),
            (
                "expression",
                text("CEL over claims that must be true.").at_most(4096),
            ),
            ("message", text("Why a token is refused.").at_most(1024)),
        ],
    )
    .rule(EXACTLY_ONE, EXACTLY_ONE_MESSAGE)
    .rule(
        "!has(self.required_value) || has(self.claim)",
        "required_value belongs to claim",
    )
    .rule(
        "!has(self.expression) || has(self.message)",
        "an expression needs a message",
    );
    let user_rule = object(
        "What the user must be.",
        [
            (
                "expression",
                text("CEL over user that must be true.")
                    .least(1)
                    .at_most(4096),
            ),
            (
                "message",
                text("Why a user is refused.").least(1).at_most(1024),
            ),
        ],
    )
    .required(&["expression", "message"]);
    object(
        "An issuer and what its tokens mean.",
        [
            ("issuer", issuer()),
            (
                "claim_validation_rules",
                list("What the claims must be.", rule).at_most(64),
            ),
            ("claim_mappings", mappings()),
            (
                "user_validation_rules",
                list("What the user must be.", user_rule).at_most(64),
            ),
        ],
    )
    .required(&["issuer", "claim_mappings"])
}

fn issuer() -> Schema {
    let https = |about: &str| text(about).pattern("^https://[^/?#]+[^?#]*$").at_most(512);
    object(
        "Who signs, and for whom.",
        [
            (
                "url",
                https("Claim iss, and base of the discovery document."),
            ),
            (
                "discovery_url",
                https("Discovery document, if it is elsewhere."),
            ),
            (
                "certificate_authority",
                text(
                    "Authorities of the issuer's server, PEM. Absent: those \
                of the gateway's system.",
                ),
            ),
            (
                "audiences",
                list(
                    "Accepted values of the claim aud.",
                    text("One audience.").least(1),
                )
                .at_most(64),
            ),
            (
                "audience_match_policy",
                word("How audiences are matched.", &["MatchAny"]).default("MatchAny"),
            ),
            (
                "egress_selector",
                word("Accepted for compatibility.", &["controlplane", "cluster"])
                    .default("controlplane"),
            ),
        ],
    )
    .required(&["url", "audiences"])
    .rule(
        "size(self.audiences) > 0",
        "at least one audience must be named",
    )
}

fn mappings() -> Schema {
    let prefixed = |about: &str| {
        object(
            about,
            [
                ("prefix", text("Put before the claim's value.").at_most(253)),
                ("claim", text("Name of the claim.").at_most(253)),
                ("expression", text("CEL over claims.").at_most(4096)),
            ],
        )
        .rule(EXACTLY_ONE, EXACTLY_ONE_MESSAGE)
        .rule(
            "has(self.claim) == has(self.prefix)",
            "claim and prefix belong together; \"\" is a prefix",
        )
    };
    let uid = object(
        "Where the user's identifier comes from.",
        [
            ("claim", text("Name of the claim.").at_most(253)),
            ("expression", text("CEL over claims.").at_most(4096)),
        ],
    )
    .rule(EXACTLY_ONE, EXACTLY_ONE_MESSAGE);
    let extra = object(
        "One further attribute.",
        [
            (
                "key",
                text("Its key, such as example.com/role.")
                    .least(1)
                    .at_most(512),
            ),
            (
                "value_expression",
                text("CEL over claims.").least(1).at_most(4096),
            ),
        ],
    )
    .required(&["key", "value_expression"]);
    object(
        "How claims become a user.",
        [
            ("username", prefixed("Where the user's name comes from.")),
            ("groups", prefixed("Where the groups come from.")),
            ("uid", uid),
            ("extra", list("Further attributes.", extra).at_most(64)),
        ],
    )
    .required(&["username"])
}

fn oidc_provider() -> Schema {
    let reference = object(
        "A Secret.",
        [
            ("name", text("Its name.").least(1).at_most(253)),
            (
                "namespace",
                text("Its namespace. Absent: that of this object.")
                    .least(1)
                    .at_most(63),
            ),
        ],
    )
    .required(&["name"]);
    object(
        "Provider of logins. Not supported yet when enabled.",
        [
            ("enabled", boolean("Whether it is used.").default(false)),
            ("issuer_url", text("Issuer URL.").default("")),
            (
                "client_id",
                text("The gateway's client identifier.").default(""),
            ),
            (
                "client_secret",
                text("The gateway's secret. Better in a Secret: see config_from."),
            ),
            ("extra_scope", text("Scopes besides the usual ones.")),
            ("audience", text("Accepted audience. Absent: client_id.")),
            (
                "accept_authorized_party",
                boolean("Whether the claim azp may stand in for the audience.").default(false),
            ),
            (
                "expose_oauth_authorization_server",
                boolean(
                    "Whether the gateway is an OAuth \
                authorization server for this cluster.",
                )
                .default(false),
            ),
            (
                "config_from",
                one_of(
                    "Object with the keys issuer_url, client_id, client_secret, \
                audience and extra_scope, which win over those written here.",
                    [("Secret", reference)],
                ),
            ),
        ],
    )
    .rule(
        "!self.enabled || has(self.config_from) || (self.issuer_url != '' && self.client_id != '')",
        "an enabled provider needs issuer_url and client_id, or config_from",
    )
    .rule(
        "!self.expose_oauth_authorization_server || self.enabled",
        "expose_oauth_authorization_server needs an enabled provider",
    )
}
