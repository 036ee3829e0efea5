//! Who is asking.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Group of every caller whose identity was established.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// Group of every caller whose identity was not established.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// User name of a caller whose identity was not established.
pub const ANONYMOUS: &str = "system:anonymous";
/// Prefix of a service account's user name: `system:serviceaccount:<namespace>:<name>`.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Group of every service account.
pub const ALL_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// A caller as the API server knows it. Counterpart: `authentication.k8s.io/v1 UserInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// User name; never empty for an authenticated caller.
    pub username: String,
    /// Identifier that stays when the name is reused; empty when unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Group memberships in the order the authenticator gave them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further attributes, each with its values, keyed by lower-case key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Whether the caller is a member of `group`.
    #[must_use]
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// Splits `system:serviceaccount:<namespace>:<name>`; `None` for any other user name.
///
/// Both parts must be non-empty DNS names, as `serviceaccount.SplitUsername` demands.
#[must_use]
pub fn split_service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username
        .strip_prefix(SERVICE_ACCOUNT_PREFIX)?
        .split_once(':')?;
    let label = |s: &str| {
        !s.is_empty()
            && s.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !s.starts_with('-')
            && !s.ends_with('-')
    };
    let namespace_ok = namespace.len() <= 63 && label(namespace);
    let name_ok = name.len() <= 253 && name.split('.').all(label);
    (namespace_ok && name_ok).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::split_service_account;

    #[test]
    fn service_account_names_split_only_when_both_parts_are_valid() {
        assert_eq!(
            split_service_account("system:serviceaccount:a:b"),
            Some(("a", "b"))
        );
        assert_eq!(
            split_service_account("system:serviceaccount:a:b.c"),
            Some(("a", "b.c"))
        );
        for other in [
            "system:serviceaccount:a:",
            "system:serviceaccount::b",
            "alice",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount:A:b",
        ] {
            assert_eq!(split_service_account(other), None, "{other}");
        }
    }
}
