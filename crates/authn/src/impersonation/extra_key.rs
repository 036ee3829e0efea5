//! Keys of extra attributes, which stand escaped in a header's name.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::go_text::quote;

/// Undoes one layer of percent-encoding. A key with a broken escape is taken as it stands;
/// `None` if the result is not UTF-8.
pub(super) fn unescape(encoded: &str) -> Option<Cow<'_, str>> {
    if !encoded.contains('%') {
        return Some(Cow::Borrowed(encoded));
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let hex = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
        match (hex(rest.first()), hex(rest.get(1))) {
            (Some(high), Some(low)) => decoded.push(u8::try_from(high * 16 + low).ok()?),
            _ => return Some(Cow::Borrowed(encoded)),
        }
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// Escapes a key so that [`unescape`] of the lower-cased result gives it back.
///
/// As client-go does, except that upper case is escaped too: the receiver lower-cases names, and
/// would otherwise see another key.
pub(super) fn escape(key: &str) -> String {
    let plain =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$&'*+-.^_`|~".contains(&b);
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}

/// Why constrained impersonation does not take an extra attribute, in upstream's words.
pub(super) fn constrained_fault(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(fault) = domain_prefixed_path_fault(key) {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: {fault}"
        ));
    }
    if key.chars().any(char::is_uppercase) {
        let key = quote(key);
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {key}"
        ));
    }
    if values.is_empty() {
        return Some("impersonating empty values in extra is not allowed".to_owned());
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// Counterpart: `validation.IsDomainPrefixedPath` under the field `extra.key`.
fn domain_prefixed_path_fault(key: &str) -> Option<String> {
    let fault =
        |value: &str, why: &str| format!("extra.key: Invalid value: {}: {why}", quote(value));
    let (host, path) = match key.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ => {
            return Some(fault(
                key,
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            ));
        }
    };
    let mut faults = Vec::new();
    if host.len() > 253 {
        faults.push(fault(host, "must be no more than 253 characters"));
    }
    if !is_subdomain(host) {
        faults.push(fault(host, concat!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, ",
            "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', ",
            "regex used for validation is ",
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )));
    }
    let in_path = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !path.bytes().all(in_path) {
        faults.push(fault(
            path,
            concat!(
                "Invalid path (regex used for validation is ",
                "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
            ),
        ));
    }
    match faults.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Labels of lower-case letters, digits and inner hyphens, separated by dots. Any length.
pub(super) fn is_subdomain(name: &str) -> bool {
    name.split('.').all(|label| {
        let ends = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        label.as_bytes().first().is_some_and(ends)
            && label.as_bytes().last().is_some_and(ends)
            && label.bytes().all(|b| ends(&b) || b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("scopes", "scopes")]
    #[case("a%2fb", "a/b")]
    #[case("a%2Fb", "a/b")]
    #[case("a+b", "a+b")]
    #[case("%e4%b8%96", "世")]
    #[case("%41", "A")]
    #[case("a%2", "a%2")]
    #[case("a%zz%2f", "a%zz%2f")]
    #[case("%252f", "%2f")]
    fn a_key_is_unescaped_once_or_taken_as_it_stands(
        #[case] encoded: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(unescape(encoded).unwrap(), expected);
    }

    #[test]
    fn a_key_that_is_not_text_is_refused() {
        assert_eq!(unescape("%ff"), None);
    }

    #[rstest]
    #[case("acme.io/scopes", &["a"], "")]
    #[case("", &["a"], "impersonating the empty string key in extra is not allowed")]
    #[case("scopes", &["a"], "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a domain-prefixed path (such as \"acme.io/foo\")")]
    #[case("acme.io/Scopes", &["a"], "impersonating a non-lowercase key in extra is not allowed: \"acme.io/Scopes\"")]
    #[case("acme.io/s", &["a", ""], "impersonating the empty string value in extra is not allowed")]
    #[case("acme.io/s", &[], "impersonating empty values in extra is not allowed")]
    #[case("a_b/s", &["a"], "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')")]
    #[case("a.b/ ", &["a"], "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \" \": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')")]
    fn faults_are_told_in_upstreams_words(
        #[case] key: &str,
        #[case] values: &[&str],
        #[case] expected: &str,
    ) {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        assert_eq!(
            constrained_fault(key, &values).unwrap_or_default(),
            expected
        );
    }

    #[test]
    fn several_faults_of_one_key_are_listed() {
        let fault = constrained_fault("a_/ ", &["a".to_owned()]).unwrap();
        assert!(
            fault.contains(": [extra.key: ")
                && fault.contains(", extra.key: ")
                && fault.ends_with(")]")
        );
    }

    proptest! {
        #[test]
        fn escaping_survives_the_lower_casing_of_names(key in "\\PC{0,20}") {
            let escaped = escape(&key).to_ascii_lowercase();
            let name = http::HeaderName::from_bytes(("x-".to_owned() + &escaped).as_bytes());
            prop_assert!(name.is_ok());
            prop_assert_eq!(unescape(&escaped).unwrap(), key);
        }
    }
}
