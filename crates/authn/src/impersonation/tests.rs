use http::HeaderName;
use rstest::rstest;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
    }
    headers
}

fn wanted(pairs: &[(&str, &str)]) -> Option<UserInfo> {
    parse(&headers(pairs))
        .unwrap()
        .map(|wish| wish.wanted().clone())
}

#[test]
fn each_header_is_one_attribute_in_order() {
    let found = wanted(&[
        ("Impersonate-User", "zoe"),
        ("Impersonate-Group", "devs"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Group", "a,b"),
        ("Impersonate-Extra-Scopes", "a"),
        ("Impersonate-Extra-acme.io%2fProject", "p"),
        ("Impersonate-Extra-scopes", "b"),
    ]);
    let extra =
        [("acme.io/project", vec!["p"]), ("scopes", vec!["a", "b"])].map(|(key, values)| {
            (
                key.to_owned(),
                values.into_iter().map(str::to_owned).collect(),
            )
        });
    let expected = UserInfo {
        username: "zoe".to_owned(),
        uid: "u-1".to_owned(),
        groups: vec!["devs".to_owned(), "a,b".to_owned()],
        extra: BTreeMap::from(extra),
    };
    assert_eq!(found, Some(expected));
}

#[rstest]
#[case::none(&[], None)]
#[case::empty(&[("impersonate-user", "")], None)]
#[case::empty_uid_too(&[("impersonate-user", ""), ("impersonate-uid", "")], None)]
#[case::the_first_counts(&[("impersonate-user", "a"), ("impersonate-user", "b")], Some("a"))]
#[case::the_first_counts_even_if_empty(&[("impersonate-user", ""), ("impersonate-user", "b")], None)]
#[case::other_spellings_do_not_count(&[("impersonate_user", "a")], None)]
fn of_several_names_the_first_counts(#[case] pairs: &[(&str, &str)], #[case] name: Option<&str>) {
    assert_eq!(wanted(pairs).map(|user| user.username).as_deref(), name);
}

#[rstest]
#[case(&[("impersonate-group", "devs"), ("impersonate-group", "")],
    "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\", \"\"}, Extra:map[string][]string(nil)} without impersonating a user name")]
#[case(&[("impersonate-uid", "u")],
    "requested &user.DefaultInfo{Name:\"\", UID:\"u\", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name")]
#[case(&[("impersonate-extra-k", "v"), ("impersonate-extra-k", "w"), ("impersonate-extra-a", ""), ("impersonate-user", "")],
    "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string(nil), Extra:map[string][]string{\"a\":[]string{\"\"}, \"k\":[]string{\"v\", \"w\"}}} without impersonating a user name")]
fn attributes_without_a_name_are_a_bad_request(
    #[case] pairs: &[(&str, &str)],
    #[case] message: &str,
) {
    let status = parse(&headers(pairs)).unwrap_err().status;
    assert_eq!((status.code, status.message.as_str()), (400, message));
}

/// An empty first value made a proxy believe in no impersonation, then add its own name as second.
#[test]
fn attack_an_empty_name_with_groups_is_not_ignored() {
    let pairs = [
        ("impersonate-user", ""),
        ("impersonate-group", "system:masters"),
    ];
    assert_eq!(parse(&headers(&pairs)).unwrap_err().status.code, 400);
}

#[rstest]
#[case("impersonate-user", b"\xff")]
#[case("impersonate-group", b"\xc3")]
#[case("impersonate-extra-k", b"\xff")]
#[case("impersonate-extra-%ff", b"v")]
#[case("impersonate-user", b" alice")]
#[case("impersonate-group", b"devs\t")]
fn what_would_not_arrive_as_it_is_is_refused(#[case] name: &str, #[case] value: &[u8]) {
    let mut headers = headers(&[("impersonate-user", "a")]);
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
    headers.insert(name, HeaderValue::from_bytes(value).unwrap());
    assert_eq!(parse(&headers).unwrap_err().status.code, 400);
}

#[test]
fn the_number_of_values_is_bounded() {
    let mut headers = headers(&[("impersonate-user", "a"), ("impersonate-extra-k", "v")]);
    for _ in 1..MAX_VALUES {
        headers.append(GROUP, HeaderValue::from_static("g"));
    }
    assert!(parse(&headers).is_ok());
    headers.append(GROUP, HeaderValue::from_static("g"));
    assert_eq!(parse(&headers).unwrap_err().status.code, 400);
}
