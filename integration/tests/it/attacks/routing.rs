//! Requests that could belong to two clusters, or to one that nobody shall know of.

use http::Method;
use integration::client::raw::request;
use integration::client::{H2Client, RawClient, Response, Target};
use integration::fakeup::{self, FakeUpstream};
use integration::gateway::{Cluster, Gateway, Options};
use serde_json::json;

use super::site::assert_status;

/// One cluster by path only (`plain`), one by host too (`named`), one that is switched off.
struct Three {
    plain: FakeUpstream,
    named: FakeUpstream,
    off: FakeUpstream,
    gateway: Gateway,
}

const NAMED: &str = "named.portcullis.test";
const OFF: &str = "off.portcullis.test";

impl Three {
    async fn start() -> Self {
        let upstream = || fakeup::Options::new().start();
        let (plain, named, off) = (
            upstream().await.unwrap(),
            upstream().await.unwrap(),
            upstream().await.unwrap(),
        );
        let gateway = Options::new()
            .cluster(Cluster::fake(&plain).named("default", "plain"))
            .cluster(
                Cluster::fake(&named)
                    .named("default", "named")
                    .hosts(&[NAMED]),
            )
            .cluster(
                Cluster::fake(&off)
                    .named("default", "off")
                    .hosts(&[OFF])
                    .with(json!({"enabled": false})),
            )
            .start()
            .await
            .unwrap();
        Self {
            plain,
            named,
            off,
            gateway,
        }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut client = RawClient::connect(&Target::gateway(&self.gateway))
            .await
            .unwrap();
        client.get(path, headers).await.unwrap()
    }

    fn counts(&self) -> (usize, usize, usize) {
        (
            self.plain.seen().len(),
            self.named.seen().len(),
            self.off.seen().len(),
        )
    }
}

/// An answer without what differs between any two.
fn comparable(mut response: Response) -> Response {
    let random = ["date", "audit-id"];
    response
        .head
        .headers
        .retain(|(name, _)| !random.contains(&name.to_ascii_lowercase().as_str()));
    response
}

#[tokio::test]
async fn a_cluster_that_is_switched_off_looks_like_one_that_is_not_there() {
    let three = Three::start().await;
    let token = ("Authorization", "Bearer some-token");
    for rest in [
        "",
        "/",
        "/api/v1/pods",
        "/../x",
        "/%2e%2e/x",
        "/%zz",
        "/x%00",
        "/api/v1/watch",
        "/api/v1/proxy",
        "//",
    ] {
        for headers in [
            vec![],
            vec![token],
            vec![("Impersonate-Group", "g")],
            vec![("Connection", "Upgrade"), ("Upgrade", "websocket")],
        ] {
            let off = three
                .get(&format!("/clusters/default/off{rest}"), &headers)
                .await;
            let none = three
                .get(&format!("/clusters/default/one{rest}"), &headers)
                .await;
            assert_status(&off, 404, "NotFound");
            assert_eq!(comparable(off), comparable(none), "{rest} {headers:?}");
        }
    }
    assert_eq!(three.counts(), (0, 0, 0));
}

#[tokio::test]
async fn a_host_that_is_switched_off_looks_like_one_that_is_not_there() {
    let three = Three::start().await;
    for path in [
        "/",
        "/api",
        "/../x",
        "/%zz",
        "/clusters/default/plain/x",
        "/clusters/default/none/x",
    ] {
        let off = three.get(path, &[("Host", OFF)]).await;
        let none = three.get(path, &[("Host", "one.portcullis.test")]).await;
        let (off, none) = (comparable(off), comparable(none));
        // What an upstream answers repeats its own view of the request, ports and all.
        assert_eq!(
            off.status(),
            none.status(),
            "{path}: {} / {}",
            off.text(),
            none.text()
        );
        if off.status() != 200 {
            assert_eq!(off, none, "{path}");
        }
    }
    assert!(three.off.seen().is_empty());
}

/// A host's cluster is the only one its requests can reach, whatever their path.
#[tokio::test]
async fn a_path_does_not_lead_out_of_the_cluster_that_the_host_names() {
    let three = Three::start().await;
    for host in [
        NAMED,
        "NAMED.Portcullis.Test",
        "named.portcullis.test:8443",
        "named.portcullis.test.",
    ] {
        three.named.forget();
        let reply = three
            .get("/clusters/default/plain/secret", &[("Host", host)])
            .await;
        assert_eq!(reply.status(), 200, "{host}");
        assert_eq!(
            three.named.last().unwrap().uri,
            "/pfx/a/clusters/default/plain/secret",
            "{host}"
        );
    }
    let reply = three
        .get("/clusters/default/../plain/secret", &[("Host", NAMED)])
        .await;
    assert_status(&reply, 400, "BadRequest");
    assert!(three.plain.seen().is_empty());
}

#[tokio::test]
async fn a_name_that_is_nearly_a_host_is_no_host() {
    let three = Three::start().await;
    for host in [
        "",
        "named.portcullis.test, plain",
        "evil@named.portcullis.test",
        "named.portcullis.test@evil",
        "x.named.portcullis.test",
        "named.portcullis.test..",
        "named.portcullis.test:80:80",
        "named.portcullis.test:x",
        "[named.portcullis.test]",
        "named.portcullis.tes",
    ] {
        let reply = three.get("/api", &[("Host", host)]).await;
        assert!(
            matches!(reply.status(), 400 | 404),
            "{host}: {}",
            reply.status()
        );
    }
    assert_eq!(three.counts(), (0, 0, 0));
}

#[tokio::test]
async fn two_host_headers_are_refused() {
    let three = Three::start().await;
    for hosts in [
        [NAMED, "evil.example"],
        ["evil.example", NAMED],
        [NAMED, NAMED],
    ] {
        let hosts = [("Host", hosts[0]), ("Host", hosts[1])];
        for path in ["/api", "/clusters/default/plain/api"] {
            let reply = three.get(path, &hosts).await;
            assert_eq!(reply.status(), 400, "{hosts:?}");
        }
    }
    assert_eq!(three.counts(), (0, 0, 0));
}

/// Host in the target wins over the `Host` field (RFC 9112, section 3.2.2).
#[tokio::test]
async fn a_host_field_does_not_overrule_the_target() {
    let three = Three::start().await;
    let to = |target: &str, host: &str| request("GET", target, &[("Host", host)], b"");
    for (target, host, expected) in [
        ("http://named.portcullis.test/a", "evil.example", (0, 1, 0)),
        (
            "http://evil.example/clusters/default/plain/a",
            NAMED,
            (1, 0, 0),
        ),
        (
            "http://off.portcullis.test/clusters/default/off/a",
            NAMED,
            (0, 0, 0),
        ),
    ] {
        three.plain.forget();
        three.named.forget();
        let mut client = RawClient::connect(&Target::gateway(&three.gateway))
            .await
            .unwrap();
        client.send(to(target, host)).await.unwrap();
        client.response("GET").await.unwrap();
        assert_eq!(three.counts(), expected, "{target} {host}");
    }
}

/// The name in the TLS handshake chooses nothing: one certificate covers many clusters.
#[tokio::test]
async fn the_name_in_the_handshake_does_not_choose_a_cluster() {
    let three = Three::start().await;
    let target = Target::gateway(&three.gateway).server_name(NAMED);
    let mut client = RawClient::connect(&target).await.unwrap();
    let reply = client
        .get("/clusters/default/plain/a", &[("Host", "g")])
        .await
        .unwrap();
    assert_eq!(reply.status(), 200);
    let h2 = H2Client::connect(&target).await.unwrap();
    let reply = h2.call(Method::GET, "/api", &[], "").await.unwrap();
    assert_eq!(reply.status, 200, "by HTTP/2 the authority names it");
    assert_eq!(three.counts(), (1, 1, 0));
}

/// No spelling of a host gets around what a cluster allows.
#[tokio::test]
async fn an_allow_list_holds_by_host_as_by_path() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let rules = json!([{"Path": {"path": "/version"}}]);
    let cluster = Cluster::fake(&upstream)
        .hosts(&[NAMED])
        .allowed_resources(&rules);
    let gateway = Options::new().cluster(cluster).start().await.unwrap();
    let target = Target::gateway(&gateway);
    for (host, path, code) in [
        (NAMED, "/version", 200),
        (NAMED, "/api", 403),
        (NAMED, "/clusters/default/fake/version", 403),
        ("g", "/clusters/default/fake/version", 200),
        ("g", "/clusters/default/fake/api", 403),
        ("g", "/version", 404),
    ] {
        let mut client = RawClient::connect(&target).await.unwrap();
        let reply = client.get(path, &[("Host", host)]).await.unwrap();
        assert_eq!(reply.status(), code, "{host}{path}: {}", reply.text());
    }
    assert_eq!(upstream.seen().len(), 2);
}
