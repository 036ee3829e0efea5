//! Clients that hold what they have and send as little as possible.

use std::time::Duration;

use integration::client::frames::{self, Frame, header_block, kind};
use integration::client::{RawClient, SOON};
use integration::wait::{Look, eventually, until, within};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::site::{Site, metric_becomes};

fn short() -> Value {
    json!({"limits": {"tlsHandshakeTimeout": "300ms", "headerReadTimeout": "300ms"}})
}

/// Waits for the peer to close while `send` feeds it one byte after the other.
async fn dribble(tcp: &mut TcpStream, bytes: &[u8]) {
    let (mut reader, mut writer) = tcp.split();
    let sending = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        for byte in bytes.iter().cycle() {
            ticks.tick().await;
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    };
    let closed = async { while matches!(reader.read(&mut [0; 1024]).await, Ok(n) if n > 0) {} };
    let either = async {
        tokio::select! { () = sending => {}, () = closed => {} }
    };
    within("the gateway to close", SOON, either).await.unwrap();
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let site = Site::with(short()).await;
    let mut silent = TcpStream::connect(site.gateway.address()).await.unwrap();
    let read = within("the close", SOON, silent.read(&mut [0; 16]))
        .await
        .unwrap();
    assert!(!matches!(read, Ok(n) if n > 0));
    // The head of a handshake record that announces more than ever comes.
    let mut slow = TcpStream::connect(site.gateway.address()).await.unwrap();
    dribble(&mut slow, &[0x16, 3, 1, 0x20, 0, 1, 0, 0x1f]).await;
    metric_becomes(
        &site.gateway,
        "portcullis_connections_refused_total",
        &["tlsHandshakeTimeout"],
        2.0,
    )
    .await;
    site.still_serves().await;
}

#[tokio::test]
async fn a_plain_text_request_is_no_handshake() {
    let site = Site::new().await;
    let mut tcp = TcpStream::connect(site.gateway.address()).await.unwrap();
    tcp.write_all(b"GET /clusters/default/fake/x HTTP/1.1\r\nHost: g\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = within("the close", SOON, tcp.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(site.uris(), [""; 0]);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_ends_the_connection() {
    let site = Site::with(short()).await;
    for start in [
        "",
        "G",
        "GET /clusters/default/fake/x HTTP/1.1\r\nHost: g\r\nX: ",
    ] {
        let mut client = site.raw().await;
        client.send(start).await.unwrap();
        let closed = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(50));
            loop {
                ticks.tick().await;
                // Before the first byte the timer is that of an idle connection.
                let piece = if start.is_empty() { "" } else { "x" };
                if client.send(piece).await.is_err()
                    || client
                        .some(Duration::from_millis(1))
                        .await
                        .is_ok_and(|b| b.is_empty())
                {
                    return;
                }
            }
        };
        within(&format!("the close behind {start:?}"), SOON, closed)
            .await
            .unwrap();
    }
    assert_eq!(site.uris(), [""; 0]);
    site.still_serves().await;
}

/// HTTP/2 has been agreed on, and then nothing, or half a request.
#[tokio::test]
async fn http2_that_does_not_begin_ends_the_connection() {
    let site = Site::with(short()).await;
    let path = site.path("/echo");
    let block = header_block(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "g"),
        (":path", &path),
    ]);
    let settings = Frame::new(kind::SETTINGS, 0, 0, []).encode();
    let headers = Frame::new(kind::HEADERS, 0, 1, block).encode();
    for (name, bytes) in [
        ("nothing", vec![]),
        ("half a preface", frames::PREFACE[..10].to_vec()),
        ("preface without settings", frames::PREFACE.to_vec()),
        (
            "half a header block",
            [frames::PREFACE, &settings, &headers].concat(),
        ),
        (
            "half a frame",
            [frames::PREFACE, &settings, &headers[..12]].concat(),
        ),
    ] {
        let mut client = RawClient::connect_with(&site.target, &[b"h2"])
            .await
            .unwrap();
        // On a slow machine it may have been closed already.
        let _ = client.send(bytes).await;
        let closed = async { while client.some(SOON).await.is_ok_and(|b| !b.is_empty()) {} };
        within(
            &format!("the close behind {name}"),
            Duration::from_secs(5),
            closed,
        )
        .await
        .unwrap();
    }
    assert_eq!(site.uris(), [""; 0]);
}

#[tokio::test]
async fn connections_at_the_limit_are_served_and_one_more_is_not() {
    let site = Site::with(json!({"limits": {"maxConnections": 3}})).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = site.raw().await;
        assert_eq!(
            client.get(&site.path("/echo"), &[]).await.unwrap().status(),
            200
        );
        clients.push(client);
    }
    assert!(
        RawClient::connect(&site.target).await.is_err(),
        "the fourth is closed at once"
    );
    metric_becomes(
        &site.gateway,
        "portcullis_connections_refused_total",
        &["maxConnections"],
        1.0,
    )
    .await;
    for client in &mut clients {
        assert_eq!(
            client.get(&site.path("/echo"), &[]).await.unwrap().status(),
            200
        );
    }
    drop(clients.pop());
    eventually("a free place", SOON, || async {
        match RawClient::connect(&site.target).await {
            Ok(mut client) => match client.get(&site.path("/echo"), &[]).await {
                Ok(_) => Look::Ready(()),
                Err(error) => Look::Not(error.to_string()),
            },
            Err(error) => Look::Not(error.to_string()),
        }
    })
    .await
    .unwrap();
}

/// A body that comes too slowly holds a place no longer than any request may.
#[tokio::test]
async fn a_body_that_stops_half_way_ends_at_the_deadline() {
    let site =
        Site::with(json!({"limits": {"requestTimeout": "1s", "maxMutatingRequestsInFlight": 1}}))
            .await;
    site.still_serves().await;
    let mut client = site.raw().await;
    let head = integration::client::raw::request(
        "POST",
        &site.path("/echo"),
        &[("Content-Length", "100")],
        b"abc",
    );
    client.send(head).await.unwrap();
    assert_eq!(client.response("POST").await.unwrap().status(), 504);
    let broken = || {
        site.upstream
            .last()
            .is_ok_and(|s| matches!(s.body_end, integration::fakeup::BodyEnd::Broken(_)))
    };
    until("the upstream to see it broken", SOON, broken)
        .await
        .unwrap();
    let h2 = site.h2().await;
    let reply = h2
        .call(http::Method::POST, &site.path("/echo"), &[], "x")
        .await
        .unwrap();
    assert_eq!(reply.status, 200, "the place is free again");
}
