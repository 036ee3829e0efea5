//! Ten thousand faults: no connection, file descriptor, counter or memory is left behind.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use integration::client::h2::RequestBody;
use integration::client::raw::request;
use integration::client::{H2Client, SOON};
use integration::fakeup::Fault;
use integration::wait::until;
use serde_json::json;

use crate::attacks::site::{Site, metric_becomes};

/// Requests under way at once.
const CROWD: usize = 40;
/// Memory that may be in use more after the faults than after the first of each kind.
const GROWTH_MAX: u64 = 12 << 20;

/// What the client does, and what may come of it. 0: the stream breaks. 502 may come whenever the
/// fault has just changed, which cuts connections.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    path: &'static str,
    method: fn() -> Method,
    expected: &'static [u16],
}

const GET: fn() -> Method = || Method::GET;
const POST: fn() -> Method = || Method::POST;

async fn once(client: &H2Client, site: &Site, kind: Kind) {
    let body = if (kind.method)() == Method::POST {
        "x"
    } else {
        ""
    };
    let reply = client
        .call((kind.method)(), &site.path(kind.path), &[], body)
        .await;
    let code = reply.as_ref().map_or(0, |r| r.status.as_u16());
    assert!(
        kind.expected.contains(&code),
        "{}: {code} {reply:?}",
        kind.name
    );
}

async fn many(site: &Site, fault: Fault, kind: Kind, count: usize) {
    site.upstream.set_fault(fault).await.unwrap();
    let client = site.h2().await;
    for _ in 0..count / CROWD {
        let crowd = (0..CROWD).map(|_| once(&client, site, kind));
        futures_util::future::join_all(crowd).await;
        site.upstream.forget();
    }
}

/// Clients that open a watch or an upgrade and leave.
async fn leavers(site: &Site, count: usize) {
    site.upstream.set_fault(Fault::None).await.unwrap();
    let client = site.h2().await;
    for _ in 0..count / CROWD {
        let crowd = (0..CROWD).map(|_| async {
            let body = RequestBody::whole(Bytes::new());
            let path = site.path("/api/v1/forever?watch=true");
            let answer = client.send(Method::GET, &path, &[], body).await.unwrap();
            assert!(matches!(answer.status().as_u16(), 200 | 502), "{answer:?}");
            drop(answer);
        });
        futures_util::future::join_all(crowd).await;
        site.upstream.forget();
    }
}

async fn broken_tunnels(site: &Site, count: usize) {
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let path = site.path("/api/v1/namespaces/n/pods/p/proxy/upgrade");
    for _ in 0..count / 10 {
        let crowd = (0..10).map(|n| {
            let path = &path;
            async move {
                let mut client = site.raw().await;
                client
                    .send(request("GET", path, &upgrade, b""))
                    .await
                    .unwrap();
                assert_eq!(client.head().await.unwrap().status, 101);
                if n % 2 == 0 {
                    drop(client);
                } else {
                    client.reset().unwrap();
                }
            }
        });
        futures_util::future::join_all(crowd).await;
        site.upstream.forget();
    }
}

/// Every kind of fault, each `count` times (tunnels a quarter of it: they cost a handshake each).
async fn round(site: &Site, count: usize) {
    let kind = |name, path, method, expected| Kind {
        name,
        path,
        method,
        expected,
    };
    let answer = |bytes: &[u8]| Fault::Answer(bytes.to_vec());
    let garbage = answer(b"garbage\r\n\r\n");
    let cut = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut");
    for (fault, kind) in [
        (Fault::Down, kind("down, GET", "/x", GET, &[503])),
        (Fault::Down, kind("down, POST", "/x", POST, &[503])),
        (
            Fault::CloseAfterRequest,
            kind("no answer, GET", "/x", GET, &[502, 503]),
        ),
        (
            Fault::CloseAfterRequest,
            kind("no answer, POST", "/x", POST, &[502, 503]),
        ),
        (
            Fault::UnknownAuthority,
            kind("wrong certificate", "/x", GET, &[503]),
        ),
        (garbage, kind("garbage", "/x", GET, &[502, 503])),
        (cut, kind("cut by HTTP/1.1", "/x", GET, &[0, 200, 502, 503])),
        (Fault::None, kind("cut by HTTP/2", "/die", GET, &[0, 502])),
        (Fault::None, kind("error", "/status/503", POST, &[502, 503])),
    ] {
        many(site, fault, kind, count).await;
    }
    leavers(site, count).await;
    broken_tunnels(site, count / 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_faults_leave_nothing_behind() {
    let site = Site::with(json!({"logging": {"level": "error"}})).await;
    round(&site, 2 * CROWD).await;
    let first = settled(&site).await;
    round(&site, 25 * CROWD).await;
    let last = settled(&site).await;
    assert!(
        last.open_files <= first.open_files + 4,
        "files: {} then {}",
        first.open_files,
        last.open_files
    );
    assert!(
        last.threads <= first.threads + 2,
        "threads: {} then {}",
        first.threads,
        last.threads
    );
    let grown = last.rss.saturating_sub(first.rss);
    assert!(
        grown < GROWTH_MAX,
        "memory: {} then {} bytes",
        first.rss,
        last.rss
    );
    for gauge in ["portcullis_streams", "portcullis_requests_in_flight"] {
        metric_becomes(&site.gateway, gauge, &[], 0.0).await;
    }
    site.still_serves().await;
}

/// What the gateway uses when nobody calls and no upstream connection is open.
async fn settled(site: &Site) -> integration::process::Usage {
    site.upstream.set_fault(Fault::None).await.unwrap();
    let gone = || site.upstream.open_connections() == 0;
    until("the upstream connections to go", SOON, gone)
        .await
        .unwrap();
    metric_becomes(&site.gateway, "portcullis_connections", &[], 0.0).await;
    let mut last = usize::MAX;
    until(
        "the number of open files to settle",
        Duration::from_secs(10),
        || {
            let now = site.gateway.usage().unwrap().open_files;
            std::mem::replace(&mut last, now) == now
        },
    )
    .await
    .unwrap();
    site.gateway.usage().unwrap()
}
