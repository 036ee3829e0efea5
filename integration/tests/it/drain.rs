//! The gateway's end: GOAWAY, short requests finish, watches end cleanly, deadline.

use std::time::Duration;

use integration::client::{RawClient, SOON, Target, raw};
use integration::fakeup;
use integration::gateway::{Cluster, Gateway, Options};
use integration::wait;
use rustix::process::Signal;
use serde_json::json;

/// Far above what a drain of nothing takes, far below its deadline.
const PROMPT: Duration = Duration::from_secs(8);

/// A gateway whose drain may take `timeout`, in front of `upstream`.
async fn gateway(upstream: &fakeup::FakeUpstream, timeout: &str) -> Gateway {
    Options::new()
        .cluster(Cluster::fake(upstream))
        .with(json!({"drain": {"timeout": timeout}}))
        .start()
        .await
        .unwrap()
}

/// A client that has the head of the answer to `path` and none of its body.
async fn under_way(gateway: &Gateway, path: &str) -> RawClient {
    let mut client = RawClient::connect(&Target::gateway(gateway)).await.unwrap();
    let path = format!("{}{path}", gateway.path());
    let request = raw::request("GET", &path, &[("Authorization", "Bearer t")], b"");
    client.send(request).await.unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    client
}

#[tokio::test]
async fn a_drain_ends_a_watch_cleanly_and_then_the_process() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = gateway(&upstream, "20s").await;
    let mut watch = under_way(&gateway, "/api/v1/namespaces/d/forever?watch=1").await;
    assert!(watch.chunk().await.unwrap().is_some(), "the watch is live");

    gateway.process().signal(Signal::TERM).unwrap();
    // The last chunk of a chunked body is what tells an ended watch from a broken one.
    let to_the_end = async { while watch.chunk().await.unwrap().is_some() {} };
    wait::within("the watch's last chunk", PROMPT, to_the_end)
        .await
        .unwrap();
    assert!(gateway.process().ended(PROMPT).await.unwrap().success());
}

#[tokio::test]
async fn a_request_under_way_finishes_while_the_gateway_drains() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = gateway(&upstream, "30s").await;
    let mut client = under_way(&gateway, "/gated").await;
    gateway.process().signal(Signal::TERM).unwrap();
    let unready = async || match gateway.admin("/readyz").await {
        Ok((code, _)) if code != 200 => wait::Look::Ready(()),
        other => wait::Look::Not(format!("{other:?}")),
    };
    wait::eventually("unready while draining", SOON, unready)
        .await
        .unwrap();
    for _ in 0..2 {
        upstream.release();
        assert!(
            client.chunk().await.unwrap().is_some(),
            "the answer goes on"
        );
    }
}

#[tokio::test]
async fn what_does_not_end_is_cut_at_the_deadline() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = gateway(&upstream, "1s").await;
    let _client = under_way(&gateway, "/forever").await;
    gateway.process().signal(Signal::TERM).unwrap();
    assert!(gateway.process().ended(PROMPT).await.unwrap().success());
}
