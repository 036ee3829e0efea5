//! Clusters from ProxyKubeApi objects of a federating cluster: the CRD, live changes, status.

use std::path::{Path, PathBuf};
use std::time::Duration;

use integration::client::{H2Client, Target};
use integration::control_plane::{self, ControlPlane};
use integration::gateway::{Gateway, Options};
use integration::kubectl::{Kubectl, words};
use integration::scratch::Scratch;
use integration::wait;
use serde_json::{Value, json};

/// A watch event, a resolution and a status write on a loaded machine.
const SYNCED: Duration = Duration::from_secs(30);

fn crd() -> PathBuf {
    integration::locate::workspace().join("deploy/crds/proxykubeapis.yaml")
}

async fn run(kubectl: &Kubectl, command: &str) -> String {
    let output = kubectl.run(&words(command).unwrap()).await.unwrap();
    output.ok().unwrap().stdout
}

async fn apply(kubectl: &Kubectl, folder: &Path, object: &Value) {
    let file = folder.join("object.json");
    std::fs::write(&file, object.to_string()).unwrap();
    run(kubectl, &format!("apply -f {}", file.display())).await;
}

async fn status_becomes(kubectl: &Kubectl, name: &str, wanted: &str) {
    let command = format!("get proxykubeapi {name} -o json");
    let look = async || {
        let object: Value = serde_json::from_str(&run(kubectl, &command).await).unwrap();
        let status = object["status"].to_string();
        if status.contains(wanted) {
            wait::Look::Ready(())
        } else {
            wait::Look::Not(status)
        }
    };
    wait::eventually(wanted, SYNCED, look).await.unwrap();
}

async fn answers(gateway: &Gateway, plane: &ControlPlane, path: &str, code: u16) {
    let client = H2Client::connect(&Target::gateway(gateway)).await.unwrap();
    let token = &plane.user("alice").unwrap().token;
    let look = async || match client.get(path, token).await {
        Ok(reply) if reply.status == code => wait::Look::Ready(()),
        other => wait::Look::Not(format!("{other:?}")),
    };
    wait::eventually(&format!("{code} for {path}"), SYNCED, look)
        .await
        .unwrap();
}

#[tokio::test]
async fn objects_of_a_federating_cluster_are_served_followed_and_told_their_status() {
    let plane = control_plane::Options::new().start().await.unwrap();
    let scratch = Scratch::new("federation").unwrap();
    let admin = plane.user("admin").unwrap();
    let kubectl = Kubectl::new(&admin.kubeconfig, scratch.path()).unwrap();
    run(
        &kubectl,
        &format!("apply --server-side -f {}", crd().display()),
    )
    .await;
    run(
        &kubectl,
        "wait --for=condition=Established crd/proxykubeapis.weebo.si.rs --timeout=30s",
    )
    .await;
    let ca = std::fs::read_to_string(plane.ca_file()).unwrap();
    let object = |spec: Value| {
        json!({
            "apiVersion": "weebo.si.rs/v1", "kind": "ProxyKubeApi",
            "metadata": {"name": "self", "namespace": "default"}, "spec": spec,
        })
    };
    let service = json!({"ExternalService": {"url": plane.url()}});
    let good = json!({"service": service, "cert": {"Cert": ca}});
    apply(&kubectl, scratch.path(), &object(good.clone())).await;

    let gateway = Options::new()
        .with(json!({"resources": {"kubeconfig": admin.kubeconfig}}))
        .start()
        .await
        .unwrap();
    let path = "/clusters/default/self/api/v1/namespaces";
    answers(&gateway, &plane, path, 200).await;
    status_becomes(&kubectl, "self", "\"path\":\"/clusters/default/self\"").await;
    status_becomes(&kubectl, "self", "\"exposed\":true").await;

    let mut later = good.clone();
    later["virtual_apis"] = json!([{"kind": "OpenShiftProject", "enabled": true}]);
    apply(&kubectl, scratch.path(), &object(later)).await;
    answers(&gateway, &plane, path, 503).await;
    status_becomes(&kubectl, "self", "not supported yet: spec.virtual_apis").await;

    let missing =
        json!({"service": service, "cert": {"ConfigMap": {"name": "ca", "key": "ca.crt"}}});
    apply(&kubectl, scratch.path(), &object(missing)).await;
    status_becomes(&kubectl, "self", "ConfigMap").await;
    run(
        &kubectl,
        &format!(
            "create configmap ca --from-file=ca.crt={}",
            plane.ca_file().display()
        ),
    )
    .await;
    answers(&gateway, &plane, path, 200).await;
    status_becomes(&kubectl, "self", "\"exposed\":true").await;

    run(&kubectl, "delete proxykubeapi self").await;
    answers(&gateway, &plane, path, 404).await;
}
