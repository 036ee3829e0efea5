//! The gateway as a process: it starts, carries a request, and ends.

use std::time::Duration;

use integration::client::{H2Client, RawClient, SOON, Target};
use integration::fakeup;
use integration::gateway::{Cluster, Options};
use integration::wait;

#[tokio::test]
async fn it_carries_both_http_versions_to_the_upstreams_prefix_and_ends_cleanly() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = Options::new()
        .cluster(Cluster::fake(&upstream))
        .start()
        .await
        .unwrap();
    assert_eq!(gateway.pid(), gateway.process().pid());
    let target = Target::gateway(&gateway);
    let path = format!("{}/api/echo?x=1", gateway.path());

    let reply = H2Client::connect(&target)
        .await
        .unwrap()
        .get(&path, "some-token")
        .await
        .unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let mut client = RawClient::connect(&target).await.unwrap();
    let reply = client
        .get(&path, &[("Authorization", "Bearer some-token")])
        .await
        .unwrap();
    assert_eq!(reply.status(), 200, "{}", reply.text());

    for seen in upstream.seen() {
        assert_eq!(seen.uri, "/pfx/a/api/echo?x=1");
        assert_eq!(
            seen.header("authorization").as_deref(),
            Some("Bearer some-token")
        );
    }
    assert_eq!(upstream.seen().len(), 2);
    drop(client);
    assert!(
        gateway
            .stop(Duration::from_secs(40))
            .await
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn a_cluster_file_that_appears_is_served_and_one_that_goes_is_not() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = Options::new()
        .cluster(Cluster::fake(&upstream))
        .start()
        .await
        .unwrap();
    let client = H2Client::connect(&Target::gateway(&gateway)).await.unwrap();
    let late = Cluster::fake(&upstream).named("late", "comer");
    let path = format!("{}/echo", late.path());
    let becomes = async |code: u16| {
        let look = async || match client.get(&path, "t").await {
            Ok(reply) if reply.status == code => wait::Look::Ready(()),
            Ok(reply) => wait::Look::Not(reply.status.to_string()),
            Err(failure) => wait::Look::Not(failure.to_string()),
        };
        wait::eventually(&format!("{code} for {path}"), SOON, look).await
    };
    becomes(404).await.unwrap();
    gateway.put_cluster(&late).unwrap();
    becomes(200).await.unwrap();
    gateway.remove_cluster(&late).unwrap();
    becomes(404).await.unwrap();
}

#[tokio::test]
async fn the_admin_port_tells_its_state() {
    let upstream = fakeup::Options::new().start().await.unwrap();
    let gateway = Options::new()
        .cluster(Cluster::fake(&upstream))
        .start()
        .await
        .unwrap();
    for path in ["/livez", "/readyz"] {
        let (code, body) = gateway.admin(path).await.unwrap();
        assert_eq!(code, 200, "{path}: {body}");
    }
    let (code, metrics) = gateway.admin("/metrics").await.unwrap();
    assert!(
        code == 200 && metrics.contains("# TYPE"),
        "{code}: {metrics}"
    );
}
