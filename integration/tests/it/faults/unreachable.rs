//! Upstreams that cannot be reached, cannot be trusted or do not answer.

use std::time::{Duration, Instant};

use http::Method;
use integration::client::SOON;
use integration::client::raw::request;
use integration::fakeup::{self, Fault};
use integration::wait::until;
use serde_json::json;

use crate::attacks::site::{ReviewedSite, Site, assert_is_status, assert_status};

const TOKEN: (&str, &str) = ("Authorization", "Bearer alice-token");

/// GET, POST and an upgrade, each answered with the same Status.
async fn assert_all(site: &Site, code: u16, reason: &str) {
    let upgrade = [TOKEN, ("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let exec = site.path("/api/v1/namespaces/n/pods/p/exec");
    for (method, path, headers) in [
        ("GET", site.path("/api/v1/pods"), vec![TOKEN]),
        ("POST", site.path("/api/v1/pods"), vec![TOKEN]),
        ("GET", site.path("/api/v1/pods?watch=true"), vec![TOKEN]),
        ("GET", exec, upgrade.to_vec()),
    ] {
        let mut client = site.raw().await;
        client
            .send(request(method, &path, &headers, b""))
            .await
            .unwrap();
        let reply = client.response(method).await.unwrap();
        assert_status(&reply, code, reason);
        assert_discreet(site, &reply.text());
    }
    let reply = site
        .h2()
        .await
        .get(&site.path("/api"), "alice-token")
        .await
        .unwrap();
    assert_eq!(reply.status, code);
    assert_is_status(&reply.json().unwrap(), code, reason);
}

/// Where the cluster is, and what exactly went wrong, is the operator's to know.
fn assert_discreet(site: &Site, text: &str) {
    let address = site.upstream.address();
    for inside in [
        address.to_string(),
        address.port().to_string(),
        "127.0.0.1".to_owned(),
        "os error".to_owned(),
    ] {
        assert!(
            !text.contains(&inside),
            "{inside} is told to the caller: {text}"
        );
    }
}

#[tokio::test]
async fn an_upstream_that_is_down_is_503_and_works_again_when_it_is_back() {
    let site = Site::new().await;
    site.still_serves().await;
    site.upstream.set_fault(Fault::Down).await.unwrap();
    assert_all(&site, 503, "ServiceUnavailable").await;
    let log = site.gateway.process().log_text();
    assert!(
        log.contains("default/fake"),
        "the operator is told which cluster: {log}"
    );
    site.upstream.set_fault(Fault::None).await.unwrap();
    site.still_serves().await;
}

#[tokio::test]
async fn an_upstream_that_hangs_before_tls_is_504_in_time() {
    let limits = json!({"limits": {"connectTimeout": "300ms"}});
    let options = fakeup::Options::new().fault(Fault::HangBeforeTls);
    let site = Site::made(options, |g| g.with(limits), |c| c).await;
    let began = Instant::now();
    assert_all(&site, 504, "Timeout").await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    site.upstream.set_fault(Fault::None).await.unwrap();
    site.still_serves().await;
}

/// Many callers of a dead upstream share one attempt: each waits once, not in a queue.
#[tokio::test]
async fn a_crowd_at_an_upstream_that_hangs_does_not_wait_in_a_queue() {
    let limits = json!({"limits": {"connectTimeout": "500ms"}});
    let options = fakeup::Options::new().fault(Fault::HangBeforeTls);
    let site = Site::made(options, |g| g.with(limits), |c| c).await;
    let client = site.h2().await;
    let path = site.path("/api");
    let began = Instant::now();
    let crowd = (0..60).map(|_| client.get(&path, "t"));
    for reply in futures_util::future::join_all(crowd).await {
        assert_eq!(reply.unwrap().status, 504);
    }
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
}

/// An upstream that hangs costs its own callers, and no other cluster's.
#[tokio::test]
async fn a_hanging_cluster_does_not_slow_another() {
    let site = Site::new().await;
    let dead = fakeup::Options::new()
        .fault(Fault::HangBeforeTls)
        .start()
        .await
        .unwrap();
    let other = integration::gateway::Cluster::fake(&dead).named("default", "dead");
    site.gateway.put_cluster(&other).unwrap();
    let client = site.h2().await;
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let (client, path) = (client.clone(), format!("{}/x", other.path()));
            tokio::spawn(async move { client.get(&path, "t").await })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(
            client.get(&site.path("/echo"), "t").await.unwrap().status,
            200
        );
    }
    for task in waiting {
        task.abort();
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_is_504_at_the_deadline_and_asked_once() {
    for upstream in [fakeup::Options::new(), fakeup::Options::new().http1_only()] {
        let limits = json!({"limits": {"requestTimeout": "300ms"}});
        let site = Site::made(upstream, |g| g.with(limits), |c| c).await;
        site.still_serves().await;
        site.upstream.forget();
        let client = site.h2().await;
        for (number, method) in [Method::GET, Method::POST, Method::DELETE, Method::PATCH]
            .into_iter()
            .enumerate()
        {
            let reply = client
                .call(method.clone(), &site.path("/hang"), &[TOKEN], "x")
                .await
                .unwrap();
            assert_eq!(reply.status, 504, "{method}");
            assert_is_status(&reply.json().unwrap(), 504, "Timeout");
            assert_eq!(site.uris().len(), number + 1, "{method}: sent once");
        }
        site.still_serves().await;
    }
}

/// A watch has no deadline: it may say nothing for as long as it likes.
#[tokio::test]
async fn a_long_running_request_outlives_the_deadline() {
    let site = Site::with(json!({"limits": {"requestTimeout": "200ms"}})).await;
    let mut client = site.raw().await;
    let path = site.path("/api/v1/namespaces/n/pods/p/log/hang");
    client
        .send(request("GET", &path, &[TOKEN], b""))
        .await
        .unwrap();
    site.seen(1).await;
    let early = client.some(Duration::from_millis(600)).await;
    assert!(early.is_err(), "nothing may come yet: {early:?}");
}

#[tokio::test]
async fn an_upstream_with_a_wrong_certificate_gets_no_request() {
    for fault in [Fault::WrongName, Fault::UnknownAuthority] {
        let site = Site::new().await;
        site.upstream.set_fault(fault.clone()).await.unwrap();
        assert_all(&site, 503, "ServiceUnavailable").await;
        assert_eq!(site.uris(), [""; 0], "{fault:?}: no token leaves");
        site.upstream.set_fault(Fault::None).await.unwrap();
        site.still_serves().await;
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_speak_http_is_answered_for() {
    let site = Site::http1().await;
    for answer in [
        &b""[..],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 99999 no\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 0\r\n\r\n",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    ] {
        site.upstream
            .set_fault(Fault::Answer(answer.to_vec()))
            .await
            .unwrap();
        for method in ["GET", "POST"] {
            site.upstream.forget();
            let mut client = site.raw().await;
            client
                .send(request(method, &site.path("/x"), &[TOKEN], b""))
                .await
                .unwrap();
            let reply = client.response(method).await.unwrap();
            assert_status(&reply, 502, "InternalError");
            assert_discreet(&site, &reply.text());
            assert!(
                method == "GET" || site.uris().len() == 1,
                "{method}: {:?}",
                site.uris()
            );
        }
    }
    site.upstream.set_fault(Fault::None).await.unwrap();
    site.still_serves().await;
}

/// Who the caller is cannot be asked: no answer, and no guess.
#[tokio::test]
async fn a_cluster_that_cannot_say_who_calls_is_503_or_504_and_never_401() {
    let site = ReviewedSite::pass_through(|_| None).await;
    // A reviewer that answers something else is as good as none.
    assert_status(&site.get("/api", &[TOKEN]).await, 503, "ServiceUnavailable");
    let upstream = fakeup::Options::new();
    let site = Site::made(upstream, |g| g, |c| c.with(json!({"auth_config": null}))).await;
    site.upstream.set_fault(Fault::Down).await.unwrap();
    assert_status(&site.get("/api", &[TOKEN]).await, 503, "ServiceUnavailable");
    site.upstream
        .set_fault(Fault::UnknownAuthority)
        .await
        .unwrap();
    assert_status(&site.get("/api", &[TOKEN]).await, 503, "ServiceUnavailable");
    assert_eq!(site.uris(), [""; 0]);
    let gone = || site.upstream.open_connections() == 0;
    until("no connection to be left", SOON, gone).await.unwrap();
}
