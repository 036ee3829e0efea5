//! The gateway's end: GOAWAY, short requests finish, watches end cleanly, deadline.

use std::time::Duration;

use integration::client::{RawClient, SOON, Target, raw};
use integration::fakeup;
use integration::gateway::{Cluster, Options};
use integration::wait;
use rustix::process::Signal;
use serde_json::json;

/// Far above what a drain of nothing takes, far below its deadline.
const PROMPT: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_drain_ends_a_watch_cleanly_and_then_the_process() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = Options::new()
        .cluster(Cluster::fake(&upstream))
        .with(json!({"drain": {"timeout": "20s"}}))
        .start()
        .await
        .unwrap();
    let target = Target::gateway(&gateway);
    let path = format!("{}/api/v1/namespaces/d/forever?watch=1", gateway.path());
    let mut watch = RawClient::connect(&target).await.unwrap();
    watch
        .send(raw::request(
            "GET",
            &path,
            &[("Authorization", "Bearer t")],
            b"",
        ))
        .await
        .unwrap();
    assert_eq!(watch.head().await.unwrap().status, 200);
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
    let gateway = Options::new()
        .cluster(Cluster::fake(&upstream))
        .start()
        .await
        .unwrap();
    let path = format!("{}/gated", gateway.path());
    let mut client = RawClient::connect(&Target::gateway(&gateway))
        .await
        .unwrap();
    client
        .send(raw::request(
            "GET",
            &path,
            &[("Authorization", "Bearer t")],
            b"",
        ))
        .await
        .unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
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
    let gateway = Options::new()
        .cluster(Cluster::fake(&upstream))
        .with(json!({"drain": {"timeout": "1s"}}))
        .start()
        .await
        .unwrap();
    let path = format!("{}/forever", gateway.path());
    let mut client = RawClient::connect(&Target::gateway(&gateway))
        .await
        .unwrap();
    client
        .send(raw::request(
            "GET",
            &path,
            &[("Authorization", "Bearer t")],
            b"",
        ))
        .await
        .unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    gateway.process().signal(Signal::TERM).unwrap();
    assert!(gateway.process().ended(PROMPT).await.unwrap().success());
}
