//! The objects that tests look at.
//!
//! Purpose: a namespace of a test's own with two running pods, so that tests on a shared control
//! plane do not meet.
//! Invariant: when a function returns, what it made can be used: pods run, the default service
//! account exists.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Result;
use crate::control_plane::ControlPlane;
use crate::kubectl::Kubectl;

/// Pods are bound by the kubelet stand-in, after the controller manager made the service account.
const RUNNING: Duration = Duration::from_secs(120);

/// kubectl as the control plane's admin, directly; it works in `folder`.
///
/// # Errors
/// When kubectl has not been built.
pub fn admin(plane: &ControlPlane, folder: &Path) -> Result<Kubectl> {
    let kubectl = Kubectl::new(&plane.user("admin")?.kubeconfig, folder)?;
    Ok(kubectl.cache(folder.join("admin-cache")).deadline(RUNNING))
}

/// Makes the namespace, and waits for its service account.
///
/// # Errors
/// When the namespace exists, or there is no controller manager.
pub async fn namespace(admin: &Kubectl, name: &str) -> Result<()> {
    admin.run(&["create", "namespace", name]).await?.ok()?;
    for object in ["serviceaccount/default", "configmap/kube-root-ca.crt"] {
        let wait = ["wait", "--for=create", object, "-n", name, "--timeout=90s"];
        admin.run(&wait).await?.ok()?;
    }
    Ok(())
}

/// Makes running pods with label `app=web` in a namespace. Needs the kubelet.
///
/// # Errors
/// When they do not run within two minutes.
pub async fn pods(admin: &Kubectl, namespace: &str, names: &[&str]) -> Result<()> {
    let items: Vec<Value> = names.iter().map(|name| pod(namespace, name)).collect();
    apply(
        admin,
        &json!({"apiVersion": "v1", "kind": "List", "items": items}),
    )
    .await?;
    let mut wait = vec![
        "wait",
        "--for=condition=Ready",
        "-n",
        namespace,
        "--timeout=100s",
    ];
    let pods: Vec<String> = names.iter().map(|name| format!("pod/{name}")).collect();
    wait.extend(pods.iter().map(String::as_str));
    admin.run(&wait).await?.ok().map(drop)
}

/// Creates or updates an object.
///
/// # Errors
/// When the API server refuses it.
pub async fn apply(admin: &Kubectl, object: &Value) -> Result<()> {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    admin
        .run_with(&apply, &object.to_string())
        .await?
        .ok()
        .map(drop)
}

/// A pod whose description holds nothing random.
pub fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        },
    })
}
