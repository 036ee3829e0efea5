//! Paths that one hop reads in another way than the next.

use http::Method;
use integration::client::raw::request;
use integration::client::{RawClient, Target};
use integration::fakeup;
use integration::fakeup::FakeUpstream;
use integration::gateway::{Cluster, Options};
use serde_json::json;

use super::site::{Site, assert_status};

/// Where all paths of the cluster live upstream.
const PREFIX: &str = "/pfx/a";

#[tokio::test]
async fn a_path_that_climbs_is_refused() {
    let site = Site::new().await;
    let mut client = site.raw().await;
    let h2 = site.h2().await;
    for path in [
        "/..",
        "/.",
        "/../secret",
        "/../../secret",
        "/a/../../../secret",
        "/a/./b",
        "/%2e%2e/secret",
        "/%2E%2E/%2e%2e/secret",
        "/.%2e/secret",
        "/%2e./secret",
        "/..%2fsecret",
        "/..%2Fsecret",
        "/a%2f..%2f..%2fsecret",
        "/%2f../secret",
        "/a/%2e%2e%2f%2e%2e%2fsecret",
        "/%252e%252e/secret",
        "/%252e%252e%252fsecret",
        "/..;/secret",
        "/..;a=b/secret",
        "/%2e%2e;x/secret",
        "/..%3b/secret",
        "/..\\secret",
        "/a\\..\\..\\secret",
        "/%5c..%5csecret",
        "/..%5csecret",
        "/a/..",
        "/a/.?x=1",
    ] {
        let reply = client.get(&site.path(path), &[]).await.unwrap();
        assert_status(&reply, 400, "BadRequest");
        // The client's own URI parser may refuse to send it.
        if let Ok(reply) = h2.call(Method::GET, &site.path(path), &[], "").await {
            assert_eq!(reply.status, 400, "{path}");
        }
    }
    assert_eq!(site.uris(), [""; 0]);
}

#[tokio::test]
async fn a_path_that_cannot_be_read_is_refused() {
    let site = Site::new().await;
    for path in [
        "/x%00",
        "/%00/x",
        "/x%0d%0aX:%20y",
        "/x%0a",
        "/x%7f",
        "/%1b[2J",
        "/x%c2%85",
        "/%",
        "/%2",
        "/%zz",
        "/%u002e",
        "/x%2",
        "/%ff",
        "/%c0%ae%c0%ae/x",
        "/%e0%80%af",
        "/%ed%a0%80",
    ] {
        let reply = site.get(path, &[]).await;
        assert_status(&reply, 400, "BadRequest");
    }
    // Bytes that no request line may have at all.
    for path in ["/x\0", "/x\x0by", "/x\ty", "/x y"] {
        let mut client = site.raw().await;
        client
            .send(request("GET", &site.path(path), &[], b""))
            .await
            .unwrap();
        assert_eq!(client.head().await.unwrap().status, 400, "{path:?}");
    }
    assert_eq!(site.uris(), [""; 0]);
}

/// What is unusual and means one thing only goes on byte by byte.
#[tokio::test]
async fn an_unusual_path_is_passed_on_as_it_is() {
    let site = Site::new().await;
    let mut client = site.raw().await;
    for path in [
        "/a%2Fb",
        "/a%2fb%2f",
        "//x",
        "/a//b///c",
        "/x/",
        "/x;y=z",
        "/x;a/b",
        "/a%25b",
        "/%25252e%25252e/x",
        "/...",
        "/..a/b..",
        "/a.b",
        "/x?y=../../z",
        "/x?y=%2e%2e%2f%00",
        "/x?watch=true;a=b",
        "/%e2%80%a6/x",
        "/%EF%BC%8E%EF%BC%8E/x",
        "/a+b%20c",
    ] {
        let reply = client.get(&site.path(path), &[]).await.unwrap();
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text());
        assert_eq!(site.upstream.last().unwrap().uri, format!("{PREFIX}{path}"));
    }
    // The cluster itself, without a path.
    client.get(&site.path(""), &[]).await.unwrap();
    assert_eq!(site.upstream.last().unwrap().uri, format!("{PREFIX}/"));
    client.get(&site.path("?x=1"), &[]).await.unwrap();
    assert_eq!(site.upstream.last().unwrap().uri, format!("{PREFIX}/?x=1"));
}

/// Only the exact prefix leads to a cluster.
#[tokio::test]
async fn a_prefix_that_is_nearly_a_clusters_leads_nowhere() {
    let site = Site::new().await;
    for path in [
        "/",
        "/clusters",
        "/clusters/",
        "/clusters/default",
        "/clusters/default/",
        "/clusters//default/fake/x",
        "/clusters/default//fake/x",
        "//clusters/default/fake/x",
        "/./clusters/default/fake/x",
        "/Clusters/default/fake/x",
        "/clusters/Default/fake/x",
        "/clusters/default/FAKE/x",
        "/clusters%2fdefault%2ffake/x",
        "/clusters/default%2ffake/x",
        "/clusters/default/fak%65/x",
        "/clusters/default/fake%2f/x",
        "/clusters/default/fake;x/y",
        "/clusters/default/fake%00/x",
        "/clusters/default/fake%20/x",
        "/clusters/default/../default/fake/x",
        "/clusters/default/fake..",
        "/clusters/default/fak",
        "/clusters/default/fakee/x",
        "/clusters/x/../default/fake/x",
        "/clusters\\default\\fake\\x",
        "/api/v1/namespaces",
    ] {
        let reply = site.raw().await.get(path, &[]).await.unwrap();
        assert!(
            matches!(reply.status(), 400 | 404),
            "{path}: {}",
            reply.status()
        );
        reply.json().expect("one document");
    }
    assert_eq!(site.uris(), [""; 0]);
}

#[tokio::test]
async fn a_path_of_one_cluster_never_ends_at_another() {
    let [one, two] = [start().await, start().await];
    let gateway = Options::new()
        .cluster(Cluster::fake(&one).named("default", "one"))
        .cluster(Cluster::fake(&two).named("default", "two"))
        .start()
        .await
        .unwrap();
    let target = Target::gateway(&gateway);
    for path in [
        "/../two/x",
        "/%2e%2e/two/x",
        "/..%2ftwo/x",
        "/..;/two/x",
        "/%2f..%2f..%2ftwo/x",
        "/%252e%252e/two/x",
        "//../two/x",
        "/clusters/default/two/x",
        "?/clusters/default/two/x",
        "/#/../two/x",
    ] {
        let mut client = RawClient::connect(&target).await.unwrap();
        let _ = client
            .get(&format!("/clusters/default/one{path}"), &[])
            .await;
        assert!(two.seen().is_empty(), "{path}: {:?}", two.seen());
    }
    for seen in one.seen() {
        assert!(seen.uri.starts_with("/pfx/a/"), "{}", seen.uri);
    }
}

/// Made-up paths: however often one decodes and resolves them, they stay below the prefix.
#[tokio::test]
async fn no_path_leaves_the_upstream_prefix() {
    const PIECES: [&str; 18] = [
        "/", "/", ".", "..", "%2e", "%2E", "%2f", "%2F", "%5c", "\\", ";", "a", "%25", "%252e",
        "%252f", "//", "%3b", "api",
    ];
    let site = Site::new().await;
    let mut random = Random(0x5eed);
    let mut client = site.raw().await;
    for _ in 0..600 {
        let length = 1 + random.below(8);
        let path: String = (0..length)
            .map(|_| PIECES[random.below(PIECES.len())])
            .collect();
        let reply = client
            .get(&site.path(&format!("/{path}")), &[])
            .await
            .unwrap();
        assert!(
            matches!(reply.status(), 200 | 400),
            "{path}: {}",
            reply.status()
        );
    }
    let uris = site.uris();
    assert!(uris.len() > 50, "only {} paths were passed on", uris.len());
    for uri in uris {
        let mut read = uri.clone();
        for _ in 0..2 {
            assert!(read.starts_with("/pfx/a/"), "{uri}");
            assert!(
                depth(&read).is_some_and(|d| d >= 2),
                "{uri} climbs as {read}"
            );
            read = decoded(&read);
        }
    }
}

/// How deep the path ends once its dot segments are resolved; `None` when it climbs out of `/pfx/a`.
fn depth(path: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, segment) in path.split(['/', '\\']).skip(1).enumerate() {
        match segment.split(';').next().unwrap_or_default() {
            ".." => depth = depth.checked_sub(1)?,
            "." => {}
            _ => depth += 1,
        }
        if index >= 1 && depth < 2 {
            return None;
        }
    }
    Some(depth)
}

fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        let byte = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A linear congruential generator: the same paths in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

async fn start() -> FakeUpstream {
    fakeup::Options::new().start().await.unwrap()
}

/// An allow-list is asked about the path that the API server will read.
#[tokio::test]
async fn an_allow_list_is_not_bypassed_by_spelling() {
    let rules = json!([
        {"Path": {"path": "/api/v1/namespaces/ok/*", "parametised": true}},
        {"Path": {"path": "/version"}},
    ]);
    let upstream = fakeup::Options::new();
    let site = Site::made(upstream, |g| g, |c| c.allowed_resources(&rules)).await;
    let mut client = site.raw().await;
    for path in [
        "/api/v1/namespaces/ok/pods",
        "/api/v1/namespaces/ok/pod%73?x=1",
        "/version",
    ] {
        assert_eq!(
            client.get(&site.path(path), &[]).await.unwrap().status(),
            200,
            "{path}"
        );
    }
    site.upstream.forget();
    for path in [
        "/api/v1/namespaces/kube-system/secrets",
        "/api/v1/namespaces/ok/pods/x",
        "/api/v1/namespaces/ok/pods%2fx",
        "/api/v1/namespaces/ok/pods/x/exec",
        "/api/v1/namespaces/ok/../kube-system/secrets",
        "/api/v1/namespaces/ok/%2e%2e/kube-system/secrets",
        "/api/v1/namespaces/ok/..%2fkube-system%2fsecrets",
        "/api/v1/namespaces/ok",
        "/api/v1/namespaces/ok/",
        "/api/v1/namespaces//ok/pods",
        "/api/v1/namespaces/OK/pods",
        "//api/v1/namespaces/kube-system/pods",
        "/version/x",
        "/version%2fx",
        "/version;x",
        "/Version",
        "/versio",
        "/",
        "",
        "/api/v1/watch/namespaces/ok/pods",
        "/api/v1/proxy/namespaces/ok/pods",
        "/api/v1/namespaces/kube-system/secrets?path=/version",
        "/api/v1/namespaces/kube-system/secrets#/version",
    ] {
        for extra in [
            ("X-Http-Method-Override", "GET"),
            ("X-Original-Url", "/version"),
            ("X-Rewrite-Url", "/version"),
        ] {
            let reply = client.get(&site.path(path), &[extra]).await.unwrap();
            assert!(
                matches!(reply.status(), 400 | 403),
                "{path}: {} {}",
                reply.status(),
                reply.text()
            );
        }
    }
    assert_eq!(site.uris(), [""; 0], "nothing is forwarded");
}
