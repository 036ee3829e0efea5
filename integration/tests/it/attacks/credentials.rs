//! Callers without a credential, with a bad one, or with one that an API server is odd about.

use std::time::{Duration, Instant};

use http::Method;
use http::header::LOCATION;
use integration::client::raw::request;
use integration::client::{RawClient, SOON};
use integration::pki::Authority;
use integration::reviewer::{Answer, Asked};
use integration::scratch::Scratch;
use integration::wait::{Look, eventually};
use serde_json::json;

use super::site::{ReviewedSite, Site, assert_is_status, assert_status, identity};

const TOKEN: (&str, &str) = ("Authorization", "Bearer some-token");

/// An API server that takes every token for alice's.
fn everyone_is_alice(asked: &Asked) -> Option<Answer> {
    let user = json!({"username": "alice", "groups": ["developers"]});
    if asked.reviews("tokenreviews") {
        return Some(Answer::token_review(
            &json!({"authenticated": true, "user": user}),
        ));
    }
    asked
        .reviews("selfsubjectreviews")
        .then(|| Answer::self_subject_review(&user))
}

/// An API server that knows no token.
fn nobody(asked: &Asked) -> Option<Answer> {
    if asked.reviews("tokenreviews") {
        return Some(Answer::token_review(&json!({"error": "unknown token"})));
    }
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "code": 401});
    asked
        .reviews("selfsubjectreviews")
        .then(|| Answer::json(401, &refusal))
}

/// Answers to a TokenReview that are no login.
fn refusals() -> Vec<(&'static str, Answer)> {
    let admin = json!({"username": "admin", "groups": ["system:masters"]});
    let as_other_kind = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "status": {"authenticated": true, "allowed": true, "user": admin},
    });
    let unnamed = json!({"status": {"authenticated": true, "user": admin}});
    vec![
        ("empty status", Answer::token_review(&json!({}))),
        ("user only", Answer::token_review(&json!({"user": admin}))),
        (
            "false",
            Answer::token_review(&json!({"authenticated": false, "user": admin})),
        ),
        (
            "null",
            Answer::token_review(&json!({"authenticated": null, "user": admin})),
        ),
        (
            "text",
            Answer::token_review(&json!({"authenticated": "true", "user": admin})),
        ),
        (
            "number",
            Answer::token_review(&json!({"authenticated": 1, "user": admin})),
        ),
        (
            "no user",
            Answer::token_review(&json!({"authenticated": true})),
        ),
        (
            "no name",
            Answer::token_review(
                &json!({"authenticated": true, "user": {"groups": ["system:masters"]}}),
            ),
        ),
        (
            "anonymous",
            Answer::token_review(
                &json!({"authenticated": true, "user": {"username": "system:anonymous"}}),
            ),
        ),
        (
            "error besides",
            Answer::token_review(
                &json!({"authenticated": true, "user": admin, "error": "expired"}),
            ),
        ),
        ("other kind", Answer::json(201, &as_other_kind)),
        ("no kind", Answer::json(201, &unnamed)),
        ("not JSON", Answer::bytes(201, "authenticated: true")),
        (
            "two documents",
            Answer::bytes(201, format!("{{}}{unnamed}")),
        ),
        ("empty", Answer::bytes(201, "")),
        ("code 202", Answer::json(202, &unnamed)),
        ("code 500", Answer::json(500, &unnamed)),
        (
            "redirect",
            Answer::json(307, &json!({})).field(LOCATION, "/elsewhere"),
        ),
    ]
}

/// Only `authenticated: true` without an error and with a name is a login.
#[tokio::test]
async fn a_token_review_that_does_not_say_authenticated_lets_nobody_in() {
    for (what, answer) in refusals() {
        let script = move |asked: &Asked| asked.reviews("tokenreviews").then(|| answer.clone());
        let site = ReviewedSite::impersonating(script).await;
        let reply = site.get("/api/v1/secrets", &[TOKEN]).await;
        assert!(
            matches!(reply.status(), 401 | 503),
            "{what}: {} {}",
            reply.status(),
            reply.text()
        );
        assert_is_status(
            &reply.json().unwrap(),
            reply.status(),
            match reply.status() {
                401 => "Unauthorized",
                _ => "ServiceUnavailable",
            },
        );
        assert!(
            site.upstream.forwarded().is_empty(),
            "{what}: {:?}",
            site.upstream.forwarded()
        );
    }
}

#[tokio::test]
async fn a_self_review_that_names_nobody_lets_nobody_in() {
    for (what, answer) in [
        (
            "no name",
            Answer::self_subject_review(&json!({"groups": ["system:masters"]})),
        ),
        (
            "anonymous",
            Answer::self_subject_review(&json!({"username": "system:anonymous"})),
        ),
        (
            "unauthenticated",
            Answer::self_subject_review(
                &json!({"username": "x", "groups": ["system:unauthenticated"]}),
            ),
        ),
        ("401", Answer::json(401, &json!({}))),
        ("500", Answer::json(500, &json!({}))),
        ("not JSON", Answer::bytes(201, "{")),
    ] {
        let script =
            move |asked: &Asked| asked.reviews("selfsubjectreviews").then(|| answer.clone());
        let site = ReviewedSite::pass_through(script).await;
        let reply = site.get("/api/v1/secrets", &[TOKEN]).await;
        assert!(
            matches!(reply.status(), 401 | 503),
            "{what}: {} {}",
            reply.status(),
            reply.text()
        );
        assert!(
            site.upstream.forwarded().is_empty(),
            "{what}: {:?}",
            site.upstream.forwarded()
        );
    }
}

#[tokio::test]
async fn a_revoked_token_in_a_loop_is_no_flood_of_reviews() {
    let site = ReviewedSite::impersonating(nobody).await;
    let client = site.h2().await;
    let path = site.path("/api/v1/pods");
    let began = Instant::now();
    for _ in 0..20 {
        let burst = (0..20).map(|_| client.get(&path, "revoked"));
        for reply in futures_util::future::join_all(burst).await {
            assert_eq!(reply.unwrap().status, 401);
        }
    }
    let (reviews, seconds) = (
        site.upstream.count("tokenreviews"),
        began.elapsed().as_secs(),
    );
    assert!(
        reviews as u64 <= seconds + 2,
        "{reviews} reviews in {seconds} s"
    );
}

#[tokio::test]
async fn a_token_that_is_revoked_stops_working_when_its_answer_expires() {
    let revoked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&revoked);
    let script = move |asked: &Asked| match flag.load(std::sync::atomic::Ordering::SeqCst) {
        true => nobody(asked),
        false => everyone_is_alice(asked),
    };
    let ttl = json!({"authentication": {"tokenCacheTTL": "200ms"}});
    let site = ReviewedSite::made(script, |g| g.with(ttl), |_| json!({})).await;
    assert_eq!(site.get("/api/v1/pods", &[TOKEN]).await.status(), 200);
    revoked.store(true, std::sync::atomic::Ordering::SeqCst);
    eventually(
        "the token to stop working",
        Duration::from_secs(3),
        || async {
            match site.get("/api/v1/pods", &[TOKEN]).await.status() {
                401 => Look::Ready(()),
                code => Look::Not(code.to_string()),
            }
        },
    )
    .await
    .unwrap();
}

/// 401, so that exec plugins and token refresh get their turn; one body; nothing forwarded.
#[tokio::test]
async fn missing_and_bad_credentials_are_answered_401_once() {
    let bad: [&[(&str, &str)]; 9] = [
        &[],
        &[("Authorization", "")],
        &[("Authorization", "Bearer")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Bearer  some-token")],
        &[("Authorization", "Basic YWRtaW46YWRtaW4=")],
        &[("Authorization", "some-token")],
        &[("Authorization", "Bearer some-token")],
        &[
            ("Authorization", "Basic YTpi"),
            ("Authorization", "Bearer some-token"),
        ],
    ];
    let paths = [
        "/api/v1/namespaces",
        "/version",
        "/healthz",
        "/api/v1/pods?watch=true",
        "/apis",
    ];
    for site in [
        ReviewedSite::pass_through(nobody).await,
        ReviewedSite::impersonating(nobody).await,
    ] {
        let h2 = site.h2().await;
        for (credential, path) in bad.iter().flat_map(|b| paths.map(|p| (*b, p))) {
            let reply = site.get(path, credential).await;
            assert_status(&reply, 401, "Unauthorized");
            assert!(
                reply.head.get("www-authenticate").is_some(),
                "{credential:?}"
            );
            let reply = h2
                .call(Method::POST, &site.path(path), credential, "{}")
                .await
                .unwrap();
            assert_eq!(reply.status, 401, "{credential:?} {path}");
            assert_is_status(&reply.json().unwrap(), 401, "Unauthorized");
        }
        assert!(site.upstream.forwarded().is_empty());
    }
}

#[tokio::test]
async fn missing_credentials_refuse_an_upgrade_before_the_upstream_sees_it() {
    let site = ReviewedSite::pass_through(nobody).await;
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let token = "base64url.bearer.authorization.k8s.io.c29tZS10b2tlbg";
    let by_protocol = ("Sec-WebSocket-Protocol", token);
    for headers in [
        upgrade.to_vec(),
        [
            &upgrade[..],
            &[by_protocol, ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")],
        ]
        .concat(),
    ] {
        let mut client = RawClient::connect(&site.target).await.unwrap();
        let path = site.path("/api/v1/namespaces/n/pods/p/exec?command=id");
        client
            .send(request("GET", &path, &headers, b""))
            .await
            .unwrap();
        assert_status(&client.response("GET").await.unwrap(), 401, "Unauthorized");
    }
    assert!(site.upstream.forwarded().is_empty());
}

#[tokio::test]
async fn the_scheme_of_a_token_is_read_in_any_case() {
    let site = ReviewedSite::pass_through(everyone_is_alice).await;
    for value in ["bearer some-token", "BEARER some-token"] {
        assert_eq!(
            site.get("/api", &[("authorization", value)]).await.status(),
            200,
            "{value}"
        );
        let forwarded = site.upstream.forwarded().pop().unwrap();
        assert_eq!(forwarded.all("authorization"), ["Bearer some-token"]);
    }
}

/// One cluster's answer about a token says nothing about the same token at another cluster.
#[tokio::test]
async fn a_login_at_one_cluster_is_no_login_at_another() {
    let site = ReviewedSite::pass_through(everyone_is_alice).await;
    let strict = integration::reviewer::Reviewer::start(nobody)
        .await
        .unwrap();
    let other = integration::gateway::Cluster::new(
        "default",
        "other",
        json!({
            "service": {"ExternalService": {"url": strict.url()}}, "cert": {"Cert": strict.ca_pem()},
        }),
    );
    site.gateway.put_cluster(&other).unwrap();
    assert_eq!(site.get("/api", &[TOKEN]).await.status(), 200);
    let path = format!("{}/api", other.path());
    eventually("the other cluster", SOON, || async {
        let mut client = RawClient::connect(&site.target).await.unwrap();
        match client.get(&path, &[TOKEN]).await.unwrap().status() {
            404 => Look::Not("404".to_owned()),
            code => Look::Ready(code),
        }
    })
    .await
    .map(|code| assert_eq!(code, 401))
    .unwrap();
    assert!(strict.forwarded().is_empty());
}

#[tokio::test]
async fn a_client_certificate_of_a_foreign_authority_is_no_login() {
    let mut site = Site::impersonating().await;
    let scratch = Scratch::new("foreign").unwrap();
    let foreign = Authority::new("client-ca").unwrap();
    let (cert, key) = identity(&scratch, &foreign, "admin", "system:masters");
    let right = site.target.clone();
    site.target = right.clone().identity(cert, key);
    // With TLS 1.3 the client learns of the refusal only when it reads.
    let refused = match RawClient::connect(&site.target).await {
        Err(_) => true,
        Ok(mut client) => client.get(&site.path("/echo"), &[TOKEN]).await.is_err(),
    };
    assert!(refused, "the handshake must fail");
    assert_eq!(site.uris(), [""; 0]);
    site.target = right;
    site.still_serves().await;
}

/// TLS ends at the gateway: a certificate proves nothing to an API server behind it.
#[tokio::test]
async fn a_client_certificate_is_no_login_where_the_callers_own_token_goes_on() {
    let scratch = Scratch::new("certificate").unwrap();
    let authority = Authority::new("client-ca").unwrap();
    let ca = scratch.write("ca.crt", authority.pem()).unwrap();
    let (cert, key) = identity(&scratch, &authority, "admin", "system:masters");
    let site = ReviewedSite::made(nobody, |g| g.client_ca(&ca), |_| json!({})).await;
    let target = site.target.clone().identity(cert, key);
    let mut client = RawClient::connect(&target).await.unwrap();
    let reply = client
        .get(&site.path("/api/v1/secrets"), &[])
        .await
        .unwrap();
    assert_status(&reply, 401, "Unauthorized");
    assert!(site.upstream.forwarded().is_empty());
}
