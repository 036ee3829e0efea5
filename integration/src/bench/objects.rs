//! The objects that the scenarios read.
//!
//! Invariant: sizes are those that the scenarios' names state; no controller touches the objects
//! while the clocks run.

use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use super::options::{Group, Options};
use crate::client::{H2Client, Target};
use crate::control_plane::ControlPlane;
use crate::wait::{Look, eventually};
use crate::{Context, Failure, Result};

/// The namespace of most objects.
pub const NAMESPACE: &str = "bench";
/// The path of the one ConfigMap.
pub const ONE: &str = "/api/v1/namespaces/bench/configmaps/one";
/// The path of the list of 100 pods.
pub const PODS: &str = "/api/v1/namespaces/bench/pods?limit=500";
/// The path of the list of 5,000 namespaces.
pub const NAMESPACES: &str = "/api/v1/namespaces?labelSelector=bench%3Dmany";
/// The path of the 20 MB list.
pub const BULK: &str = "/api/v1/namespaces/bench-bulk/configmaps";
/// The pod that answers exec.
pub const EXEC_POD: &str = "/api/v1/namespaces/bench-exec/pods/shell";

const RUNNING: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 64;

/// Makes what the asked-for groups read.
///
/// # Errors
/// When the API server refuses an object, or the pod for exec does not run.
pub async fn make(plane: &ControlPlane, options: &Options) -> Result<()> {
    let admin = Admin::connect(plane.url(), plane.ca_file(), &plane.user("admin")?.token).await?;
    admin.namespace(NAMESPACE).await?;
    for name in ["one", "watched"] {
        admin
            .create(&of(NAMESPACE, "configmaps"), &config_map(name, "1"))
            .await?;
    }
    let pods = (0..100).map(|i| pod(&format!("b{i}"), "elsewhere", 4));
    admin.create_all(&of(NAMESPACE, "pods"), pods).await?;
    if options.has(Group::Namespaces) {
        let many = (0..5000).map(|i| namespace(&format!("many-{i:04}")));
        admin.create_all("/api/v1/namespaces", many).await?;
    }
    if options.has(Group::Bulk) {
        admin.namespace("bench-bulk").await?;
        let text = "x".repeat(500_000);
        let many = (0..40).map(|i| config_map(&format!("bulk-{i}"), &text));
        admin
            .create_all(&of("bench-bulk", "configmaps"), many)
            .await?;
    }
    if options.has(Group::Exec) {
        admin.namespace("bench-exec").await?;
        admin
            .create(&of("bench-exec", "pods"), &pod("shell", "n1", 0))
            .await?;
        admin.running(EXEC_POD).await?;
    }
    Ok(())
}

struct Admin {
    client: H2Client,
    token: String,
}

impl Admin {
    async fn connect(url: &str, ca: &Path, token: &str) -> Result<Self> {
        let client = H2Client::connect(&Target::url(url, ca)?).await?;
        Ok(Self {
            client,
            token: format!("Bearer {token}"),
        })
    }

    /// A namespace with the service account that admission wants for its pods.
    async fn namespace(&self, name: &str) -> Result<()> {
        self.create("/api/v1/namespaces", &namespace(name)).await?;
        let account = json!({"metadata": {"name": "default"}});
        self.create(&of(name, "serviceaccounts"), &account).await
    }

    async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let headers = [
            ("authorization", self.token.as_str()),
            ("content-type", "application/json"),
        ];
        let reply = self
            .client
            .call(Method::POST, path, &headers, object.to_string())
            .await?;
        if reply.status.is_success() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "POST {path}: {}: {}",
            reply.status,
            reply.text()
        )))
    }

    async fn create_all(&self, path: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
        let creating = stream::iter(objects).map(|o| async move { self.create(path, &o).await });
        creating.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn running(&self, path: &str) -> Result<()> {
        let headers = [("authorization", self.token.as_str())];
        eventually("the pod for exec", RUNNING, || async {
            let reply = self.client.call(Method::GET, path, &headers, "").await;
            let object = match reply.and_then(|reply| reply.json()) {
                Ok(object) => object,
                Err(failure) => return Look::Not(failure.to_string()),
            };
            match object.pointer("/status/phase").and_then(Value::as_str) {
                Some("Running") => Look::Ready(()),
                phase => Look::Not(format!("phase {phase:?}")),
            }
        })
        .await
        .context(path)
    }
}

fn of(namespace: &str, resource: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{resource}")
}

fn namespace(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"bench": "many"}}})
}

fn config_map(name: &str, text: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": text}})
}

fn pod(name: &str, node: &str, variables: usize) -> Value {
    let env: Vec<Value> = (0..variables)
        .map(|i| json!({"name": format!("V{i}"), "value": "x".repeat(20)}))
        .collect();
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "main",
                "image": "registry.example/app:1",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                "env": env,
            }],
        },
    })
}
