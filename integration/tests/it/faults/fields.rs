//! Header fields on their way: those that end at a hop end, all others pass as they are.

use http::Method;

use super::untouched::{answered, h2_names, names};
use crate::attacks::site::{Site, values};

#[tokio::test]
async fn repeated_fields_stay_repeated() {
    for site in [Site::new().await, Site::http1().await] {
        let raw = site.get("/warn", &[("X-One", "1"), ("x-one", "2")]).await;
        assert_eq!(
            raw.head.all("warning"),
            ["299 - \"first\"", "299 - \"second\""]
        );
        assert_eq!(raw.head.all("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(values(&site.upstream.last().unwrap(), "x-one"), ["1", "2"]);
        let h2 = site.h2().await.get(&site.path("/warn"), "t").await.unwrap();
        assert_eq!(h2.all("warning"), ["299 - \"first\"", "299 - \"second\""]);
        assert_eq!(h2.all("set-cookie"), ["a=1", "b=2"]);
    }
}

/// Bytes above 127 in a field, names in another case, empty values: as they came.
#[tokio::test]
async fn odd_fields_pass() {
    let site = Site::http1().await;
    let bytes = b"HTTP/1.1 200 OK\r\nX-Latin: caf\xe9\r\nX-Empty:\r\nX-Quoted: \"a, b\"; c\r\nContent-Length: 0\r\n\r\n";
    let (raw, h2) = answered(&site, Method::GET, bytes).await;
    assert_eq!(raw.head.get("x-latin"), Some("caf\u{e9}"));
    assert_eq!(
        (raw.head.get("x-empty"), raw.head.get("x-quoted")),
        (Some(""), Some("\"a, b\"; c"))
    );
    assert_eq!(h2.headers["x-latin"].as_bytes(), b"caf\xe9");
    let site = Site::new().await;
    let mut client = site.raw().await;
    let mut message = format!(
        "GET {} HTTP/1.1\r\nHost: g\r\nX-Latin: caf",
        site.path("/echo?a=%C3%A9&b=+&&c")
    )
    .into_bytes();
    message.extend(b"\xe9\r\nX-Empty:\r\nCookie: a=b\r\nUser-Agent: kubectl/v1.37\r\n\r\n");
    client.send(message).await.unwrap();
    client.response("GET").await.unwrap();
    let seen = site.upstream.last().unwrap();
    assert_eq!(seen.headers["x-latin"].as_bytes(), b"caf\xe9");
    assert_eq!(
        (seen.header("x-empty"), seen.header("cookie")),
        (Some(String::new()), Some("a=b".into()))
    );
    assert_eq!(seen.header("user-agent"), Some("kubectl/v1.37".into()));
    assert_eq!(seen.uri, "/pfx/a/echo?a=%C3%A9&b=+&&c");
}

/// Hop-by-hop fields end at the gateway, in both directions.
#[tokio::test]
async fn hop_by_hop_fields_do_not_pass() {
    let site = Site::http1().await;
    let bytes = b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Private\r\nKeep-Alive: timeout=5\r\nX-Private: 1\r\n\
        Proxy-Authenticate: Basic\r\nAlt-Svc: h3=\":443\"\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n";
    let (raw, h2) = answered(&site, Method::GET, bytes).await;
    for found in [names(&raw), h2_names(&h2)] {
        assert_eq!(found, ["content-length"]);
    }
    let site = Site::new().await;
    let headers = [
        ("Connection", "keep-alive, X-Private"),
        ("X-Private", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authorization", "Basic x"),
        ("Proxy-Connection", "keep-alive"),
        ("TE", "gzip, trailers"),
    ];
    site.get("/echo", &headers).await;
    let seen = site.upstream.last().unwrap();
    for name in [
        "connection",
        "x-private",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(values(&seen, "te"), ["trailers"]);
}

/// The gateway and the API server name a request alike.
#[tokio::test]
async fn an_audit_id_is_the_same_on_both_hops() {
    let site = Site::new().await;
    let given = site.get("/echo", &[("Audit-ID", "my-id-1")]).await;
    assert_eq!(given.head.all("audit-id"), ["my-id-1"]);
    assert_eq!(
        values(&site.upstream.last().unwrap(), "audit-id"),
        ["my-id-1"]
    );
    let made = site.get("/echo", &[]).await;
    let id = made.head.all("audit-id").concat();
    assert_eq!(values(&site.upstream.last().unwrap(), "audit-id"), [id]);
}
