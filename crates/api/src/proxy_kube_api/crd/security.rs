//! Schema of `spec.security_config`.

use super::schema::{Schema, boolean, integer, list, object, one_of, text};

/// Most rules of a list.
const MAX_RULES: usize = 512;
const U32_MAX: i64 = u32::MAX as i64;

pub(super) fn schema() -> Schema {
    let rules = |about: &str| list(about, rule()).at_most(MAX_RULES);
    object(
        "What callers may ask, and how often.",
        [
            (
                "enabled",
                boolean("false: nothing of this section is enforced.").default(true),
            ),
            (
                "allowed_resources",
                rules("What may be called. Empty or absent: everything."),
            ),
            (
                "allowed_ressources",
                rules("Old spelling of allowed_resources; both lists count."),
            ),
            ("fail2login_equal_ban", ban()),
            (
                "per_user_group_rate_limiting",
                list(
                    "Limits for members of groups, before \
                rate_limiting; of several, the most permissive counts.",
                    group_limit(),
                )
                .at_most(256),
            ),
            ("rate_limiting", rate()),
        ],
    )
}

fn rule() -> Schema {
    let path = object(
        "A path.",
        [
            (
                "path",
                text("Absolute path without the cluster's prefix. Exact unless parametised.")
                    .pattern("^/")
                    .at_most(4096),
            ),
            (
                "parametised",
                boolean(
                    "Whether * (within a segment), ** (last segment: all that \
                follows), {{username}} and {{group}} have a meaning in the path.",
                )
                .default(false),
            ),
            (
                "allowed_ports",
                list(
                    "Ports of a port-forward. Not supported yet.",
                    text("8080 or 9000-9100.").pattern("^[0-9]{1,5}(-[0-9]{1,5})?$"),
                )
                .at_most(64),
            ),
        ],
    )
    .required(&["path"]);
    one_of(
        "A path, or a resource.",
        [("Path", path), ("Crd", resource())],
    )
}

fn resource() -> Schema {
    let names = |about: &str| list(about, text("A namespace.").least(1).at_most(63)).at_most(1024);
    let rule = one_of(
        "Which namespaces.",
        [
            ("AllowedNamespaces", names("These and no other.")),
            ("DeniedNamespaces", names("All but these.")),
            (
                "ParametisedRule",
                text(
                    "Those that match this name, in which *, {{username}} and \
                {{group}} have a meaning.",
                )
                .least(1)
                .at_most(253),
            ),
        ],
    );
    let namespace = object(
        "In which namespaces the resource may be called.",
        [
            (
                "enabled",
                boolean("Whether the rule counts.").default(false),
            ),
            ("rule_kind", rule),
        ],
    )
    .required(&["rule_kind"]);
    object(
        "A resource, with its objects and subresources.",
        [
            (
                "group",
                text("API group; empty for the core group.").at_most(253),
            ),
            ("version", text("API version.").least(1).at_most(63)),
            ("kind", text("Kind.").least(1).at_most(63)),
            (
                "plural",
                text("Resource name in paths. Absent: guessed from the kind.")
                    .least(1)
                    .at_most(253),
            ),
            ("namespace", namespace),
            (
                "namespaced",
                boolean("Whether its objects live in namespaces.").default(true),
            ),
        ],
    )
    .required(&["group", "version", "kind"])
}

fn ban() -> Schema {
    object(
        "What happens after failed logins from one address.",
        [
            (
                "enabled",
                boolean("Whether anything happens.").default(false),
            ),
            (
                "max_failed_logins",
                integer("Failures before the ban.", 1, U32_MAX).default(5),
            ),
            (
                "ban_duration",
                integer("Seconds; 0 = until the gateway restarts.", 0, U32_MAX).default(300),
            ),
            (
                "exponential_backoff",
                boolean("Whether each further ban lasts twice as long.").default(false),
            ),
        ],
    )
}

fn group_limit() -> Schema {
    object(
        "A limit for each member of a group.",
        [
            ("group", text("Name of the group.").least(1)),
            (
                "max_requests_per_minute",
                integer("Requests per user and minute; 0 = no limit.", 0, U32_MAX),
            ),
            (
                "claim",
                text("Accepted without effect: groups are those that authentication finds."),
            ),
        ],
    )
    .required(&["group", "max_requests_per_minute"])
}

fn rate() -> Schema {
    object(
        "A limit for each user.",
        [
            ("enabled", boolean("Whether it counts.").default(false)),
            (
                "max_requests_per_minute",
                integer("Requests per user and minute; 0 = no limit.", 0, U32_MAX).default(60),
            ),
        ],
    )
}
