use portcullis_core::observer::VerbClass;
use rstest::rstest;

use super::*;
use crate::testing::{cluster, received, registry, snapshot};

fn resolve_at(uri: &str) -> Result<Resolved, Error> {
    let mut east = cluster("demo", "east");
    east.hosts = vec!["east.example".to_owned()];
    let mut off = cluster("demo", "off");
    off.state = ClusterState::Disabled;
    let mut odd = cluster("demo", "odd");
    odd.state = ClusterState::Refused {
        reason: "not supported yet: spec.x".to_owned(),
    };
    let (registry, _sender) = registry(vec![east, off, odd]);
    resolve(&registry, received("GET", uri))
}

#[rstest]
#[case("/clusters/demo/east", "/clusters/demo/east", "/")]
#[case("/clusters/demo/east/", "/clusters/demo/east", "/")]
#[case(
    "/clusters/demo/east?timeout=1s",
    "/clusters/demo/east",
    "/?timeout=1s"
)]
#[case(
    "/clusters/demo/east/api/v1/pods?limit=1",
    "/clusters/demo/east",
    "/api/v1/pods?limit=1"
)]
#[case(
    "/clusters/demo/east/clusters/demo/off/x",
    "/clusters/demo/east",
    "/clusters/demo/off/x"
)]
#[case("https://east.example/api/v1/pods", "", "/api/v1/pods")]
#[case("https://EAST.example.:8443/api", "", "/api")]
#[case("https://east.example/clusters/demo/off/x", "", "/clusters/demo/off/x")]
#[tokio::test]
async fn the_cluster_and_the_rest_of_the_target(
    #[case] uri: &str,
    #[case] prefix: &str,
    #[case] rest: &str,
) {
    let resolved = resolve_at(uri).unwrap();
    assert_eq!(resolved.cluster().label(), "demo/east");
    let expected = Target {
        prefix: prefix.to_owned(),
        path_and_query: rest.to_owned(),
    };
    assert_eq!(*resolved.target(), expected);
}

#[rstest]
#[case("/", 404)]
#[case("/api/v1/pods", 404)]
#[case("/clusters", 404)]
#[case("/clusters/demo", 404)]
#[case("/clusters/demo/", 404)]
#[case("/clusters/demo/west/api", 404)]
#[case("/clusters/demo/off/api", 404)]
#[case("/clusters//demo/east/api", 404)]
#[case("/clusters/demo%2Feast/api", 404)]
#[case("/clusters/demo/../demo/east/api", 404)]
#[case("/clusters/demo/odd/api", 503)]
#[case("/clusters/demo/east/../off/api", 400)]
#[case("/clusters/demo/east/%2e%2e/off/api", 400)]
#[case("/clusters/demo/east/api/v1/watch", 400)]
#[tokio::test]
async fn everything_else_is_refused(#[case] uri: &str, #[case] code: u16) {
    let Err(error) = resolve_at(uri) else {
        panic!("{uri} was resolved")
    };
    assert_eq!(error.status.code, code, "{uri}: {}", error.status.message);
}

#[tokio::test]
async fn a_disabled_cluster_and_an_unknown_one_cannot_be_told_apart() {
    let message = |uri| resolve_at(uri).err().map(|e| e.status.message.clone());
    assert_eq!(
        message("/clusters/demo/off/api"),
        message("/clusters/demo/west/api")
    );
}

#[tokio::test]
async fn a_reload_keeps_clusters_that_did_not_change() {
    let (registry, sender) = registry(vec![cluster("a", "same"), cluster("a", "other")]);
    let (same, other) = (
        registry.by_key("a/same").unwrap(),
        registry.by_key("a/other").unwrap(),
    );
    let mut changed = cluster("a", "other");
    changed.proxy_group = Some("g".to_owned());
    sender
        .send(snapshot(vec![cluster("a", "same"), changed]))
        .unwrap();
    let taken_up = async {
        while Arc::ptr_eq(&registry.by_key("a/other").unwrap(), &other) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(5), taken_up)
        .await
        .unwrap();
    assert!(
        Arc::ptr_eq(&registry.by_key("a/same").unwrap(), &same),
        "its connections live on"
    );
}

fn upgrade(headers: &[(&'static str, &'static str)], path: &str) -> Option<UpgradeProtocol> {
    let (registry, _sender) = registry(vec![cluster("a", "b")]);
    let mut received = received("GET", &format!("/clusters/a/b{path}"));
    for (name, value) in headers {
        received
            .request
            .headers_mut()
            .append(*name, value.parse().unwrap());
    }
    resolve(&registry, received).unwrap().upgrade()
}

#[tokio::test]
async fn only_a_request_by_the_book_may_switch_protocols() {
    let exec = "/api/v1/namespaces/d/pods/p/exec";
    let web = ("upgrade", "websocket");
    let asked = ("connection", "keep-alive, Upgrade");
    assert_eq!(
        upgrade(&[asked, web], exec),
        Some(UpgradeProtocol::WebSocket)
    );
    assert_eq!(
        upgrade(&[asked, ("upgrade", "SPDY/3.1")], exec),
        Some(UpgradeProtocol::Spdy31)
    );
    assert_eq!(upgrade(&[web], exec), None, "Connection does not say so");
    assert_eq!(upgrade(&[asked, ("upgrade", "h2c")], exec), None);
    assert_eq!(
        upgrade(&[asked, web, ("upgrade", "h2c")], exec),
        None,
        "two protocols"
    );
    assert_eq!(
        upgrade(&[asked, web], "/api/v1/pods"),
        None,
        "a list stays a list"
    );
}

#[tokio::test]
async fn what_the_outer_layers_learn() {
    let (registry, _sender) = registry(vec![cluster("a", "b")]);
    let received = received("GET", "/clusters/a/b/api/v1/pods?watch=1");
    let exchange = Arc::clone(&received.exchange);
    resolve(&registry, received).unwrap();
    let facts = exchange.facts.get().unwrap();
    assert_eq!(
        (facts.class, &*facts.verb, &*facts.resource),
        (VerbClass::Watch, "watch", "pods")
    );
}
