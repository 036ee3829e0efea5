use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::HeaderName;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.clone(), value.parse().unwrap()))
        .collect()
}

fn authorization(values: &[&str]) -> HeaderMap {
    headers(
        &values
            .iter()
            .map(|value| (AUTHORIZATION, *value))
            .collect::<Vec<_>>(),
    )
}

fn protocols(values: &[&str]) -> HeaderMap {
    headers(
        &values
            .iter()
            .map(|value| (SEC_WEBSOCKET_PROTOCOL, *value))
            .collect::<Vec<_>>(),
    )
}

fn encoded(token: &str) -> String {
    format!("{PROTOCOL_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(token))
}

fn token(found: Result<Option<Bearer>, Error>) -> Option<String> {
    found.unwrap().map(|bearer| bearer.token.reveal().clone())
}

#[rstest]
#[case(&[], None)]
#[case(&[""], None)]
#[case(&["Bearer"], None)]
#[case(&["Bearer "], None)]
#[case(&["Bearer abc"], Some("abc"))]
#[case(&["bearer abc"], Some("abc"))]
#[case(&["BEARER abc"], Some("abc"))]
#[case(&[" Bearer abc "], Some("abc"))]
#[case(&["\tBearer abc\t"], Some("abc"))]
#[case(&["Bearer  abc"], None)]
#[case(&["Bearer abc def"], Some("abc"))]
#[case(&["Bearer\tabc"], None)]
#[case(&["Bearer: abc"], None)]
#[case(&["Basic abc"], None)]
#[case(&["bear abc"], None)]
#[case(&["Bearer abc", "Bearer def"], Some("abc"))]
#[case(&["Basic abc", "Bearer def"], None)]
fn authorization_is_read_as_the_api_server_reads_it(
    #[case] values: &[&str],
    #[case] expected: Option<&str>,
) {
    assert_eq!(
        token(extract(&authorization(values), false)).as_deref(),
        expected
    );
}

#[rstest]
#[case("Bearer a\tb")]
#[case("Bearer \u{e9}")]
fn a_token_with_a_character_that_no_token_has_is_refused(#[case] value: &str) {
    let mut headers = HeaderMap::new();
    headers.insert(
        AUTHORIZATION,
        HeaderValue::from_bytes(value.as_bytes()).unwrap(),
    );
    assert_eq!(extract(&headers, false).unwrap_err().status.code, 401);
}

#[test]
fn a_token_that_is_not_text_is_refused() {
    let mut headers = HeaderMap::new();
    headers.insert(
        AUTHORIZATION,
        HeaderValue::from_bytes(b"Bearer \xff").unwrap(),
    );
    assert_eq!(extract(&headers, false).unwrap_err().status.code, 401);
}

#[test]
fn the_length_of_a_token_is_bounded() {
    let of = |n: usize| {
        extract(
            &authorization(&[&format!("Bearer {}", "a".repeat(n))]),
            false,
        )
    };
    assert!(of(MAX_TOKEN_BYTES).unwrap().is_some());
    assert_eq!(of(MAX_TOKEN_BYTES + 1).unwrap_err().status.code, 401);
    let of = |n: usize| extract(&protocols(&[&encoded(&"a".repeat(n)), "x"]), true);
    assert!(of(MAX_TOKEN_BYTES).unwrap().is_some());
    assert_eq!(of(MAX_TOKEN_BYTES + 1).unwrap_err().status.code, 401);
    assert_eq!(of(2 * MAX_TOKEN_BYTES).unwrap_err().status.code, 401);
}

#[rstest]
#[case(&[encoded("t"), "v4.channel.k8s.io".into()], "v4.channel.k8s.io")]
#[case(&["v4.channel.k8s.io".into(), encoded("t")], "v4.channel.k8s.io")]
#[case(&[format!("a, {} ,b", encoded("t"))], "a,b")]
#[case(&[format!("a,{}", encoded("t")), "b , c".into()], "a,b,c")]
#[case(&[format!("a,,{}", encoded("t"))], "a")]
fn a_subprotocol_carries_a_token_and_is_taken_off(#[case] values: &[String], #[case] left: &str) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let bearer = extract(&protocols(&values), true).unwrap().unwrap();
    assert_eq!(bearer.token.reveal(), "t");
    assert_eq!(bearer.websocket_protocols_left.unwrap(), left);
}

#[test]
fn only_a_websocket_request_carries_a_token_in_a_subprotocol() {
    assert_eq!(
        token(extract(&protocols(&[&encoded("t"), "x"]), false)),
        None
    );
}

#[rstest]
#[case(&["v4.channel.k8s.io".to_owned()])]
#[case(&[format!("{PROTOCOL_PREFIX},x")])]
#[case(&["base64url.bearer.authorization.K8S.io.dA,x".to_owned()])]
fn a_websocket_request_without_token_is_left_alone(#[case] values: &[String]) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    assert_eq!(extract(&protocols(&values), true).unwrap(), None);
}

#[rstest]
#[case::alone(encoded("t"))]
#[case::alone_but_for_a_comma(format!("{},", encoded("t")))]
#[case::two(format!("{},{},x", encoded("t"), encoded("u")))]
#[case::padded(format!("{PROTOCOL_PREFIX}dA==,x"))]
#[case::standard_alphabet(format!("{PROTOCOL_PREFIX}a+/a,x"))]
#[case::not_text(format!("{PROTOCOL_PREFIX}_w,x"))]
#[case::two_words(format!("{},x", encoded("good rest")))]
#[case::a_header_injected(format!("{},x", encoded("t\r\nImpersonate-User: admin")))]
fn a_malformed_token_subprotocol_is_refused(#[case] value: String) {
    assert_eq!(
        extract(&protocols(&[&value]), true)
            .unwrap_err()
            .status
            .code,
        401
    );
}

#[test]
fn authorization_wins_and_the_second_credential_does_not_travel_on() {
    let headers = headers(&[
        (AUTHORIZATION, "Bearer header"),
        (
            SEC_WEBSOCKET_PROTOCOL,
            &format!("{},x", encoded("protocol")),
        ),
    ]);
    let bearer = extract(&headers, true).unwrap().unwrap();
    assert_eq!(bearer.token.reveal(), "header");
    assert_eq!(bearer.websocket_protocols_left.unwrap(), "x");
}

#[test]
fn neither_debug_nor_an_error_shows_a_token() {
    let bearer = extract(&authorization(&["Bearer canary"]), false).unwrap();
    assert!(!format!("{bearer:?}").contains("canary"));
    let error = extract(&protocols(&[&encoded("canary")]), true).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("canary"));
}

proptest! {
    #[test]
    fn what_is_found_is_found_again_when_sent_on(token in "\\PC{0,40}") {
        let value = format!("{},x", encoded(&token));
        if let Ok(Some(first)) = extract(&protocols(&[&value]), true) {
            let again = format!("Bearer {}", first.token.reveal());
            let second = extract(&authorization(&[&again]), false).unwrap().unwrap();
            prop_assert_eq!(first.token, second.token);
        }
    }
}
