//! Floods: resets, continuations, headers, streams. The one who floods loses its connection at
//! most; everybody else is served.

use std::time::Duration;

use integration::client::RawClient;
use integration::client::frames::{self, Frame, flag, header_block, kind};
use integration::client::raw::request;
use serde_json::json;

use super::site::Site;

/// Error code of GOAWAY and RST_STREAM (RFC 9113, section 7).
const ENHANCE_YOUR_CALM: u32 = 11;
/// No flood of a few megabytes may cost more than this.
const GROWTH_MAX: u64 = 24 << 20;

async fn open(site: &Site) -> RawClient {
    let mut client = RawClient::connect_with(&site.target, &[b"h2"])
        .await
        .unwrap();
    frames::open(&mut client).await.unwrap();
    client
}

fn head(path: &str) -> Vec<u8> {
    header_block(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "g"),
        (":path", path),
    ])
}

/// Reads on until the connection ends; the error code of the GOAWAY in front of it.
async fn ended(client: &mut RawClient) -> Option<u32> {
    let mut code = None;
    let reading = async {
        while let Ok(frame) = frames::next(client).await {
            if frame.kind == kind::GOAWAY {
                code = frame.error_code();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reading)
        .await
        .expect("the connection must end");
    code
}

/// Sends the same bytes until the peer takes no more.
async fn pour(client: &mut RawClient, bytes: &[u8], times: usize) {
    for _ in 0..times {
        if client.send(bytes).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn rapid_reset_ends_the_flooder_and_nobody_else() {
    let site = Site::new().await;
    let bystander = site.h2().await;
    bystander.get(&site.path("/echo"), "t").await.unwrap();
    let before = site.gateway.usage().unwrap().rss;
    let block = head(&site.path("/hang"));
    let mut streams = 0;
    for _ in 0..4 {
        let mut client = open(&site).await;
        for batch in 0..100_u32 {
            let mut bytes = Vec::new();
            for n in 0..100 {
                let stream = 1 + 2 * (batch * 100 + n);
                let flags = flag::END_HEADERS | flag::END_STREAM;
                bytes.extend(Frame::new(kind::HEADERS, flags, stream, &block[..]).encode());
                bytes.extend(Frame::cancel(stream).encode());
            }
            if client.send(bytes).await.is_err() {
                break;
            }
            streams += 100;
        }
        assert_eq!(
            ended(&mut client).await,
            Some(ENHANCE_YOUR_CALM),
            "after {streams} streams"
        );
    }
    let reply = bystander.get(&site.path("/echo"), "t").await.unwrap();
    assert_eq!(reply.status, 200, "the bystander's connection is served on");
    let reached = site.uris().iter().filter(|u| u.ends_with("/hang")).count();
    assert!(
        reached < 2000,
        "{reached} of {streams} streams reached the upstream"
    );
    let grown = site.gateway.usage().unwrap().rss.saturating_sub(before);
    assert!(grown < GROWTH_MAX, "memory grew by {grown} bytes");
}

#[tokio::test]
async fn a_flood_of_continuations_ends_the_connection() {
    let site = Site::new().await;
    site.still_serves().await;
    let before = site.gateway.usage().unwrap().rss;
    for payload in [&[][..], &[b'x'; 1024], &[0; 16 * 1024]] {
        let mut client = open(&site).await;
        let block = head(&site.path("/echo"));
        client
            .send(Frame::new(kind::HEADERS, flag::END_STREAM, 1, block).encode())
            .await
            .unwrap();
        let more = Frame::new(kind::CONTINUATION, 0, 1, payload).encode();
        pour(&mut client, &more.repeat(64), 1000).await;
        ended(&mut client).await;
    }
    let grown = site.gateway.usage().unwrap().rss.saturating_sub(before);
    assert!(grown < GROWTH_MAX, "memory grew by {grown} bytes");
    assert_eq!(site.uris().len(), 1, "{:?}", site.uris());
    site.still_serves().await;
}

/// Frames that cost the sender nothing and the receiver an answer each.
#[tokio::test]
async fn floods_of_pings_settings_and_empty_data_cost_little() {
    let site = Site::new().await;
    site.still_serves().await;
    let before = site.gateway.usage().unwrap().rss;
    let post = header_block(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "g"),
        (":path", &site.path("/hang")),
    ]);
    let floods = [
        Frame::new(kind::PING, 0, 0, [0; 8]),
        Frame::new(kind::SETTINGS, 0, 0, []),
        Frame::new(kind::SETTINGS, 0, 0, [0, 4, 0, 1, 0, 0]),
        Frame::new(kind::DATA, 0, 1, []),
        Frame::new(kind::WINDOW_UPDATE, 0, 0, [0, 0, 0, 1]),
        Frame::new(2, 0, 1, [0, 0, 0, 0, 16]),
        Frame::new(0xfa, 0, 0, [0; 64]),
    ];
    for frame in floods {
        let mut client = open(&site).await;
        client
            .send(Frame::new(kind::HEADERS, flag::END_HEADERS, 1, &post[..]).encode())
            .await
            .unwrap();
        let (mut stream, _) = {
            // The answers stay unread: whatever the gateway queues for them is its own memory.
            let bytes = frame.encode().repeat(200);
            let pouring = pour(&mut client, &bytes, 500);
            let _ = tokio::time::timeout(Duration::from_secs(2), pouring).await;
            client.into_parts()
        };
        let grown = site.gateway.usage().unwrap().rss.saturating_sub(before);
        assert!(
            grown < GROWTH_MAX,
            "{frame:?}: memory grew by {grown} bytes"
        );
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut stream).await;
        site.still_serves().await;
    }
}

#[tokio::test]
async fn streams_over_the_limit_are_refused_one_by_one() {
    let site = Site::with(json!({"limits": {"maxConcurrentStreams": 5}})).await;
    let mut client = open(&site).await;
    let block = head(&site.path("/hang"));
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let streams = (0..6).map(|n| Frame::new(kind::HEADERS, flags, 1 + 2 * n, &block[..]).encode());
    // The limit is announced in the gateway's first frame; it binds once that is acknowledged.
    let frame = frames::next(&mut client).await.unwrap();
    assert_eq!((frame.kind, frame.flags), (kind::SETTINGS, 0));
    assert!(
        frame.payload.chunks(6).any(|s| s == [0, 3, 0, 0, 0, 5]),
        "{:?}",
        frame.payload
    );
    client
        .send(Frame::new(kind::SETTINGS, flag::ACK, 0, []).encode())
        .await
        .unwrap();
    for stream in streams {
        client.send(stream).await.unwrap();
    }
    let refused = loop {
        let frame = frames::next(&mut client).await.unwrap();
        if frame.kind == kind::RST_STREAM {
            break frame;
        }
        assert!(frame.kind != kind::GOAWAY, "the connection stays");
    };
    assert_eq!(
        (refused.stream, refused.error_code()),
        (11, Some(7)),
        "REFUSED_STREAM for the sixth"
    );
    assert_eq!(site.seen(5).await.len(), 5);
}

/// Header bytes at the limit and one above, by HTTP/1.1: the head as it is on the wire.
#[tokio::test]
async fn a_head_at_the_limit_is_read_and_one_byte_more_is_not() {
    const LIMIT: usize = 8 * 1024;
    let site = Site::with(json!({"limits": {"maxHeaderBytes": LIMIT}})).await;
    let path = site.path("/echo");
    let sized = |size: usize| {
        let bare = request("GET", &path, &[("X", "")], b"").len();
        request("GET", &path, &[("X", &"x".repeat(size - bare))], b"")
    };
    let mut client = site.raw().await;
    client.send(sized(LIMIT)).await.unwrap();
    assert_eq!(client.response("GET").await.unwrap().status(), 200);
    let mut client = site.raw().await;
    client.send(sized(LIMIT + 1)).await.unwrap();
    assert_eq!(client.response("GET").await.unwrap().status(), 431);
    assert_eq!(site.uris().len(), 1);
}

/// As above by HTTP/2: names, values and 32 bytes for each field (RFC 9113, section 6.5.2).
#[tokio::test]
async fn a_header_list_at_the_limit_is_read_and_one_byte_more_is_not() {
    const LIMIT: usize = 8 * 1024;
    let site = Site::with(json!({"limits": {"maxHeaderBytes": LIMIT}})).await;
    let path = site.path("/echo");
    let status = async |size: usize| {
        let fixed = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "g"),
            (":path", path.as_str()),
        ];
        let bare: usize = fixed.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
        let value = "x".repeat(size - bare - 33);
        let block = header_block(&[&fixed[..], &[("x", &value)]].concat());
        let mut client = open(&site).await;
        let (first, rest) = block.split_at(4000);
        let mut bytes = Frame::new(kind::HEADERS, flag::END_STREAM, 1, first).encode();
        bytes.extend(Frame::new(kind::CONTINUATION, flag::END_HEADERS, 1, rest).encode());
        client.send(bytes).await.unwrap();
        loop {
            let frame = frames::next(&mut client).await.unwrap();
            match frame.kind {
                // `:status` 200 is entry 8 of the static table; others are spelled out.
                kind::HEADERS if frame.payload.contains(&0x88) => return 200,
                kind::HEADERS => return 431,
                kind::RST_STREAM | kind::GOAWAY => return 0,
                _ => {}
            }
        }
    };
    assert_eq!(status(LIMIT).await, 200);
    let refused = status(LIMIT + 1).await;
    assert!(refused == 431 || refused == 0, "{refused}");
    assert_eq!(site.uris().len(), 1);
}

#[tokio::test]
async fn too_many_header_lines_are_refused() {
    let site = Site::new().await;
    let ask = async |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("x-{n}")).collect();
        let fields: Vec<_> = names.iter().map(|n| (n.as_str(), "1")).collect();
        let reply = site.raw().await.get("/nowhere", &fields).await.unwrap();
        // `Host` is one line more.
        (reply.status(), reply.head.get("audit-id").is_some())
    };
    assert_eq!(ask(511).await, (404, true), "512 lines are read");
    assert_eq!(ask(512).await, (431, false), "513 are not");
}

/// A head that never ends must not be collected beyond the limit.
#[tokio::test]
async fn an_endless_head_is_refused_at_the_limit() {
    let site = Site::with(json!({"limits": {"maxHeaderBytes": 16384}})).await;
    for piece in ["x", "X-A: b\r\n"] {
        let mut client = site.raw().await;
        let start = format!("GET {} HTTP/1.1\r\nHost: g\r\nX: ", site.path("/echo"));
        client.send(start).await.unwrap();
        let _ = client.send(piece.repeat(64 * 1024 / piece.len())).await;
        // Four times the limit is there, and no end: the answer must not wait for more.
        assert_eq!(client.head().await.unwrap().status, 431, "{piece:?}");
    }
    assert_eq!(site.uris(), [""; 0]);
}

/// A header block that is small on the wire and large in memory.
#[tokio::test]
async fn a_header_bomb_is_refused() {
    let site = Site::new().await;
    site.still_serves().await;
    let before = site.gateway.usage().unwrap().rss;
    let mut client = open(&site).await;
    // A field of 4,000 bytes enters the dynamic table; each byte 0xbe repeats it.
    let mut block = head(&site.path("/echo"));
    block.extend([0x40, 1, b'x', 127, 0xa1, 0x1e]);
    block.extend([b'y'; 4000]);
    block.extend([0xbe; 10_000]);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    client
        .send(Frame::new(kind::HEADERS, flags, 1, block).encode())
        .await
        .unwrap();
    let frame = loop {
        let Ok(frame) = frames::next(&mut client).await else {
            break None;
        };
        if matches!(frame.kind, kind::HEADERS | kind::RST_STREAM | kind::GOAWAY) {
            break Some(frame);
        }
    };
    if let Some(frame) = frame {
        assert!(
            frame.kind != kind::HEADERS || !frame.payload.contains(&0x88),
            "{frame:?}"
        );
    }
    assert_eq!(site.uris().len(), 1, "nothing but the first request");
    let grown = site.gateway.usage().unwrap().rss.saturating_sub(before);
    assert!(grown < GROWTH_MAX, "memory grew by {grown} bytes");
}
