use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            value.parse().unwrap(),
        );
    }
    headers
}

#[rstest]
#[case("Impersonate-User")]
#[case("IMPERSONATE-GROUP")]
#[case("impersonate-uid")]
#[case("Impersonate-Extra-Scopes")]
#[case("Impersonate-Extra-a%2fb")]
#[case("Impersonate-Something-New")]
#[case("Impersonate_User")]
#[case("impersonate-extra_scopes")]
#[case("impersonate.user")]
#[case("X-Remote-User")]
#[case("X-Remote-Group")]
#[case("X-Remote-Uid")]
#[case("X-Remote-Extra-Scopes")]
#[case("x_remote_user")]
#[case("X_Remote-Group")]
#[case("X-Forwarded-For")]
#[case("X-Forwarded-User")]
#[case("X-Forwarded-Client-Cert")]
#[case("x_forwarded_client_cert")]
#[case("X-Forwarded")]
#[case("Forwarded")]
#[case("Client-Cert")]
#[case("Client-Cert-Chain")]
#[case("X-Real-Ip")]
fn an_identity_header_is_removed_in_any_spelling(#[case] name: &str) {
    let mut map = headers(&[(name, "a"), (name, "b"), ("accept", "c")]);
    strip(&mut map);
    assert_eq!(map, headers(&[("accept", "c")]));
}

#[rstest]
#[case("authorization")]
#[case("user-agent")]
#[case("impersonates")]
#[case("x-remotely")]
#[case("audit-id")]
#[case("kubectl-command")]
#[case("client-certificate")]
fn other_headers_stay(#[case] name: &str) {
    let mut map = headers(&[(name, "a")]);
    strip(&mut map);
    assert_eq!(map, headers(&[(name, "a")]));
    assert!(!spoofed(&map));
}

#[rstest]
#[case("impersonate_user", true)]
#[case("Impersonate_User", true)]
#[case("impersonate-extra_scopes", true)]
#[case("x_remote_user", true)]
#[case("x-remote_user", true)]
#[case("x_forwarded_for", true)]
#[case("client_cert", true)]
#[case("impersonate-user", false)]
#[case("impersonate-extra-my_key", false)]
#[case("x-forwarded-for", false)]
#[case("forwarded", false)]
fn only_a_wrong_separator_within_the_known_name_is_a_spoof(
    #[case] name: &str,
    #[case] expected: bool,
) {
    assert_eq!(spoofed(&headers(&[(name, "a")])), expected);
}

/// CVE-2022-23652: the headers that the proxy sets are named in `Connection`, so that the removal
/// of hop-by-hop headers takes them off and the request goes out as the proxy itself.
#[rstest]
#[case(&["Impersonate-User, Impersonate-Group"], None)]
#[case(&["Impersonate-User,Impersonate-Group"], None)]
#[case(&["keep-alive, impersonate_user"], Some("keep-alive"))]
#[case(&["Upgrade", "X-Remote-User ,Impersonate-Extra-Scopes"], Some("Upgrade"))]
#[case(&["Upgrade, Authorization"], Some("Upgrade"))]
#[case(&["a, , b, Forwarded"], Some("a, b"))]
fn attack_connection_cannot_name_identity_headers(
    #[case] values: &[&str],
    #[case] expected: Option<&str>,
) {
    let pairs: Vec<_> = values.iter().map(|value| ("connection", *value)).collect();
    let mut map = headers(&pairs);
    strip(&mut map);
    let left: Vec<_> = map.get_all(CONNECTION).iter().collect();
    assert_eq!(left, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_connection_header_that_names_none_stays_as_it_is() {
    let map = headers(&[
        ("connection", "Upgrade,  HTTP2-Settings"),
        ("connection", "close"),
    ]);
    let mut stripped = map.clone();
    strip(&mut stripped);
    assert_eq!(stripped, map);
}

#[test]
fn a_connection_header_that_is_not_text_is_dropped() {
    let mut map = headers(&[("connection", "upgrade")]);
    map.append(
        CONNECTION,
        HeaderValue::from_bytes(b"impersonate-user\xff").unwrap(),
    );
    strip(&mut map);
    assert_eq!(map, headers(&[("connection", "upgrade")]));
}

/// An empty value in front of the proxy's own is the one that the API server reads.
#[test]
fn attack_an_empty_impersonate_user_does_not_stay() {
    let mut map = headers(&[("impersonate-user", ""), ("impersonate-user", "")]);
    strip(&mut map);
    assert!(map.is_empty());
}

proptest! {
    #[test]
    fn no_spelling_of_a_family_survives(
        known in prop::sample::select(vec![
            "impersonate-user", "impersonate-group", "x-remote-user", "x-forwarded-for", "forwarded",
        ]),
        upper in prop::collection::vec(any::<bool>(), 20),
        separators in prop::collection::vec(prop::sample::select(vec!['-', '_', '.', '~']), 20),
    ) {
        let name: String = known.chars().zip(upper.iter().zip(&separators)).map(|(c, (up, separator))| {
            if c == '-' { *separator } else if *up { c.to_ascii_uppercase() } else { c }
        }).collect();
        let mut map = headers(&[(&name, "x")]);
        prop_assert_eq!(spoofed(&map), name.to_ascii_lowercase() != known);
        strip(&mut map);
        prop_assert!(map.is_empty());
    }
}
