//! Connections that the upstream closes between two requests.

use http::Method;
use integration::client::SOON;
use integration::fakeup::{self, Fault};
use integration::reviewer::{Answer, Asked};
use integration::wait::until;
use serde_json::json;

use crate::attacks::site::{ReviewedSite, Site};

const TOKEN: (&str, &str) = ("authorization", "Bearer alice-token");

async fn sites() -> [Site; 2] {
    [Site::new().await, Site::http1().await]
}

/// The upstream restarts: callers notice nothing, and nothing happens twice.
#[tokio::test]
async fn requests_after_a_close_reach_the_upstream_exactly_once() {
    for site in sites().await {
        let client = site.h2().await;
        let methods = [
            Method::GET,
            Method::POST,
            Method::PATCH,
            Method::DELETE,
            Method::PUT,
        ];
        for method in methods.iter().cycle().take(40) {
            assert_eq!(
                client.get(&site.path("/warm"), "t").await.unwrap().status,
                200
            );
            site.upstream.forget();
            site.upstream.cut();
            let gone = || site.upstream.open_connections() == 0;
            until("the connections to go", SOON, gone).await.unwrap();
            let reply = client
                .call(method.clone(), &site.path("/echo"), &[TOKEN], "x")
                .await
                .unwrap();
            // A write may meet the close halfway, and then nobody knows; but it is never doubled.
            let unsafe_method = *method != Method::GET;
            assert!(
                reply.status == 200 || (unsafe_method && reply.status == 502),
                "{method}: {} {:?}",
                reply.text(),
                site.upstream
                    .seen()
                    .iter()
                    .map(|s| (s.version, s.connection))
                    .collect::<Vec<_>>()
            );
            let count = site.uris().len();
            assert!(
                count == 1 || (reply.status != 200 && count == 0),
                "{method}: {count} requests"
            );
        }
    }
}

/// GOAWAY, or `Connection: close`: what is under way is finished, what comes next goes elsewhere.
#[tokio::test]
async fn a_drained_connection_finishes_what_it_has_and_gets_nothing_new() {
    for site in sites().await {
        let client = site.h2().await;
        let streaming = tokio::spawn({
            let (client, path) = (client.clone(), site.path("/stream"));
            async move { client.get(&path, "t").await }
        });
        site.seen(1).await;
        site.upstream.drain();
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let reply = client
                .call(method.clone(), &site.path("/echo"), &[TOKEN], "x")
                .await
                .unwrap();
            assert_eq!(reply.status, 200, "{method}: {}", reply.text());
        }
        let reply = streaming.await.unwrap().unwrap();
        assert_eq!(reply.text().lines().count(), 8, "the stream is finished");
        let echoes = site.uris().iter().filter(|u| u.ends_with("/echo")).count();
        assert_eq!(echoes, 3, "each sent once");
    }
}

/// Drains again and again under load: no caller of the gateway sees one of them.
#[tokio::test]
async fn drains_under_load_are_not_seen_by_callers() {
    for site in sites().await {
        let client = site.h2().await;
        for round in 0..30 {
            let path = site.path("/echo");
            let asked = (0..8).map(|n| {
                let method = if n % 2 == 0 {
                    Method::GET
                } else {
                    Method::POST
                };
                client.call(method, &path, &[TOKEN], "x")
            });
            let drain = async { site.upstream.drain() };
            let (replies, ()) =
                futures_util::future::join(futures_util::future::join_all(asked), drain).await;
            for reply in replies {
                let reply = reply.unwrap();
                assert_eq!(reply.status, 200, "round {round}: {}", reply.text());
            }
        }
        assert_eq!(site.uris().len(), 240, "each sent once");
    }
}

/// A read that is lost on a connection that had served before is sent once more, and only once.
#[tokio::test]
async fn a_lost_read_is_sent_at_most_twice() {
    let site = Site::http1().await;
    let client = site.h2().await;
    client.get(&site.path("/warm"), "t").await.unwrap();
    site.upstream
        .set_fault(Fault::CloseAfterRequest)
        .await
        .unwrap();
    site.upstream.forget();
    let reply = client.get(&site.path("/x"), "t").await.unwrap();
    assert_eq!(reply.status, 502);
    let count = site.uris().len();
    assert!((1..=2).contains(&count), "{count} tries");
    // A fresh connection cannot be stale: one try.
    site.upstream.forget();
    assert_eq!(client.get(&site.path("/x"), "t").await.unwrap().status, 502);
    assert_eq!(site.uris().len(), 1);
}

/// Connections are shared: many requests need few.
#[tokio::test]
async fn requests_one_after_the_other_share_a_connection() {
    for upstream in [fakeup::Options::new(), fakeup::Options::new().http1_only()] {
        let site = Site::made(upstream, |g| g, |c| c).await;
        let client = site.h2().await;
        for _ in 0..50 {
            client.get(&site.path("/echo"), "t").await.unwrap();
        }
        let connections = site.upstream.tls_connections();
        assert!(
            connections <= 2,
            "{connections} connections for 50 requests"
        );
    }
}

/// An upstream that gives up on one request has seen it, and would give it up again.
#[tokio::test]
async fn a_request_that_the_upstream_aborts_is_not_sent_again() {
    let aborts = |asked: &Asked| asked.uri.contains("/abort").then(Answer::abort);
    let spec = json!({"auth_config": {"disable_validation": true}});
    let site = ReviewedSite::made(aborts, |g| g, |_| spec).await;
    let client = site.h2().await;
    for n in 0..10 {
        for method in [Method::GET, Method::POST] {
            let warm = client.get(&site.path("/warm"), "t").await.unwrap();
            assert_eq!(warm.status, 200);
            let path = site.path(&format!("/abort/{n}/{method}"));
            let reply = client
                .call(method.clone(), &path, &[TOKEN], "")
                .await
                .unwrap();
            assert_eq!(reply.status, 502, "{method}: {}", reply.text());
        }
    }
    let aborted = site
        .upstream
        .asked()
        .iter()
        .filter(|a| a.uri.contains("/abort"))
        .count();
    assert_eq!(aborted, 20, "each sent once");
}
