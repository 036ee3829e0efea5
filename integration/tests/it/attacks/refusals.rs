//! Requests that are refused: not executed, answered once, and the connection stays in step.

use std::time::Duration;

use http::Method;
use integration::client::h2::RequestBody;
use integration::client::raw::{End, request};
use integration::client::{RawClient, SOON};
use integration::reviewer::{Answer, Asked};
use serde_json::json;

use super::site::{ReviewedSite, Site, assert_status};

const ALICE: (&str, &str) = ("Authorization", "Bearer alice-token");
const SMALL: &[u8] = br#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x"}}"#;

/// alice's token is hers, no other is anybody's.
fn alice_only(asked: &Asked) -> Option<Answer> {
    let known = asked.all("authorization") == [ALICE.1];
    asked.reviews("selfsubjectreviews").then(|| match known {
        true => Answer::self_subject_review(&json!({"username": "alice"})),
        false => Answer::json(401, &json!({"kind": "Status"})),
    })
}

/// A site that refuses everything outside `/api/v1/namespaces/ok/**`.
async fn strict() -> ReviewedSite {
    let rule = json!({"Path": {"path": "/api/v1/namespaces/ok/**", "parametised": true}});
    let spec = json!({"security_config": {"allowed_resources": [rule]}});
    ReviewedSite::made(alice_only, |g| g, |_| spec).await
}

/// Expected code, path and headers.
type Refused = (u16, String, Vec<(&'static str, &'static str)>);

/// Each way in which the gateway refuses a POST.
fn refused(site: &ReviewedSite) -> Vec<Refused> {
    let outside = site.path("/api/v1/namespaces");
    let inside = site.path("/api/v1/namespaces/ok/pods");
    vec![
        (401, inside.clone(), vec![]),
        (
            401,
            inside.clone(),
            vec![("Authorization", "Bearer nobody")],
        ),
        (403, outside, vec![ALICE]),
        (
            400,
            inside.clone(),
            vec![ALICE, ("Impersonate-Group", "system:masters")],
        ),
        (400, site.path("/api/v1/namespaces/ok/../x"), vec![ALICE]),
        (
            404,
            "/clusters/default/none/api/v1/pods".to_owned(),
            vec![ALICE],
        ),
        (404, "/api/v1/namespaces/ok/pods".to_owned(), vec![ALICE]),
    ]
}

#[tokio::test]
async fn a_refused_post_is_not_executed_and_has_exactly_one_answer() {
    let site = strict().await;
    for (code, path, headers) in refused(&site) {
        let mut client = RawClient::connect(&site.target).await.unwrap();
        client
            .send(request("POST", &path, &headers, SMALL))
            .await
            .unwrap();
        let reply = client.response("POST").await.unwrap();
        assert_eq!(
            (reply.status(), reply.end),
            (code, End::Complete),
            "{path} {headers:?}"
        );
        reply.json().expect("one document");
        // Whatever else were sent would be read in front of this answer.
        let next = request("GET", "/next", &[("Connection", "close")], b"");
        if client.send(next).await.is_ok() {
            let rest = client.closed(SOON).await.unwrap();
            let rest = String::from_utf8_lossy(&rest).into_owned();
            assert!(rest.matches("HTTP/1.1").count() <= 1, "{rest}");
            assert!(
                rest.is_empty() || rest.starts_with("HTTP/1.1 404"),
                "{rest}"
            );
        }
        assert!(
            site.upstream.forwarded().is_empty(),
            "{:?}",
            site.upstream.forwarded()
        );
    }
}

#[tokio::test]
async fn a_refused_post_by_http2_leaves_the_connection_to_others() {
    let site = strict().await;
    let client = site.h2().await;
    for (code, path, headers) in refused(&site) {
        let (_body, open) = RequestBody::fed();
        let reply = client
            .send(Method::POST, &path, &headers, open)
            .await
            .unwrap();
        assert_eq!(
            reply.status(),
            code,
            "{path}: answered without waiting for the body"
        );
        let reply = client
            .call(Method::POST, &path, &headers, SMALL)
            .await
            .unwrap();
        assert_eq!(reply.status, code);
        reply.json().expect("one document");
    }
    assert!(site.upstream.forwarded().is_empty());
    let path = site.path("/api/v1/namespaces/ok/pods");
    assert_eq!(client.get(&path, "alice-token").await.unwrap().status, 200);
    assert!(!client.is_closed());
}

/// A body that nobody reads must not be taken for the next request, nor keep the answer back.
#[tokio::test]
async fn an_unread_request_body_is_not_taken_for_a_request() {
    let site = strict().await;
    let path = site.path("/api/v1/namespaces/ok/pods");
    let inner = request("GET", &path, &[ALICE], b"");
    for size in [inner.len(), 100 << 10, 8 << 20] {
        let body: Vec<u8> = inner
            .iter()
            .copied()
            .cycle()
            .take(size / inner.len() * inner.len())
            .collect();
        for head in [
            request(
                "POST",
                &path,
                &[("Content-Length", &body.len().to_string())],
                b"",
            ),
            request(
                "POST",
                &path,
                &[("Transfer-Encoding", "chunked")],
                format!("{:x}\r\n", body.len()).as_bytes(),
            ),
        ] {
            let mut client = RawClient::connect(&site.target).await.unwrap();
            client.send(head).await.unwrap();
            // A gateway that closes after its answer lets the rest of the body fail.
            let sent = client.send(&body).await;
            let reply = client.response("POST").await;
            let reply = reply.unwrap_or_else(|e| panic!("{size} bytes ({sent:?}): {e}"));
            assert_status(&reply, 401, "Unauthorized");
            assert!(site.upstream.forwarded().is_empty(), "{size} bytes");
        }
    }
}

#[tokio::test]
async fn a_body_that_never_comes_does_not_keep_the_answer_back() {
    let site = strict().await;
    let path = site.path("/api/v1/namespaces/ok/pods");
    for (name, value) in [
        ("Content-Length", "1000000"),
        ("Transfer-Encoding", "chunked"),
    ] {
        let mut client = RawClient::connect(&site.target).await.unwrap();
        client
            .send(request("POST", &path, &[(name, value)], b""))
            .await
            .unwrap();
        assert_status(&client.response("POST").await.unwrap(), 401, "Unauthorized");
    }
}

/// `100 Continue` would invite the body of a request that is already refused.
#[tokio::test]
async fn a_refused_request_is_not_invited_to_continue() {
    let site = strict().await;
    let expect = [("Expect", "100-continue"), ("Content-Length", "62")];
    for (code, path, headers) in refused(&site) {
        let mut client = RawClient::connect(&site.target).await.unwrap();
        let headers = [&expect[..], &headers].concat();
        client
            .send(request("POST", &path, &headers, b""))
            .await
            .unwrap();
        assert_eq!(client.head().await.unwrap().status, code, "{path}");
    }
    let mut client = RawClient::connect(&site.target).await.unwrap();
    let path = site.path("/api/v1/namespaces/ok/pods");
    let length = SMALL.len().to_string();
    let expect = [
        ALICE,
        ("Expect", "100-continue"),
        ("Content-Length", &length),
    ];
    client
        .send(request("POST", &path, &expect, b""))
        .await
        .unwrap();
    assert_eq!(
        client.head().await.unwrap().status,
        100,
        "one that is let through is"
    );
    client.send(SMALL).await.unwrap();
    assert_eq!(client.response("POST").await.unwrap().status(), 200);
    assert_eq!(site.upstream.forwarded().pop().unwrap().body, SMALL);
}

/// The upstream refuses early: its answer arrives although the body is still on its way.
#[tokio::test]
async fn an_early_answer_of_the_upstream_arrives_while_the_body_is_sent() {
    for site in [Site::new().await, Site::http1().await] {
        let mut client = site.raw().await;
        let length = ("Content-Length", "50000000");
        client
            .send(request("POST", &site.path("/early"), &[length], b"abc"))
            .await
            .unwrap();
        let reply = client.response("POST").await.unwrap();
        assert_eq!((reply.status(), reply.text().as_str()), (413, "too large"));
        let client = site.h2().await;
        let (body, open) = RequestBody::fed();
        body.send(Ok("abc".into())).await.unwrap();
        let path = site.path("/early");
        let sent = client.send(Method::POST, &path, &[], open);
        let reply = tokio::time::timeout(Duration::from_secs(5), sent)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(reply.status(), 413);
        site.still_serves().await;
    }
}
