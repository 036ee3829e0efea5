//! What Kubernetes accepts as a name.
//!
//! Upstream counterpart: `k8s.io/apimachinery/pkg/util/validation`.

/// A DNS label: the form of namespaces and Services (RFC 1123).
#[must_use]
pub fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_part(name)
}

/// DNS labels joined by dots, at most 253 bytes in all: the form of most names.
#[must_use]
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_part)
}

/// Lower-case letters, digits and inner dashes.
fn is_part(part: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let bytes = part.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}

/// A host name that clients can put into a URL: a subdomain of labels, and no address.
#[must_use]
pub fn is_host(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253 && name.split('.').all(is_label) && !last.bytes().all(|b| b.is_ascii_digit())
}

/// A key of a Secret or ConfigMap.
#[must_use]
pub fn is_data_key(key: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !key.is_empty()
        && key.len() <= 253
        && key.bytes().all(allowed)
        && key != "."
        && !key.starts_with("..")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a", true, true)]
    #[case("a-1.b", true, true)]
    #[case("0a", true, true)]
    #[case("10.0.0.1", true, false)]
    #[case("", false, false)]
    #[case("a.", false, false)]
    #[case("-a", false, false)]
    #[case("a-", false, false)]
    #[case("A", false, false)]
    #[case("a_b", false, false)]
    #[case("*.a", false, false)]
    #[case("a..b", false, false)]
    #[case("a/b", false, false)]
    fn names_are_told_apart(#[case] name: &str, #[case] subdomain: bool, #[case] host: bool) {
        assert_eq!(
            (is_subdomain(name), is_host(name)),
            (subdomain, host),
            "{name}"
        );
    }

    #[test]
    fn lengths_have_an_end() {
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
        assert!(is_subdomain(&"a".repeat(253)) && !is_subdomain(&"a".repeat(254)));
        assert!(is_data_key(&"a".repeat(253)) && !is_data_key(&"a".repeat(254)));
    }

    #[rstest]
    #[case("tls.crt", true)]
    #[case("A_b-c", true)]
    #[case(".x", true)]
    #[case("", false)]
    #[case(".", false)]
    #[case("..x", false)]
    #[case("a/b", false)]
    fn data_keys_are_file_names(#[case] key: &str, #[case] ok: bool) {
        assert_eq!(is_data_key(key), ok);
    }
}
