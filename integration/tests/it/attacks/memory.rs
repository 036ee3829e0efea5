//! Readers and writers that do not keep up: the gateway holds a window, never a body.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use integration::client::h2::RequestBody;
use integration::client::raw::request;
use integration::client::{H2Client, RawClient, SOON};
use integration::fakeup;
use integration::wait::{Look, eventually, until};

use super::site::Site;

/// What one stalled stream may hold in the gateway: windows of both sides and buffers between.
/// HTTP/1.1 has no windows, and its buffers grow with what comes.
const PER_STREAM_MAX: u64 = 3 << 20;
/// What the allocator may keep for itself.
const ALLOCATOR_MAX: u64 = 16 << 20;

/// Waits until `value` has not changed for twenty looks, and returns it.
async fn settled(what: &str, mut value: impl FnMut() -> u64) -> u64 {
    let (mut last, mut same) = (u64::MAX, 0);
    eventually(what, Duration::from_secs(30), || {
        let now = value();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        std::future::ready(if same >= 20 {
            Look::Ready(now)
        } else {
            Look::Not(now.to_string())
        })
    })
    .await
    .unwrap()
}

fn sent_by(site: &Site) -> u64 {
    site.upstream.seen().iter().map(|s| s.reply_length).sum()
}

#[tokio::test]
async fn readers_that_stop_reading_cost_a_window_each() {
    const READERS: u64 = 12;
    for upstream in [fakeup::Options::new(), fakeup::Options::new().http1_only()] {
        let site = Site::made(upstream, |g| g, |c| c).await;
        site.still_serves().await;
        let before = site.gateway.usage().unwrap().rss;
        let mut held: Vec<(Option<RawClient>, Option<H2Client>)> = Vec::new();
        let mut answers = Vec::new();
        for n in 0..READERS {
            if n % 2 == 0 {
                let mut client = site.raw().await;
                client
                    .send(request("GET", &site.path("/flood"), &[], b""))
                    .await
                    .unwrap();
                assert_eq!(client.head().await.unwrap().status, 200);
                held.push((Some(client), None));
            } else {
                let client = site.h2().await;
                let body = RequestBody::whole(Bytes::new());
                answers.push(
                    client
                        .send(Method::GET, &site.path("/flood"), &[], body)
                        .await
                        .unwrap(),
                );
                held.push((None, Some(client)));
            }
        }
        // 400 MiB each were asked for. Sockets hold some of it; the gateway must not.
        let sent = settled("the upstream to stall", || sent_by(&site)).await;
        assert!(
            sent < READERS * (16 << 20),
            "the upstream sent {sent} bytes"
        );
        let grown = site.gateway.usage().unwrap().rss.saturating_sub(before);
        assert!(
            grown < READERS * PER_STREAM_MAX + ALLOCATOR_MAX,
            "memory grew by {grown} bytes"
        );
        site.still_serves().await;
    }
}

#[tokio::test]
async fn an_upload_that_the_upstream_does_not_read_costs_a_window() {
    for upstream in [fakeup::Options::new(), fakeup::Options::new().http1_only()] {
        let site = Site::made(upstream, |g| g, |c| c).await;
        site.still_serves().await;
        let before = site.gateway.usage().unwrap().rss;
        let taken = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let piece = Bytes::from(vec![b'x'; 64 << 10]);

        let client = site.h2().await;
        let (feed, body) = RequestBody::fed();
        let path = site.path("/hang");
        let hanging =
            tokio::spawn(async move { client.send(Method::POST, &path, &[], body).await });
        let (count, data) = (std::sync::Arc::clone(&taken), piece.clone());
        let feeding = tokio::spawn(async move {
            while feed.send(Ok(data.clone())).await.is_ok() {
                count.fetch_add(data.len() as u64, std::sync::atomic::Ordering::SeqCst);
            }
        });

        let mut raw = site.raw().await;
        let length = ("Content-Length", "400000000");
        raw.send(request("POST", &site.path("/hang"), &[length], b""))
            .await
            .unwrap();
        let count = std::sync::Arc::clone(&taken);
        let pouring = tokio::spawn(async move {
            while raw.send(&piece).await.is_ok() {
                count.fetch_add(piece.len() as u64, std::sync::atomic::Ordering::SeqCst);
            }
        });

        let taken_now = || taken.load(std::sync::atomic::Ordering::SeqCst);
        let sent = settled("the uploads to stall", taken_now).await;
        assert!(sent < 40 << 20, "{sent} bytes were taken");
        let grown = site.gateway.usage().unwrap().rss.saturating_sub(before);
        assert!(
            grown < 2 * PER_STREAM_MAX + ALLOCATOR_MAX,
            "memory grew by {grown} bytes"
        );
        for task in [feeding, pouring] {
            task.abort();
        }
        hanging.abort();
    }
}

/// One upstream connection carries many users: a stream that nobody reads stops only itself.
#[tokio::test]
async fn a_stalled_watch_of_one_user_does_not_stall_another() {
    let site = Site::new().await;
    let path = site.path("/api/v1/flood?watch=true");
    let mut stalled = Vec::new();
    // Several connections, so that each thread of the gateway has its share.
    for _ in 0..4 {
        let greedy = site.h2().await;
        for _ in 0..10 {
            let body = RequestBody::whole(Bytes::new());
            let answer = greedy.send(
                Method::GET,
                &path,
                &[("authorization", "Bearer greedy")],
                body,
            );
            stalled.push(answer.await.unwrap());
        }
    }
    let other = site.h2().await;
    settled("the upstream to stall", || sent_by(&site)).await;
    let loaded: std::collections::BTreeSet<usize> =
        site.upstream.seen().iter().map(|s| s.connection).collect();
    // Enough requests to meet each upstream connection, one after the other and all at once.
    for _ in 0..10 {
        let path = site.path("/stream");
        let asked = (0..4).map(|_| other.get(&path, "other"));
        for reply in futures_util::future::join_all(asked).await {
            assert_eq!(reply.unwrap().text().lines().count(), 8);
        }
    }
    let shared = |s: &&fakeup::Seen| s.uri.ends_with("/stream") && loaded.contains(&s.connection);
    let seen = site.upstream.seen();
    assert!(
        seen.iter().filter(shared).count() > 0,
        "no request met a stalled connection"
    );
    // A second watch gets its events as they happen.
    let (path, body) = (
        site.path("/api/v1/gated?watch=1"),
        RequestBody::whole(Bytes::new()),
    );
    let watching = other.send(Method::GET, &path, &[], body).await.unwrap();
    let mut events = http_body_util::BodyExt::into_data_stream(watching.into_body());
    for n in 0..3 {
        site.upstream.release();
        let event = tokio::time::timeout(SOON, futures_util::StreamExt::next(&mut events)).await;
        assert_eq!(event.unwrap().unwrap().unwrap(), format!("{{\"n\":{n}}}\n"));
    }
}

/// What a client no longer wants is given up upstream, and its memory with it.
#[tokio::test]
async fn clients_that_leave_take_their_streams_with_them() {
    let site = Site::new().await;
    for _ in 0..20 {
        let client = site.h2().await;
        let body = RequestBody::whole(Bytes::new());
        let answer = client
            .send(Method::GET, &site.path("/forever"), &[], body)
            .await
            .unwrap();
        drop((answer, client));
        let mut client = site.raw().await;
        client
            .send(request("GET", &site.path("/forever"), &[], b""))
            .await
            .unwrap();
        client.head().await.unwrap();
        drop(client);
    }
    let dropped = || {
        let seen = site.upstream.seen();
        seen.len() == 40
            && seen
                .iter()
                .all(|s| s.reply_end == fakeup::ReplyEnd::Dropped)
    };
    until("all streams to be dropped upstream", SOON, dropped)
        .await
        .unwrap();
}
