//! Upstreams that point elsewhere: the gateway goes nowhere, with nobody's credential.

use http::Method;
use http::header::LOCATION;
use integration::client::raw::request;
use integration::fakeup::{self, Fault};
use integration::reviewer::{Answer, Asked};
use serde_json::json;

use super::site::{ReviewedSite, Site, assert_status};

const TOKEN: (&str, &str) = ("Authorization", "Bearer alice-token");

#[tokio::test]
async fn a_redirect_of_the_upstream_is_never_followed() {
    for site in [Site::new().await, Site::http1().await] {
        let h2 = site.h2().await;
        for method in [
            Method::GET,
            Method::PATCH,
            Method::POST,
            Method::PUT,
            Method::DELETE,
        ] {
            let reply = h2
                .call(method.clone(), &site.path("/redir"), &[TOKEN], "body")
                .await
                .unwrap();
            assert_eq!(reply.status, 302, "{method}");
            assert!(reply.headers.contains_key("location"), "{method}");
        }
        let uris = site.uris();
        assert_eq!(
            uris, ["/pfx/a/redir"; 5],
            "each was sent once, and nothing else"
        );
    }
}

#[tokio::test]
async fn a_redirect_keeps_its_method_and_body_to_itself() {
    let elsewhere = fakeup::Options::new().start().await.unwrap();
    let site = Site::http1().await;
    for code in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let target = format!("{}/stolen", elsewhere.url());
        let answer = format!("HTTP/1.1 {code}\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
        site.upstream
            .set_fault(Fault::Answer(answer.into_bytes()))
            .await
            .unwrap();
        let mut client = site.raw().await;
        client
            .send(request("POST", &site.path("/x"), &[TOKEN], b"secret"))
            .await
            .unwrap();
        let reply = client.response("POST").await.unwrap();
        assert_eq!(reply.status().to_string(), code[..3]);
        assert_eq!(
            reply.head.get("location"),
            Some(target.as_str()),
            "for the client to judge"
        );
    }
    assert_eq!(
        (elsewhere.tls_connections(), site.upstream.seen().len()),
        (0, 5)
    );
}

/// The API server knows nothing of the cluster's prefix at the gateway, nor of its own in front.
#[tokio::test]
async fn a_redirect_within_the_cluster_stays_within_the_cluster() {
    let site = Site::http1().await;
    let ours = site.path("");
    for (location, expected) in [
        (
            "/pfx/a/openapi/v3/api/v1?hash=X",
            format!("{ours}/openapi/v3/api/v1?hash=X"),
        ),
        ("/pfx/a", "/pfx/a".to_owned()),
        ("/pfx/ab/x", "/pfx/ab/x".to_owned()),
        ("/elsewhere", "/elsewhere".to_owned()),
        (
            "//evil.example/pfx/a/x",
            "//evil.example/pfx/a/x".to_owned(),
        ),
        (
            "https://evil.example/pfx/a/x",
            "https://evil.example/pfx/a/x".to_owned(),
        ),
        ("relative", "relative".to_owned()),
    ] {
        let answer =
            format!("HTTP/1.1 301 Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        site.upstream
            .set_fault(Fault::Answer(answer.into_bytes()))
            .await
            .unwrap();
        let reply = site.get("/x", &[]).await;
        assert_eq!(
            reply.head.all("location"),
            [expected.as_str()],
            "{location}"
        );
    }
}

#[tokio::test]
async fn an_upgrade_that_is_redirected_is_not_followed() {
    let site = Site::http1().await;
    let mut client = site.raw().await;
    let upgrade = [TOKEN, ("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let path = site.path("/api/v1/namespaces/n/pods/p/proxy/redir");
    client
        .send(request("GET", &path, &upgrade, b""))
        .await
        .unwrap();
    assert_eq!(client.response("GET").await.unwrap().status(), 302);
    assert_eq!(site.uris().len(), 1, "{:?}", site.uris());
}

/// A review carries a token: it must not be sent to where an answer points.
#[tokio::test]
async fn a_review_that_is_redirected_is_not_followed() {
    for code in [301, 302, 307, 308] {
        let script = move |asked: &Asked| {
            let here = asked.reviews("tokenreviews") || asked.reviews("selfsubjectreviews");
            let user = json!({"authenticated": true, "user": {"username": "admin"}});
            match here {
                true => Some(Answer::json(code, &json!({})).field(LOCATION, "/elsewhere")),
                false => Some(Answer::token_review(&user)),
            }
        };
        for site in [
            ReviewedSite::pass_through(script).await,
            ReviewedSite::impersonating(script).await,
        ] {
            let reply = site.get("/api/v1/pods", &[TOKEN]).await;
            assert_status(&reply, 503, "ServiceUnavailable");
            assert!(
                site.upstream.forwarded().is_empty(),
                "{:?}",
                site.upstream.forwarded()
            );
        }
    }
}
