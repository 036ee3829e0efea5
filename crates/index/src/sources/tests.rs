use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::snapshot::{ClusterConfig, ClusterState, Trust};

mod fake;

use fake::FakeCluster;

const DEADLINE: Duration = Duration::from_secs(20);
/// Reacts at once and never by chance: the poll is out of reach.
const PACE: Pace = Pace {
    quiet: Duration::from_millis(10),
    poll: Duration::from_secs(3600),
    sync: Duration::from_secs(3600),
};

/// Remembers reloads.
#[derive(Default)]
struct Reloads(Mutex<VecDeque<(&'static str, bool)>>);

impl Observer for Reloads {
    fn reloaded(&self, source: &'static str, ok: bool) {
        self.0.lock().unwrap().push_back((source, ok));
    }
}

impl Reloads {
    fn take(&self) -> Vec<(&'static str, bool)> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

async fn until<T: Clone>(receiver: &mut watch::Receiver<T>, what: impl FnMut(&T) -> bool) -> T {
    timeout(DEADLINE, receiver.wait_for(what))
        .await
        .expect("deadline")
        .unwrap()
        .clone()
}

fn get(snapshot: &Snapshot, name: &str) -> Option<Arc<ClusterConfig>> {
    snapshot
        .clusters
        .get(&ClusterKey::new("team", name))
        .cloned()
}

fn state(snapshot: &Snapshot, name: &str) -> Option<ClusterState> {
    get(snapshot, name).map(|config| config.state.clone())
}

fn serving(snapshot: &Snapshot, name: &str) -> bool {
    state(snapshot, name) == Some(ClusterState::Serving)
}

fn refused(snapshot: &Snapshot, name: &str) -> Option<String> {
    match state(snapshot, name)? {
        ClusterState::Refused { reason } => Some(reason),
        _ => None,
    }
}

fn object(name: &str, cert: &Value, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "weebo.si.rs/v1", "kind": "ProxyKubeApi",
        "metadata": { "name": name, "namespace": "team" },
        "spec": { "cert": cert, "service": { "ExternalService": { "url": format!("https://{name}.example.com") } } },
    });
    object["spec"]
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    object
}

fn plain(name: &str) -> Value {
    object(name, &json!({ "SystemRoots": true }), &json!({}))
}

fn authority() -> String {
    rcgen::generate_simple_self_signed(["ca".to_owned()])
        .unwrap()
        .cert
        .pem()
}

fn write(folder: &Path, name: &str, content: &Value) {
    // Beside and renamed, as editors do.
    fs::write(folder.join("new"), content.to_string()).unwrap();
    fs::rename(folder.join("new"), folder.join(name)).unwrap();
}

async fn start(
    folder: Option<&TempDir>,
    fake: Option<&Arc<FakeCluster>>,
    pace: Pace,
) -> (Result<Sources, SourceError>, Arc<Reloads>) {
    let reloads = Arc::new(Reloads::default());
    let settings = Resources {
        directory: folder.map(|folder| folder.path().to_owned()),
        ..Resources::default()
    };
    let client = fake.map(FakeCluster::client);
    let observer = Arc::clone(&reloads) as Arc<dyn Observer>;
    (
        Sources::start_with(&settings, client, observer, pace).await,
        reloads,
    )
}

#[tokio::test]
async fn a_change_of_the_folder_is_published() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", &plain("a"));
    let (sources, reloads) = start(Some(&folder), None, PACE).await;
    let mut sources = sources.unwrap();
    let first = sources.snapshots.borrow().clone();
    assert!(serving(&first, "a"));
    write(folder.path(), "b.json", &plain("b"));
    let second = until(&mut sources.snapshots, |s| serving(s, "b")).await;
    assert!(Arc::ptr_eq(
        &get(&first, "a").unwrap(),
        &get(&second, "a").unwrap()
    ));
    fs::remove_file(folder.path().join("a.json")).unwrap();
    until(&mut sources.snapshots, |s| {
        state(s, "a").is_none() && serving(s, "b")
    })
    .await;
    assert_eq!(reloads.take(), [("directory", true); 3]);
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_good_set_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", &plain("a"));
    let (sources, reloads) = start(Some(&folder), None, PACE).await;
    let mut sources = sources.unwrap();
    let good = SourceHealth {
        name: "directory",
        synced: true,
        problem: None,
    };
    assert_eq!(sources.health.borrow().sources, std::slice::from_ref(&good));
    write(
        folder.path(),
        "b.json",
        &object("b", &json!({ "SystemRoots": false }), &json!({})),
    );
    write(folder.path(), "c.json", &plain("c"));
    let health = until(&mut sources.health, |h| h.sources[0].problem.is_some()).await;
    let problem = health.sources[0].problem.as_ref().unwrap();
    assert!(
        problem.starts_with("the last good set is kept: ") && problem.contains("b.json:1:"),
        "{problem}"
    );
    assert!(health.sources[0].synced);
    let kept = sources.snapshots.borrow().clone();
    assert!(serving(&kept, "a") && state(&kept, "b").is_none() && state(&kept, "c").is_none());
    write(folder.path(), "b.json", &plain("b"));
    until(&mut sources.snapshots, |s| {
        serving(s, "b") && serving(s, "c")
    })
    .await;
    until(&mut sources.health, |h| {
        h.sources == std::slice::from_ref(&good)
    })
    .await;
    let seen = reloads.take();
    assert_eq!(
        (seen.first(), seen.last()),
        (Some(&("directory", true)), Some(&("directory", true)))
    );
    assert!(seen.contains(&("directory", false)));
}

#[tokio::test]
async fn a_folder_that_is_bad_from_the_start_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "a.json",
        &json!({ "apiVersion": "v1", "kind": "Pod" }),
    );
    let (sources, reloads) = start(Some(&folder), None, PACE).await;
    let error = sources.err().unwrap();
    assert_eq!(error.diagnostics().len(), 1);
    let text = error.to_string();
    assert!(
        text.starts_with("resources.directory: ") && text.contains("a.json:1:"),
        "{text}"
    );
    assert_eq!(reloads.take(), [("directory", false)]);
}

#[tokio::test]
async fn files_elsewhere_are_found_by_the_poll() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = other.path().join("ca.pem");
    let (old, new) = (authority(), authority());
    fs::write(&path, &old).unwrap();
    write(
        folder.path(),
        "a.json",
        &object("a", &json!({ "File": { "path": path } }), &json!({})),
    );
    let pace = Pace {
        poll: Duration::from_millis(20),
        ..PACE
    };
    let mut sources = start(Some(&folder), None, pace).await.0.unwrap();
    let trusts = |s: &Snapshot, pem: &str| {
        get(s, "a").unwrap().upstream.trust == Trust::Pem(pem.as_bytes().to_vec())
    };
    assert!(trusts(&sources.snapshots.borrow(), &old));
    fs::write(&path, &new).unwrap();
    until(&mut sources.snapshots, |s| trusts(s, &new)).await;
}

#[tokio::test]
async fn objects_of_a_cluster_are_followed() {
    let fake = FakeCluster::new();
    fake.put("proxykubeapis", plain("a"));
    let (sources, reloads) = start(None, Some(&fake), PACE).await;
    let mut sources = sources.unwrap();
    until(&mut sources.snapshots, |s| serving(s, "a")).await;
    until(&mut sources.health, |h| {
        h.sources[0].synced && h.sources[0].problem.is_none()
    })
    .await;
    fake.put("proxykubeapis", plain("b"));
    until(&mut sources.snapshots, |s| {
        serving(s, "a") && serving(s, "b")
    })
    .await;
    fake.put(
        "proxykubeapis",
        object(
            "a",
            &json!({ "SystemRoots": true }),
            &json!({ "enabled": false }),
        ),
    );
    until(&mut sources.snapshots, |s| {
        state(s, "a") == Some(ClusterState::Disabled)
    })
    .await;
    fake.delete("proxykubeapis", "b");
    until(&mut sources.snapshots, |s| state(s, "b").is_none()).await;
    assert!(
        reloads
            .take()
            .iter()
            .all(|reload| *reload == ("federation", true))
    );
}

#[tokio::test]
async fn an_empty_cluster_is_a_good_one() {
    let fake = FakeCluster::new();
    let mut sources = start(None, Some(&fake), PACE).await.0.unwrap();
    assert!(!sources.health.borrow().sources[0].synced);
    until(&mut sources.health, |h| h.sources[0].synced).await;
    assert!(sources.snapshots.borrow().clusters.is_empty());
}

#[tokio::test]
async fn one_bad_object_does_not_harm_another() {
    let fake = FakeCluster::new();
    fake.put("proxykubeapis", plain("good"));
    fake.put(
        "proxykubeapis",
        object(
            "unknown",
            &json!({ "SystemRoots": true }),
            &json!({ "hosst": [], "hosts": ["u.example.com", "*"] }),
        ),
    );
    fake.put(
        "proxykubeapis",
        object("wrong", &json!({ "SystemRoots": false }), &json!({})),
    );
    fake.put(
        "proxykubeapis",
        object(
            "file",
            &json!({ "File": { "path": "/etc/passwd" } }),
            &json!({}),
        ),
    );
    fake.put(
        "proxykubeapis",
        object(
            "other",
            &json!({ "Secret": { "name": "s", "key": "k", "namespace": "kube-system" } }),
            &json!({}),
        ),
    );
    let mut sources = start(None, Some(&fake), PACE).await.0.unwrap();
    let snapshot = until(&mut sources.snapshots, |s| s.clusters.len() == 5).await;
    assert!(serving(&snapshot, "good"));
    let starts = [
        ("unknown", "spec.hosst: unknown field; "),
        ("wrong", "spec.cert.SystemRoots: false trusts nobody; "),
        ("file", "spec.cert.File.path: names a file of the gateway, "),
        ("other", "spec.cert.Secret.namespace: is another namespace "),
    ];
    for (name, start) in starts {
        let reason = refused(&snapshot, name).unwrap();
        assert!(reason.starts_with(start), "{reason}");
    }
    // What cannot be read keeps its names all the same.
    assert_eq!(get(&snapshot, "unknown").unwrap().hosts, ["u.example.com"]);
    // Nothing was asked about what an object must not name.
    assert!(
        fake.asked()
            .iter()
            .all(|path| path.contains("proxykubeapis")),
        "{:?}",
        fake.asked()
    );
    let federation = sources.federation.as_ref().unwrap();
    let outcomes = federation.outcomes.borrow();
    assert!(outcomes[&ClusterKey::new("team", "good")].exposed);
    assert!(outcomes[&ClusterKey::new("team", "wrong")].error.is_some());
}

#[tokio::test]
async fn what_objects_name_is_followed() {
    use base64::Engine as _;
    let secret = |pem: &str| {
        let value = base64::engine::general_purpose::STANDARD.encode(pem);
        json!({ "metadata": { "name": "s", "namespace": "team" }, "data": { "ca": value } })
    };
    let service = |ip: &str| json!({ "metadata": { "name": "k", "namespace": "team" }, "spec": { "clusterIP": ip, "ports": [{ "name": "https", "port": 6443 }] } });
    let (old, new) = (authority(), authority());
    let fake = FakeCluster::new();
    fake.put("services", service("10.0.0.1"));
    let mut cluster = object(
        "a",
        &json!({ "Secret": { "name": "s", "key": "ca" } }),
        &json!({}),
    );
    cluster["spec"]["service"] = json!({ "KubernetesService": { "name": "k" } });
    fake.put("proxykubeapis", cluster);
    let mut sources = start(None, Some(&fake), PACE).await.0.unwrap();
    let first = until(&mut sources.snapshots, |s| state(s, "a").is_some()).await;
    assert_eq!(
        refused(&first, "a").unwrap(),
        "spec.cert.Secret.name: the Secret team/s does not exist; create the Secret, or name another"
    );
    fake.put("secrets", secret(&old));
    let served = until(&mut sources.snapshots, |s| serving(s, "a")).await;
    let upstream = get(&served, "a").unwrap().upstream.clone();
    assert_eq!(
        (
            upstream.host.as_str(),
            upstream.port,
            upstream.connect_host.as_deref()
        ),
        ("k.team.svc", 6443, Some("10.0.0.1"))
    );
    fake.put("secrets", secret(&new));
    until(&mut sources.snapshots, |s| {
        get(s, "a").unwrap().upstream.trust == Trust::Pem(new.clone().into_bytes())
    })
    .await;
    fake.put("services", service("None"));
    until(&mut sources.snapshots, |s| {
        get(s, "a").unwrap().upstream.connect_host.is_none()
    })
    .await;
    fake.delete("secrets", "s");
    until(&mut sources.snapshots, |s| refused(s, "a").is_some()).await;
}

#[tokio::test]
async fn what_may_not_be_read_refuses_the_cluster() {
    let fake = FakeCluster::new();
    fake.forbid("configmaps");
    fake.put(
        "proxykubeapis",
        object(
            "a",
            &json!({ "ConfigMap": { "name": "m", "key": "ca" } }),
            &json!({}),
        ),
    );
    fake.put("proxykubeapis", plain("b"));
    let mut sources = start(None, Some(&fake), PACE).await.0.unwrap();
    let snapshot = until(&mut sources.snapshots, |s| serving(s, "b")).await;
    let expected = "spec.cert.ConfigMap.name: the ConfigMap team/m cannot be read: 403 Forbidden; ";
    let reason = refused(&snapshot, "a").unwrap();
    assert!(reason.starts_with(expected), "{reason}");
}

#[tokio::test]
async fn a_cluster_that_refuses_us_is_not_ready_and_says_why() {
    let fake = FakeCluster::new();
    fake.forbid("proxykubeapis");
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", &plain("a"));
    let (sources, reloads) = start(Some(&folder), Some(&fake), PACE).await;
    let mut sources = sources.unwrap();
    assert!(serving(&sources.snapshots.borrow(), "a"));
    let expected = "proxykubeapis cannot be read: 403 Forbidden";
    let health = until(&mut sources.health, |h| {
        h.sources[1].problem.as_deref() == Some(expected)
    })
    .await;
    assert!(health.sources[0].synced && !health.sources[1].synced);
    assert_eq!(reloads.take(), [("directory", true), ("federation", false)]);
}

#[tokio::test]
async fn a_file_wins_over_an_object_of_the_same_name() {
    let fake = FakeCluster::new();
    fake.put(
        "proxykubeapis",
        object(
            "a",
            &json!({ "SystemRoots": true }),
            &json!({ "enabled": false }),
        ),
    );
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", &plain("a"));
    let mut sources = start(Some(&folder), Some(&fake), PACE).await.0.unwrap();
    let outcomes = &mut sources.federation.as_mut().unwrap().outcomes;
    let outcomes = until(outcomes, |o| !o.is_empty()).await;
    assert!(
        outcomes[&ClusterKey::new("team", "a")]
            .error
            .as_ref()
            .unwrap()
            .contains("a file of the gateway")
    );
    assert!(serving(&sources.snapshots.borrow(), "a"));
}

#[tokio::test]
async fn a_kubeconfig_that_runs_a_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = |user: Value| {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{ "name": "x", "cluster": { "server": "https://127.0.0.1:1" } }],
            "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
            "users": [{ "name": "x", "user": user }],
        })
    };
    let path = folder.path().join("kubeconfig");
    let exec = json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false" } });
    fs::write(&path, config(exec).to_string()).unwrap();
    let error = federation::client::from_kubeconfig(&path, None)
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("resources.kubeconfig: ") && error.contains("from a program"),
        "{error}"
    );
    let error = federation::client::from_kubeconfig(&path, Some("y"))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("kubeconfig: "), "{error}");
    fs::write(&path, config(json!({ "token": "s3cret" })).to_string()).unwrap();
    assert!(
        federation::client::from_kubeconfig(&path, None)
            .await
            .is_ok()
    );
}
