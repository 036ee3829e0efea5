//! HTTP/1.1 messages that two hops could split in two ways.
//!
//! Each message hides `GET …/hidden`. Seen from outside the gateway there is one request, so
//! there must never be two behind it.

use integration::client::SOON;
use integration::fakeup::{BodyEnd, Seen};

use super::site::Site;

/// What a client sends: `{p}` is the cluster's path, `{hidden}` a whole request.
struct Message {
    name: &'static str,
    bytes: &'static str,
}

const fn m(name: &'static str, bytes: &'static str) -> Message {
    Message { name, bytes }
}

/// Messages that must be refused before anything is forwarded.
const MALFORMED: &[Message] = &[
    m(
        "transfer-encoding on HTTP/1.0",
        "POST {p}/echo HTTP/1.0\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "transfer-encoding on HTTP/1.0 with a length",
        "POST {p}/echo HTTP/1.0\r\nHost: g\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "chunked that is not last",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "a coding that is none",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "identity beside a length",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n{hidden}",
    ),
    m(
        "two codings in two lines",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "a coding that the gateway cannot undo",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "chunked twice",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "vertical tab before chunked",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "space before the colon",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "space before the colon of a length",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length : 3\r\n\r\nabc{hidden}",
    ),
    m(
        "folded line",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "folded value",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "first field folded",
        "GET {p}/echo HTTP/1.1\r\n Host: g\r\n\r\n{hidden}",
    ),
    m(
        "line without a colon",
        "GET {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length\r\n\r\n{hidden}",
    ),
    m(
        "carriage return inside a value",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n{hidden}",
    ),
    m(
        "NUL inside a value",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n{hidden}",
    ),
    m(
        "NUL inside a name",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length\0: 3\r\n\r\nabc{hidden}",
    ),
    m(
        "differing lengths",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\nabc{hidden}",
    ),
    m(
        "differing lengths in one line",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length: 0, 3\r\n\r\nabc{hidden}",
    ),
    m(
        "signed length",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length: +3\r\n\r\nabc{hidden}",
    ),
    m(
        "negative length",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length: -1\r\n\r\n{hidden}",
    ),
    m(
        "hexadecimal length",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length: 0x3\r\n\r\nabc{hidden}",
    ),
    m(
        "empty length",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length:\r\n\r\n{hidden}",
    ),
    m(
        "length that overflows",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nContent-Length: 18446744073709551619\r\n\r\nabc{hidden}",
    ),
    m(
        "a version that is none",
        "GET {p}/echo HTTP/1.2\r\nHost: g\r\n\r\n{hidden}",
    ),
    m(
        "two versions",
        "GET {p}/echo HTTP/1.1 HTTP/1.1\r\nHost: g\r\n\r\n{hidden}",
    ),
    m("no version", "GET {p}/echo\r\nHost: g\r\n\r\n{hidden}"),
    m(
        "preface of HTTP/2",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{hidden}",
    ),
    m(
        "control character in the target",
        "GET {p}/echo\x01 HTTP/1.1\r\nHost: g\r\n\r\n{hidden}",
    ),
    m(
        "control character in the method",
        "GE\x01T {p}/echo HTTP/1.1\r\nHost: g\r\n\r\n{hidden}",
    ),
];

#[tokio::test]
async fn malformed_messages_are_refused_whole() {
    for site in [Site::http1().await, Site::new().await] {
        for message in MALFORMED {
            let mut client = site.raw().await;
            client.send(written(&site, message.bytes)).await.unwrap();
            let answers = client
                .closed(SOON)
                .await
                .unwrap_or_else(|e| panic!("{}: {e}", message.name));
            let answers = String::from_utf8_lossy(&answers).into_owned();
            assert!(
                answers.matches("HTTP/1.1 ").count() <= 1,
                "{}: {answers}",
                message.name
            );
            assert!(
                answers.is_empty() || refuses(&answers),
                "{}: {answers}",
                message.name
            );
            assert_eq!(
                site.uris(),
                [""; 0],
                "{}: nothing is forwarded",
                message.name
            );
        }
        site.still_serves().await;
    }
}

/// A length and a coding: whichever an earlier hop believed, what follows is not a request.
#[tokio::test]
async fn a_length_beside_chunked_never_makes_two_requests_of_one() {
    for site in [Site::http1().await, Site::new().await] {
        let inner = String::from_utf8(written(&site, "0\r\n\r\n{hidden}")).unwrap();
        let messages = [
            "Content-Length: {length}\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: {length}",
            "Content-Length: {length}\r\ntransfer-encoding:\tCHUNKED",
        ]
        .map(|fields| {
            let fields = fields.replace("{length}", &inner.len().to_string());
            format!("POST {{p}}/echo HTTP/1.1\r\nHost: g\r\n{fields}\r\n\r\n{inner}")
        });
        assert_one_each(&site, &messages).await;
    }
}

/// As above, the other way round: the coding's end lies behind the length's.
#[tokio::test]
async fn a_short_length_beside_chunked_never_makes_two_requests_of_one() {
    for site in [Site::http1().await, Site::new().await] {
        let hidden = String::from_utf8(written(&site, "{hidden}")).unwrap();
        let messages = [
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
        ]
        .map(|fields| {
            let body = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
            format!("POST {{p}}/echo HTTP/1.1\r\nHost: g\r\n{fields}\r\n\r\n{body}")
        });
        for seen in assert_one_each(&site, &messages).await {
            assert_eq!(seen.body, hidden.as_bytes(), "{}", seen.uri);
        }
    }
}

/// Broken chunked framing behind a good head: the body breaks, and nothing behind it is read.
#[tokio::test]
async fn bad_chunk_framing_never_hides_a_request() {
    let bodies = [
        ("signed size", "+0\r\n\r\n{hidden}"),
        ("hexadecimal prefix", "0x0\r\n\r\n{hidden}"),
        ("size that is none", "z\r\n\r\n{hidden}"),
        ("negative size", "-1\r\n\r\n{hidden}"),
        ("empty size", "\r\n\r\n{hidden}"),
        ("size that overflows", "10000000000000000\r\n\r\n{hidden}"),
        ("size with a space in front", " 0\r\n\r\n{hidden}"),
        ("underscore in a size", "0_0\r\n\r\n{hidden}"),
        ("line feed only behind a size", "0\n\n{hidden}"),
        (
            "line feed only behind an extension",
            "0;x\n\r\n\r\n{hidden}",
        ),
        ("carriage return only behind a size", "0\r\r{hidden}"),
        (
            "data longer than its size",
            "3\r\nabcdef\r\n0\r\n\r\n{hidden}",
        ),
        ("no line end behind data", "3\r\nabc0\r\n\r\n{hidden}"),
        ("line feed only behind data", "3\r\nabc\n0\r\n\r\n{hidden}"),
        ("line end hidden in an extension", "1;a\n0\r\n\r\n{hidden}"),
    ];
    for site in [Site::http1().await, Site::new().await] {
        let head = "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n";
        let messages = bodies.map(|(_, body)| format!("{head}{body}"));
        for seen in assert_one_each(&site, &messages).await {
            let name = bodies
                .iter()
                .enumerate()
                .find(|(n, _)| seen.uri.contains(&format!("/m{n}/")));
            assert_ne!(
                seen.body_end,
                BodyEnd::Complete,
                "{name:?}: looks complete upstream"
            );
        }
        site.still_serves().await;
    }
}

/// What is allowed to be lenient stays one message: bare line feeds end lines, and no more.
#[tokio::test]
async fn line_feeds_alone_never_make_two_requests_of_one() {
    let messages = [
        "POST {p}/echo HTTP/1.1\nHost: g\nContent-Length: 3\n\nabc",
        "POST {p}/echo HTTP/1.1\r\nHost: g\r\nX: y\nContent-Length: 3\r\n\r\nabc",
        "GET {p}/echo HTTP/1.1\r\nHost: g\n\nConnection: x\r\n\r\n",
    ];
    for site in [Site::http1().await, Site::new().await] {
        assert_one_each(&site, &messages).await;
    }
}

/// A trailer is no header: what it claims was not checked.
#[tokio::test]
async fn trailers_of_a_request_claim_nothing() {
    for site in [Site::http1().await, Site::new().await] {
        let message = "POST {p}/echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\
            Trailer: Impersonate-User\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\
            Impersonate-User: admin\r\nContent-Length: 0\r\nAuthorization: Bearer admin\r\n\r\n";
        for seen in assert_one_each(&site, &[message]).await {
            for name in ["impersonate-user", "authorization", "trailer"] {
                assert_eq!(seen.header(name), None, "{name}");
            }
        }
    }
}

/// The target may name any host; the request goes where the cluster's object says.
#[tokio::test]
async fn an_absolute_target_does_not_choose_the_upstream() {
    let site = Site::http1().await;
    let message =
        "GET http://evil.example{p}/echo HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n";
    let seen = assert_one_each(&site, &[message]).await.pop().unwrap();
    assert_eq!(seen.uri, "/pfx/a/m0/echo");
    assert_eq!(seen.host, site.upstream.address().to_string());
    for target in ["evil.example:443", &site.upstream.address().to_string()] {
        site.upstream.forget();
        let message = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n{{hidden}}");
        let mut client = site.raw().await;
        client.send(written(&site, &message)).await.unwrap();
        let answers = client.closed(SOON).await.unwrap();
        let answers = String::from_utf8_lossy(&answers).into_owned();
        assert!(refuses(&answers), "CONNECT opens no tunnel: {answers}");
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
        assert_eq!(site.uris(), [""; 0], "what is behind it is not a request");
    }
}

fn written(site: &Site, text: &str) -> Vec<u8> {
    let hidden = format!(
        "GET {}/hidden HTTP/1.1\r\nHost: g\r\n\r\n",
        site.gateway.path()
    );
    text.replace("{hidden}", &hidden)
        .replace("{p}", &site.gateway.path())
        .into_bytes()
}

/// Sends each message on a connection of its own and reads to the end of what it causes: at most
/// one request upstream for each, none of them the hidden one. Returns what came upstream.
async fn assert_one_each(site: &Site, messages: &[impl AsRef<str>]) -> Vec<Seen> {
    for (number, message) in messages.iter().enumerate() {
        let mark = |text: &str| text.replace("{p}", &format!("{{p}}/m{number}"));
        let mut client = site.raw().await;
        client
            .send(written(site, &mark(message.as_ref())))
            .await
            .unwrap();
        if client.response("POST").await.is_ok() {
            // Read on until the gateway has answered all that it took for a request.
            let last = written(
                site,
                "GET {p}/last HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n",
            );
            let _ = client.send(last).await;
            client.closed(SOON).await.unwrap();
        }
    }
    site.still_serves().await;
    let seen = site.upstream.seen();
    for (number, message) in messages.iter().enumerate() {
        let of_this = seen
            .iter()
            .filter(|s| s.uri.contains(&format!("/m{number}/")))
            .count();
        assert!(of_this <= 1, "{of_this} requests of {:?}", message.as_ref());
    }
    assert!(
        !seen.iter().any(|s| s.uri.ends_with("/hidden")),
        "{:?}",
        site.uris()
    );
    seen.into_iter().filter(|s| s.uri.contains("/m")).collect()
}

fn refuses(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5")
}
