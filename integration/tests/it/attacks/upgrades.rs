//! Connections that become tunnels, or only pretend to.

use integration::client::raw::{End, request};
use integration::client::{RawClient, SOON};
use integration::fakeup::{BodyEnd, Fault};
use integration::wait::until;
use serde_json::json;

use super::site::{Site, assert_status, metric_becomes, values};

const TOKEN: (&str, &str) = ("Authorization", "Bearer alice-token");
const CONNECTION: (&str, &str) = ("Connection", "Upgrade");
const WEBSOCKET: (&str, &str) = ("Upgrade", "websocket");
const SPDY: (&str, &str) = ("Upgrade", "SPDY/3.1");

/// A path that may be upgraded, ending in what the upstream shall do.
fn proxy(site: &Site, last: &str) -> String {
    site.path(&format!("/api/v1/namespaces/n/pods/p/proxy/{last}"))
}

async fn ask(
    site: &Site,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    behind: &[u8],
) -> RawClient {
    let mut client = site.raw().await;
    let message = [&request(method, path, headers, b"")[..], behind].concat();
    client.send(message).await.unwrap();
    client
}

#[tokio::test]
async fn an_upgrade_becomes_a_tunnel_in_both_directions() {
    for site in [Site::new().await, Site::http1().await] {
        for (method, headers) in [
            ("GET", vec![TOKEN, CONNECTION, WEBSOCKET]),
            ("POST", vec![TOKEN, CONNECTION, SPDY]),
            (
                "POST",
                vec![TOKEN, CONNECTION, SPDY, ("Content-Length", "0")],
            ),
            (
                "GET",
                vec![
                    TOKEN,
                    ("Connection", "keep-alive, upgrade"),
                    ("Upgrade", "WebSocket"),
                ],
            ),
        ] {
            let mut client =
                ask(&site, method, &proxy(&site, "upgrade-early"), &headers, b"").await;
            let head = client.head().await.unwrap();
            assert_eq!(head.status, 101, "{headers:?}");
            assert_eq!(client.exactly(11).await.unwrap(), b"early bytes");
            client.send(b"ping").await.unwrap();
            assert_eq!(client.exactly(4).await.unwrap(), b"ping");
            let seen = site.upstream.last().unwrap();
            assert_eq!(values(&seen, "authorization"), ["Bearer alice-token"]);
            drop(client);
            let ended = || {
                site.upstream
                    .last()
                    .is_ok_and(|s| s.body_end != BodyEnd::Open)
            };
            until("the tunnel's end upstream", SOON, ended)
                .await
                .unwrap();
        }
    }
}

/// The upstream says no in two chunks: the client gets both, and no tunnel.
#[tokio::test]
async fn an_upgrade_that_is_refused_keeps_its_answer_whole() {
    for site in [Site::new().await, Site::http1().await] {
        for (method, protocol) in [("GET", WEBSOCKET), ("POST", SPDY)] {
            let headers = [TOKEN, CONNECTION, protocol];
            let mut client = ask(&site, method, &proxy(&site, "notupgrade"), &headers, b"").await;
            let reply = client.response(method).await.unwrap();
            assert_eq!((reply.status(), reply.end), (403, End::Complete));
            assert_eq!(
                reply.json().unwrap(),
                json!({"kind": "Status", "code": 403})
            );
            assert_eq!(reply.head.get("upgrade"), None);
        }
    }
}

/// What stands behind an upgrade request is meant for the tunnel. If there is none, it is nothing.
#[tokio::test]
async fn bytes_behind_an_upgrade_that_is_refused_are_not_taken_for_a_request() {
    let site = Site::new().await;
    let strict = Site::made(
        integration::fakeup::Options::new(),
        |g| g,
        |c| c.allowed_resources(&json!([{"Path": {"path": "/version"}}])),
    )
    .await;
    let refusals = [(&site, 403), (&site, 302), (&site, 503), (&strict, 403)];
    for ((site, code), last) in
        refusals
            .into_iter()
            .zip(["notupgrade", "redir", "status/503", "notupgrade"])
    {
        for (method, protocol) in [("GET", WEBSOCKET), ("POST", SPDY)] {
            site.upstream.forget();
            let hidden = request(
                "GET",
                &site.path("/hidden"),
                &[TOKEN, ("Connection", "close")],
                b"",
            );
            let headers = [TOKEN, CONNECTION, protocol];
            let mut client = ask(site, method, &proxy(site, last), &headers, &hidden).await;
            let reply = client.response(method).await.unwrap();
            assert_eq!(reply.status(), code, "{last}");
            let rest = client.closed(SOON).await.unwrap();
            assert!(
                rest.is_empty(),
                "{last}: {}",
                String::from_utf8_lossy(&rest)
            );
            assert!(
                !site.uris().iter().any(|u| u.ends_with("/hidden")),
                "{:?}",
                site.uris()
            );
        }
    }
}

/// They wait for the tunnel, and go through it.
#[tokio::test]
async fn bytes_behind_an_upgrade_go_through_the_tunnel_only() {
    for site in [Site::new().await, Site::http1().await] {
        let hidden = request("GET", &site.path("/hidden"), &[TOKEN], b"");
        let headers = [TOKEN, CONNECTION, WEBSOCKET];
        let mut client = ask(&site, "GET", &proxy(&site, "upgrade"), &headers, &hidden).await;
        assert_eq!(client.head().await.unwrap().status, 101);
        assert_eq!(
            client.exactly(hidden.len()).await.unwrap(),
            hidden,
            "the echo of the tunnel"
        );
        assert_eq!(site.uris().len(), 1, "{:?}", site.uris());
    }
}

#[tokio::test]
async fn a_body_behind_an_upgrade_is_refused() {
    let site = Site::new().await;
    for framing in [("Content-Length", "4"), ("Transfer-Encoding", "chunked")] {
        let headers = [TOKEN, CONNECTION, SPDY, framing];
        let mut client = ask(&site, "POST", &proxy(&site, "upgrade"), &headers, b"abcd").await;
        assert_status(&client.response("POST").await.unwrap(), 400, "BadRequest");
    }
    assert_eq!(site.uris(), [""; 0]);
}

/// Only WebSocket and SPDY/3.1, only by the book, only where the API server would: everything
/// else is an ordinary request.
#[tokio::test]
async fn other_upgrades_are_ordinary_requests() {
    for site in [Site::new().await, Site::http1().await] {
        let proxied = proxy(&site, "upgrade");
        let h2c = [
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
        ];
        for (path, headers) in [
            (&proxied, h2c.to_vec()),
            (&proxied, vec![WEBSOCKET]),
            (&proxied, vec![("Connection", "keep-alive"), WEBSOCKET]),
            (&proxied, vec![CONNECTION]),
            (&proxied, vec![CONNECTION, ("Upgrade", "h2c, websocket")]),
            (&proxied, vec![CONNECTION, ("Upgrade", "TLS/1.2")]),
            (&proxied, vec![CONNECTION, WEBSOCKET, SPDY]),
            (
                &site.path("/api/v1/namespaces/n/pods/p/upgrade"),
                vec![CONNECTION, WEBSOCKET],
            ),
            (&site.path("/upgrade"), vec![CONNECTION, WEBSOCKET]),
        ] {
            let mut client = ask(&site, "GET", path, &headers, b"").await;
            let reply = client.response("GET").await.unwrap();
            assert_eq!(reply.status(), 426, "{headers:?}: {}", reply.text());
            let seen = site.upstream.last().unwrap();
            for name in ["upgrade", "http2-settings", "connection"] {
                assert_eq!(seen.header(name), None, "{headers:?}");
            }
        }
        // HTTP/1.0 has no upgrades.
        let mut client = site.raw().await;
        let old =
            format!("GET {proxied} HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        client.send(old).await.unwrap();
        assert_eq!(client.head().await.unwrap().status, 426);
    }
}

/// 101 to a request that asked for no upgrade: nothing may flow behind it.
#[tokio::test]
async fn an_upstream_that_switches_protocols_unasked_gets_no_tunnel() {
    let site = Site::http1().await;
    for upgrade in ["Connection: Upgrade\r\nUpgrade: websocket\r\n", ""] {
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\n{upgrade}\r\nHTTP/1.1 200 OK\r\n\r\nforged"
        );
        site.upstream
            .set_fault(Fault::AnswerAndHold(answer.into_bytes()))
            .await
            .unwrap();
        for (method, path) in [
            ("GET", site.path("/x")),
            ("POST", site.path("/x")),
            ("GET", proxy(&site, "x")),
        ] {
            let mut client = ask(&site, method, &path, &[TOKEN], b"").await;
            let reply = client.response(method).await.unwrap();
            assert_status(&reply, 502, "InternalError");
        }
        let reply = site.h2().await.get(&site.path("/x"), "t").await.unwrap();
        assert_eq!(reply.status, 502);
    }
    site.upstream.set_fault(Fault::None).await.unwrap();
    site.still_serves().await;
}

#[tokio::test]
async fn an_upstream_that_switches_to_another_protocol_gets_no_tunnel() {
    let site = Site::http1().await;
    let idle = site.gateway.usage().unwrap().open_files;
    for upgrade in [
        "Upgrade: SPDY/3.1\r\n",
        "Upgrade: h2c\r\n",
        "Upgrade: websocket, h2c\r\n",
        "",
    ] {
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{upgrade}\r\nforged"
        );
        site.upstream
            .set_fault(Fault::AnswerAndHold(answer.into_bytes()))
            .await
            .unwrap();
        let headers = [TOKEN, CONNECTION, WEBSOCKET];
        let mut client = ask(&site, "GET", &proxy(&site, "x"), &headers, b"").await;
        assert_status(&client.response("GET").await.unwrap(), 502, "InternalError");
        drop(client);
        // The upstream holds its end: the gateway must have let go of its own.
        let gone = || site.gateway.usage().unwrap().open_files <= idle;
        until("the gateway's sockets to be closed", SOON, gone)
            .await
            .unwrap();
    }
}

/// The token of a browser's WebSocket is a credential, not a protocol.
#[tokio::test]
async fn a_token_among_the_subprotocols_goes_no_further() {
    let site = Site::new().await;
    let token = "base64url.bearer.authorization.k8s.io.YWxpY2UtdG9rZW4, v5.channel.k8s.io";
    let headers = [CONNECTION, WEBSOCKET, ("Sec-WebSocket-Protocol", token)];
    let mut client = ask(&site, "GET", &proxy(&site, "upgrade"), &headers, b"").await;
    assert_eq!(client.head().await.unwrap().status, 101);
    let seen = site.upstream.last().unwrap();
    assert_eq!(
        values(&seen, "sec-websocket-protocol"),
        ["v5.channel.k8s.io"]
    );
    assert_eq!(values(&seen, "authorization"), ["Bearer alice-token"]);
}

#[tokio::test]
async fn an_upgrade_that_is_not_answered_ends_at_the_deadline_and_leaves_nothing() {
    let site = Site::with(json!({"limits": {"requestTimeout": "300ms"}})).await;
    let headers = [TOKEN, CONNECTION, WEBSOCKET];
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(ask(&site, "GET", &proxy(&site, "hang"), &headers, b"").await);
    }
    for client in &mut clients {
        assert_status(&client.response("GET").await.unwrap(), 504, "Timeout");
    }
    // Clients that leave before the answer leave nothing either.
    for _ in 0..10 {
        drop(ask(&site, "GET", &proxy(&site, "hang"), &headers, b"").await);
    }
    let gone = || site.upstream.open_connections() == 0;
    until("the upstream connections' end", SOON, gone)
        .await
        .unwrap();
    metric_becomes(&site.gateway, "portcullis_streams", &[], 0.0).await;
}

/// Each side's end is the other side's end.
#[tokio::test]
async fn a_tunnel_that_is_cut_on_one_side_ends_on_the_other() {
    let site = Site::new().await;
    let headers = [TOKEN, CONNECTION, WEBSOCKET];
    let mut client = ask(&site, "GET", &proxy(&site, "upgrade"), &headers, b"x").await;
    client.head().await.unwrap();
    client.exactly(1).await.unwrap();
    client.reset().unwrap();
    let ended = || {
        site.upstream
            .last()
            .is_ok_and(|s| s.body_end != BodyEnd::Open)
    };
    until("the tunnel's end upstream", SOON, ended)
        .await
        .unwrap();
    let accepted =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nx";
    site.upstream
        .set_fault(Fault::AnswerAndHold(accepted.to_vec()))
        .await
        .unwrap();
    let mut client = ask(&site, "GET", &proxy(&site, "x"), &headers, b"").await;
    assert_eq!(client.head().await.unwrap().status, 101);
    client.exactly(1).await.unwrap();
    site.upstream.cut();
    client.closed(SOON).await.unwrap();
    metric_becomes(&site.gateway, "portcullis_streams", &[], 0.0).await;
}
