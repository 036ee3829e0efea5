//! What passes as it is: nothing invented, nothing lost, nothing merged.

use http::Method;
use integration::client::raw::{End, Response, request};
use integration::client::{H2Client, Reply};
use integration::fakeup::Fault;

use crate::attacks::site::{Site, values};

const TOKEN: (&str, &str) = ("authorization", "Bearer alice-token");

/// What the gateway adds or the protocol demands, whatever the upstream says.
const OURS: [&str; 4] = ["date", "audit-id", "connection", "transfer-encoding"];

/// The answer of an upstream that says these bytes, by HTTP/1.1 and by HTTP/2.
pub(super) async fn answered(site: &Site, method: Method, bytes: &[u8]) -> (Response, Reply) {
    site.upstream
        .set_fault(Fault::Answer(bytes.to_vec()))
        .await
        .unwrap();
    let mut client = site.raw().await;
    client
        .send(request(method.as_str(), &site.path("/x"), &[TOKEN], b""))
        .await
        .unwrap();
    let raw = client.response(method.as_str()).await.unwrap();
    let h2 = H2Client::connect(&site.target).await.unwrap();
    (
        raw,
        h2.call(method, &site.path("/x"), &[TOKEN], "")
            .await
            .unwrap(),
    )
}

/// Names of the fields that are not [`OURS`], in order.
pub(super) fn names(response: &Response) -> Vec<String> {
    let names = response
        .head
        .headers
        .iter()
        .map(|(n, _)| n.to_ascii_lowercase());
    names.filter(|n| !OURS.contains(&n.as_str())).collect()
}

pub(super) fn h2_names(reply: &Reply) -> Vec<String> {
    let names = reply.headers.keys().map(|n| n.as_str().to_owned());
    names.filter(|n| !OURS.contains(&n.as_str())).collect()
}

/// A client that gets a content type with a 304 takes an empty body for the document.
#[tokio::test]
async fn answers_without_a_body_gain_nothing() {
    let site = Site::http1().await;
    for (bytes, code, fields) in [
        (
            &b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nVary: Accept\r\n\r\n"[..],
            304,
            vec!["etag", "vary"],
        ),
        (
            b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nContent-Length: 7\r\n\r\n",
            304,
            vec!["etag", "content-length"],
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, vec![]),
        (
            b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
            205,
            vec!["content-length"],
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
            vec!["content-length"],
        ),
    ] {
        let (raw, h2) = answered(&site, Method::GET, bytes).await;
        assert_eq!((raw.status(), h2.status.as_u16()), (code, code));
        assert!(raw.body.is_empty() && h2.body.is_empty());
        for found in [names(&raw), h2_names(&h2)] {
            let without = |names: &[String]| -> Vec<String> {
                names
                    .iter()
                    .filter(|n| *n != "content-length")
                    .cloned()
                    .collect()
            };
            assert!(
                !found.contains(&"content-type".to_owned()),
                "{code}: {found:?}"
            );
            let fields: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
            assert_eq!(without(&found), without(&fields), "{code}");
        }
    }
    // By HTTP/2 from the upstream as well.
    let site = Site::new().await;
    let reply = site
        .get("/unmodified", &[("If-None-Match", "\"v1\"")])
        .await;
    assert_eq!((reply.status(), reply.end), (304, End::None));
    assert_eq!(names(&reply), ["etag"]);
    let seen = site.upstream.last().unwrap();
    assert_eq!(values(&seen, "if-none-match"), ["\"v1\""]);
}

#[tokio::test]
async fn a_length_stays_a_length() {
    let site = Site::http1().await;
    let bytes =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello";
    let (raw, h2) = answered(&site, Method::GET, bytes).await;
    assert_eq!(
        (raw.head.get("content-length"), raw.text().as_str()),
        (Some("5"), "hello")
    );
    assert_eq!(raw.head.get("transfer-encoding"), None);
    assert_eq!(
        (h2.all("content-length"), h2.text().as_str()),
        (vec!["5"], "hello")
    );
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let (raw, h2) = answered(&site, Method::GET, chunked).await;
    assert_eq!(
        (raw.head.get("content-length"), raw.end),
        (None, End::Complete)
    );
    assert!(h2.all("content-length").is_empty());
    assert_eq!(
        (raw.text().as_str(), h2.text().as_str()),
        ("hello", "hello")
    );
    for names in [names(&raw), h2_names(&h2)] {
        assert!(names.is_empty(), "nothing is invented: {names:?}");
    }
}

#[tokio::test]
async fn the_length_of_a_request_stays_its_length() {
    for site in [Site::new().await, Site::http1().await] {
        let h2 = site.h2().await;
        for (method, body) in [
            (Method::POST, "hello"),
            (Method::PUT, "x"),
            (Method::DELETE, "{\"kind\":\"DeleteOptions\"}"),
        ] {
            let mut client = site.raw().await;
            client
                .send(request(
                    method.as_str(),
                    &site.path("/echo"),
                    &[TOKEN],
                    body.as_bytes(),
                ))
                .await
                .unwrap();
            client.response(method.as_str()).await.unwrap();
            h2.call(method.clone(), &site.path("/echo"), &[TOKEN], body)
                .await
                .unwrap();
            for seen in site.upstream.seen() {
                assert_eq!(
                    seen.header("content-length"),
                    Some(body.len().to_string()),
                    "{method}"
                );
                assert_eq!(seen.header("transfer-encoding"), None, "{method}");
                assert_eq!(seen.body, body.as_bytes());
            }
            site.upstream.forget();
        }
        // A read has no body, and says so by saying nothing.
        site.get("/echo", &[]).await;
        h2.get(&site.path("/echo"), "t").await.unwrap();
        for seen in site.upstream.seen() {
            assert_eq!(
                (
                    seen.header("content-length"),
                    seen.header("transfer-encoding")
                ),
                (None, None)
            );
        }
    }
}

#[tokio::test]
async fn head_and_options_pass() {
    let site = Site::http1().await;
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1234\r\nETag: \"v1\"\r\n\r\n";
    let (raw, h2) = answered(&site, Method::HEAD, bytes).await;
    assert_eq!(
        (raw.status(), raw.head.get("content-length"), raw.end),
        (200, Some("1234"), End::None)
    );
    assert_eq!(names(&raw), ["content-type", "content-length", "etag"]);
    assert_eq!((h2.all("content-length"), h2.body.len()), (vec!["1234"], 0));
    for site in [Site::new().await, Site::http1().await] {
        for method in [
            Method::OPTIONS,
            Method::TRACE,
            Method::from_bytes(b"PROPFIND").unwrap(),
        ] {
            let headers = [
                TOKEN,
                ("origin", "https://evil.example"),
                ("access-control-request-method", "PUT"),
            ];
            let reply = site
                .h2()
                .await
                .call(method.clone(), &site.path("/echo"), &headers, "")
                .await
                .unwrap();
            assert_eq!(reply.status, 200, "{method}");
            assert_eq!(site.upstream.last().unwrap().method, method);
            let cors = reply
                .headers
                .keys()
                .any(|n| n.as_str().starts_with("access-control"));
            assert!(!cors, "{method}: the gateway allows no origin of its own");
        }
    }
}

/// Compressed, CBOR and protobuf bodies are bytes like any others, in both directions.
#[tokio::test]
async fn bodies_are_not_looked_into() {
    let body: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    for (media, encoding) in [
        ("application/json", Some("gzip")),
        ("application/cbor", None),
        ("application/vnd.kubernetes.protobuf", None),
        ("application/vnd.kubernetes.protobuf;stream=watch", None),
    ] {
        let site = Site::http1().await;
        let coded = encoding
            .map(|e| format!("Content-Encoding: {e}\r\n"))
            .unwrap_or_default();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n{coded}ETag: \"e\"\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (raw, h2) = answered(&site, Method::GET, &[head.as_bytes(), &body].concat()).await;
        assert_eq!(
            (
                raw.head.get("content-type"),
                raw.head.get("content-encoding")
            ),
            (Some(media), encoding)
        );
        assert_eq!(
            h2.all("content-encoding"),
            encoding.into_iter().collect::<Vec<_>>()
        );
        assert_eq!(
            (raw.head.get("etag"), h2.all("etag")),
            (Some("\"e\""), vec!["\"e\""])
        );
        assert!(raw.body == body && h2.body == body, "{media}");
        // Upwards.
        let site = Site::new().await;
        let mut headers = vec![
            TOKEN,
            ("content-type", media),
            ("accept", media),
            ("accept-encoding", "gzip"),
        ];
        headers.extend(encoding.map(|e| ("content-encoding", e)));
        let small = body[..40_000].to_vec();
        site.h2()
            .await
            .call(Method::PATCH, &site.path("/echo"), &headers, small.clone())
            .await
            .unwrap();
        let seen = site.upstream.last().unwrap();
        assert_eq!(seen.body, small, "{media}");
        for (name, value) in headers {
            assert_eq!(values(&seen, name), [value], "{media}");
        }
    }
}

#[tokio::test]
async fn trailers_pass() {
    let site = Site::new().await;
    let te = ("te", "trailers");
    let reply = site
        .h2()
        .await
        .call(Method::GET, &site.path("/trailer"), &[te], "")
        .await
        .unwrap();
    assert_eq!(
        (
            reply.text().as_str(),
            reply.trailers.unwrap()["x-end"].to_str().unwrap()
        ),
        ("body\n", "1")
    );
    // By HTTP/1.1 they may be dropped, and must not break the body.
    let reply = site.get("/trailer", &[te]).await;
    assert_eq!(
        (reply.text().as_str(), reply.end),
        ("body\n", End::Complete)
    );
    let site = Site::http1().await;
    let bytes = b"HTTP/1.1 200 OK\r\nTrailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n\
        4\r\nbody\r\n0\r\nX-End: 1\r\n\r\n";
    let (raw, h2) = answered(&site, Method::GET, bytes).await;
    assert_eq!((raw.text().as_str(), raw.end), ("body", End::Complete));
    assert_eq!(
        (
            h2.text().as_str(),
            h2.trailers.unwrap()["x-end"].to_str().unwrap()
        ),
        ("body", "1")
    );
}
