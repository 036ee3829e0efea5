use std::sync::Arc;

use portcullis_core::RequestInfo;
use rstest::rstest;

use super::*;

fn token_reply(status: &Value) -> Result<Authentication, Error> {
    let reply = json!({"apiVersion": AUTHENTICATION, "kind": "TokenReview", "status": status});
    token_review_reply(StatusCode::CREATED, reply.to_string().as_bytes())
}

fn access_reply(status: &Value) -> Result<Verdict, Error> {
    let reply =
        json!({"apiVersion": AUTHORIZATION, "kind": "SubjectAccessReview", "status": status});
    subject_access_review_reply(StatusCode::CREATED, reply.to_string().as_bytes())
}

fn value(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn the_bodies_are_those_of_the_api() {
    let expected = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    assert_eq!(value(&self_subject_review()), expected);
    let token = Redacted::new("t\"k".to_owned());
    assert_eq!(
        value(token_review(&token).reveal()),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t\"k"}})
    );
    assert!(!format!("{:?}", token_review(&token)).contains("t\\"));
}

#[test]
fn an_access_review_has_the_whole_user_and_the_raw_selectors() {
    let user = UserInfo {
        username: "alice".to_owned(),
        uid: "u".to_owned(),
        groups: vec!["devs".to_owned()],
        extra: BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]),
    };
    let query = Some("labelSelector=a%3Db&fieldSelector=");
    let info = RequestInfo::new("GET", "/apis/apps/v1/namespaces/demo/deployments", query).unwrap();
    let check = AccessCheck::of_request(Arc::new(user), &info);
    assert_eq!(
        value(&subject_access_review(&check)),
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": "alice", "uid": "u", "groups": ["devs"], "extra": {"k": ["v"]},
            "resourceAttributes": {
                "verb": "list", "group": "apps", "version": "v1", "resource": "deployments",
                "subresource": "", "namespace": "demo", "name": "",
                "labelSelector": {"rawSelector": "a=b"},
            },
        }})
    );
    let info = RequestInfo::new("GET", "/version", None).unwrap();
    let spec = value(&subject_access_review(&AccessCheck::of_request(
        Arc::default(),
        &info,
    )));
    assert_eq!(
        spec["spec"]["nonResourceAttributes"],
        json!({"path": "/version", "verb": "get"})
    );
    assert_eq!(spec["spec"].get("resourceAttributes"), None);
}

#[test]
fn a_complete_review_names_the_user() {
    let user = json!({"username": "alice", "uid": "u", "groups": ["devs", "system:authenticated"], "extra": {"k": ["v"]}});
    let expected = Authentication::User(serde_json::from_value(user.clone()).unwrap());
    assert_eq!(
        token_reply(&json!({"authenticated": true, "user": user, "audiences": ["x"]})).unwrap(),
        expected
    );
    let reply = json!({"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview", "metadata": {}, "status": {"userInfo": user}});
    assert_eq!(
        self_subject_review_reply(StatusCode::CREATED, reply.to_string().as_bytes()).unwrap(),
        expected
    );
}

#[test]
fn absent_and_null_lists_are_empty() {
    let status = json!({"authenticated": true, "user": {"username": "a", "groups": null, "extra": {"k": null}}});
    let Authentication::User(user) = token_reply(&status).unwrap() else {
        panic!("rejected")
    };
    assert_eq!(user.groups, ["system:authenticated"]);
    assert_eq!(user.extra, BTreeMap::from([("k".to_owned(), vec![])]));
}

/// CVE-2023-48312: a TokenReview without `authenticated: true` passed as somebody.
#[rstest]
#[case::not_authenticated(json!({"authenticated": false, "user": {"username": "alice"}}))]
#[case::not_said(json!({"user": {"username": "alice", "groups": ["system:masters"]}}))]
#[case::nothing_said(json!({}))]
#[case::an_error(json!({"authenticated": true, "error": "expired", "user": {"username": "alice"}}))]
#[case::no_name(json!({"authenticated": true, "user": {"groups": ["system:masters"]}}))]
#[case::no_user(json!({"authenticated": true}))]
#[case::anonymous(json!({"authenticated": true, "user": {"username": "system:anonymous"}}))]
#[case::unauthenticated(json!({"authenticated": true, "user": {"username": "x", "groups": ["system:unauthenticated"]}}))]
fn attack_a_token_review_that_does_not_say_yes_is_a_no(#[case] status: Value) {
    assert!(matches!(
        token_reply(&status).unwrap(),
        Authentication::Rejected(_)
    ));
}

#[rstest]
#[case(json!({"authenticated": "true", "user": {"username": "a"}}))]
#[case(json!({"authenticated": true, "user": {"username": 1}}))]
#[case(json!({"authenticated": true, "user": "alice"}))]
#[case(json!(null))]
fn a_malformed_token_review_is_an_error(#[case] status: Value) {
    assert_eq!(token_reply(&status).unwrap_err().blame, Blame::Upstream);
}

#[rstest]
#[case::nothing("")]
#[case::no_json("<html>")]
#[case::cut(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"#)]
#[case::two_bodies(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"a"}}}{}"#)]
#[case::twice(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":false,"authenticated":true,"user":{"username":"a"}}}"#)]
#[case::no_status(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview"}"#)]
#[case::another_kind(r#"{"apiVersion":"v1","kind":"Status","status":{"authenticated":true,"user":{"username":"a"}}}"#)]
#[case::another_version(r#"{"apiVersion":"authentication.k8s.io/v2","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"a"}}}"#)]
fn attack_a_reply_that_is_no_review_names_nobody(#[case] reply: &str) {
    let error = token_review_reply(StatusCode::OK, reply.as_bytes()).unwrap_err();
    assert_eq!((error.status.code, error.blame), (503, Blame::Upstream));
}

#[test]
fn the_size_of_a_reply_is_bounded() {
    let reply = |n: usize| {
        let start = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"a"}}}"#;
        token_review_reply(
            StatusCode::OK,
            (start.to_owned() + &" ".repeat(n - start.len())).as_bytes(),
        )
    };
    assert!(reply(MAX_REPLY_BYTES).is_ok());
    assert!(reply(MAX_REPLY_BYTES + 1).is_err());
}

/// Only a 401 to the caller's own credential is a definite no; all else must not be remembered.
#[rstest]
#[case(403, 403, Blame::Config)]
#[case(404, 503, Blame::Upstream)]
#[case(429, 429, Blame::Policy)]
#[case(500, 503, Blame::Upstream)]
#[case(503, 503, Blame::Upstream)]
#[case(302, 503, Blame::Upstream)]
fn a_self_review_without_answer_is_an_error(
    #[case] code: u16,
    #[case] expected: u16,
    #[case] blame: Blame,
) {
    let code = StatusCode::from_u16(code).unwrap();
    let error = self_subject_review_reply(code, b"{}").unwrap_err();
    assert_eq!((error.status.code, error.blame), (expected, blame));
    let rejected = self_subject_review_reply(StatusCode::UNAUTHORIZED, b"").unwrap();
    assert!(matches!(rejected, Authentication::Rejected(_)));
}

#[rstest]
#[case(401)]
#[case(403)]
fn the_gateways_own_401_is_not_the_callers(#[case] code: u16) {
    let code = StatusCode::from_u16(code).unwrap();
    let token = token_review_reply(code, b"{}").unwrap_err();
    let access = subject_access_review_reply(code, b"{}").unwrap_err();
    for error in [token, access] {
        assert_eq!((error.status.code, error.blame), (503, Blame::Config));
    }
}

#[rstest]
#[case(json!({"allowed": true}), true)]
#[case(json!({"allowed": true, "denied": true}), false)]
#[case(json!({"allowed": false}), false)]
#[case(json!({"allowed": false, "denied": true}), false)]
fn access_is_allowed_only_if_nothing_denies_it(#[case] status: Value, #[case] expected: bool) {
    assert_eq!(access_reply(&status).unwrap().allowed, expected);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"allowed": "true"}))]
#[case(json!({"allowed": null}))]
fn an_access_review_that_does_not_say_is_an_error(#[case] status: Value) {
    assert!(access_reply(&status).is_err());
}

#[test]
fn the_authorizers_words_are_kept() {
    let status = json!({"allowed": false, "reason": "r", "evaluationError": "e"});
    assert_eq!(access_reply(&status).unwrap().explanation(), "e: r");
}
