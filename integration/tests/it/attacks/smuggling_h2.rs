//! HTTP/2 requests that become two when they are written as HTTP/1.1, frame by frame.

use integration::client::RawClient;
use integration::client::frames::{self, Frame, flag, header_block, kind};
use integration::fakeup::BodyEnd;

use super::site::Site;

/// What came back on the stream.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// An answer with this first byte of its header block: an indexed `:status`, mostly.
    Answered,
    /// The stream or the connection was ended.
    Refused,
}

/// Sends one request with these fields in front of `DATA`, and waits for what becomes of it.
async fn send(site: &Site, fields: &[(&str, &str)], data: &[u8], end: bool) -> Outcome {
    let mut client = RawClient::connect_with(&site.target, &[b"h2"])
        .await
        .unwrap();
    frames::open(&mut client).await.unwrap();
    let head_flags = flag::END_HEADERS
        | if data.is_empty() && end {
            flag::END_STREAM
        } else {
            0
        };
    let mut bytes = Frame::new(kind::HEADERS, head_flags, 1, header_block(fields)).encode();
    if !data.is_empty() {
        let flags = if end { flag::END_STREAM } else { 0 };
        bytes.extend(Frame::new(kind::DATA, flags, 1, data).encode());
    }
    client.send(bytes).await.unwrap();
    loop {
        let Ok(frame) = frames::next(&mut client).await else {
            return Outcome::Refused;
        };
        match frame.kind {
            kind::HEADERS => return Outcome::Answered,
            kind::RST_STREAM | kind::GOAWAY => return Outcome::Refused,
            _ => {}
        }
    }
}

fn get(path: &str) -> Vec<(&str, &str)> {
    vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "g"),
        (":path", path),
    ]
}

fn post(path: &str) -> Vec<(&str, &str)> {
    vec![
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "g"),
        (":path", path),
    ]
}

const HIDDEN: &str = " HTTP/1.1\r\nHost: g\r\n\r\nGET /pfx/a/hidden";

#[tokio::test]
async fn line_ends_in_http2_fields_never_reach_an_http1_upstream() {
    let site = Site::http1().await;
    let path = site.path("/echo");
    let split = format!("{path}{HIDDEN}");
    let method = format!("GET {path} HTTP/1.1\r\nHost: g\r\n\r\nGET");
    let mut requests = vec![
        get(&split),
        vec![
            (":method", &method),
            (":scheme", "https"),
            (":authority", "g"),
            (":path", &path),
        ],
        vec![
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "g\r\nX: y"),
            (":path", &path),
        ],
    ];
    for field in [
        ("x", "y\r\nTransfer-Encoding: chunked"),
        ("x", "y\nTransfer-Encoding: chunked"),
        ("x", "y\0"),
        ("x\r\ntransfer-encoding", "chunked"),
        ("x: y\r\ncontent-length", "3"),
        ("x y", "z"),
    ] {
        requests.push([&get(&path)[..], &[field]].concat());
    }
    for fields in requests {
        let _ = send(&site, &fields, b"", true).await;
        let seen = site.upstream.seen();
        assert!(!seen.iter().any(|s| s.uri.contains("hidden")), "{fields:?}");
        for field in ["transfer-encoding", "content-length"] {
            assert!(seen.iter().all(|s| s.header(field).is_none()), "{fields:?}");
        }
    }
    site.still_serves().await;
}

#[tokio::test]
async fn fields_that_http2_forbids_are_refused() {
    for site in [Site::http1().await, Site::new().await] {
        let path = site.path("/echo");
        for field in [
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("connection", "impersonate-user"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("upgrade", "websocket"),
            ("te", "chunked"),
            ("Content-Length", "0"),
            (":path", "/clusters/default/fake/hidden"),
            (":unknown", "x"),
        ] {
            let fields = [&get(&path)[..], &[field]].concat();
            assert_eq!(
                send(&site, &fields, b"", true).await,
                Outcome::Refused,
                "{field:?}"
            );
        }
        for missing in [":method", ":path", ":scheme"] {
            let fields: Vec<_> = get(&path)
                .into_iter()
                .filter(|(n, _)| *n != missing)
                .collect();
            assert_eq!(
                send(&site, &fields, b"", true).await,
                Outcome::Refused,
                "{missing}"
            );
        }
        assert_eq!(site.uris(), [""; 0], "nothing is forwarded");
    }
}

/// A length that is not the length of the data.
#[tokio::test]
async fn a_length_that_lies_never_makes_two_requests_of_one() {
    for site in [Site::http1().await, Site::new().await] {
        let path = site.path("/echo");
        let hidden = format!("GET {path}/hidden HTTP/1.1\r\nHost: g\r\n\r\n");
        for (length, data) in [
            ("0", hidden.as_str()),
            ("5", hidden.as_str()),
            ("9999", hidden.as_str()),
            ("0, 5", "abcde"),
        ] {
            site.upstream.forget();
            let fields = [&post(&path)[..], &[("content-length", length)]].concat();
            let _ = send(&site, &fields, data.as_bytes(), true).await;
            let seen = site.upstream.seen();
            assert!(seen.len() <= 1, "{length}: {:?}", site.uris());
            assert!(
                !seen
                    .iter()
                    .any(|s| s.body_end == BodyEnd::Complete && s.body_length > 0),
                "{length}"
            );
            assert!(!seen.iter().any(|s| s.uri.contains("hidden")), "{length}");
        }
        let fields = [
            &post(&path)[..],
            &[("content-length", "0"), ("content-length", "5")],
        ]
        .concat();
        let _ = send(&site, &fields, b"abcde", true).await;
        assert!(
            !site
                .upstream
                .seen()
                .iter()
                .any(|s| s.body_end == BodyEnd::Complete && s.body_length > 0)
        );
        site.still_serves().await;
    }
}

#[tokio::test]
async fn a_host_field_beside_the_authority_does_not_choose_the_upstream() {
    let site = Site::http1().await;
    let path = site.path("/echo");
    let fields = [&get(&path)[..], &[("host", "evil.example")]].concat();
    let _ = send(&site, &fields, b"", true).await;
    for seen in site.upstream.seen() {
        assert_eq!(seen.host, site.upstream.address().to_string());
        assert_eq!(seen.headers.get_all("host").iter().count(), 1);
    }
}
