//! One way to the cluster: directly, or through a gateway in some mode.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use integration::control_plane::ControlPlane;
use integration::kubeconfig::{self, Credential, Entry};
use integration::kubectl::{Kubectl, Output, words};
use integration::scratch::Scratch;
use integration::wait::{until, within};
use integration::{Context, Result, fixture};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::case::{Cache, Case, Trigger, Way};
use super::normal;

/// How long a step of a case may take on a machine that is busy with the other sides.
const STEP: Duration = Duration::from_secs(90);

/// A side: its own namespace, folder and caches.
pub(super) struct Side<'a> {
    pub name: &'static str,
    letter: char,
    server: String,
    plane: &'a ControlPlane,
    port: u16,
    scratch: Scratch,
    kubeconfigs: BTreeMap<&'static str, PathBuf>,
    admin: Kubectl,
}

impl<'a> Side<'a> {
    /// Makes the namespace and the files that the cases use.
    pub(super) async fn new(
        name: &'static str,
        letter: char,
        plane: &'a ControlPlane,
        (server, ca_file): (String, PathBuf),
        echo: SocketAddr,
    ) -> Result<Self> {
        let scratch = Scratch::new(&format!("parity-{letter}"))?;
        let namespace = format!("parity-{letter}");
        let mut kubeconfigs = BTreeMap::new();
        for user in ["admin", "alice", "bob", "gateway"] {
            let entry = Entry {
                name: user.to_owned(),
                server: server.clone(),
                ca_file: ca_file.clone(),
                credential: Credential::token(plane.user(user)?),
                namespace: namespace.clone(),
            };
            kubeconfigs.insert(user, kubeconfig::one(&scratch, entry)?);
        }
        let admin = fixture::admin(plane, scratch.path())?;
        let side = Self {
            name,
            letter,
            server,
            plane,
            port: echo.port(),
            scratch,
            kubeconfigs,
            admin,
        };
        side.write_files()?;
        fixture::namespace(&side.admin, &namespace).await?;
        fixture::pods(&side.admin, &namespace, &["p0", "p1"]).await?;
        fixture::apply(&side.admin, &event(&namespace)).await?;
        // Fills the cache that warm cases start from.
        side.kubectl("admin", "warm")
            .run(&["get", "namespaces"])
            .await?
            .ok()?;
        Ok(side)
    }

    /// Runs a case and returns its output without what differs from run to run.
    pub(super) async fn run(&self, case: &Case, shared_view: bool) -> Result<Output> {
        for command in case.before {
            self.direct(command).await?;
        }
        let output = match case.way {
            Way::Plain => self.plain(case).await?,
            Way::Watch { first, touch, then } => self.watch(case, first, touch, then).await?,
            Way::Until { first, touch } => self.until(case, first, touch).await?,
            Way::PortForward => self.port_forward(case).await?,
        };
        let own = (!shared_view).then(|| self.own());
        let normal = |text: &str| {
            let text = text.replace(&self.server, "https://SERVER");
            let text = text.replace(&*self.scratch.path().to_string_lossy(), "DIR");
            normal::text(&text, own.as_ref(), case.only)
        };
        let (stdout, stderr) = (normal(&output.stdout), normal(&output.stderr));
        Ok(Output {
            code: output.code,
            stdout,
            stderr,
        })
    }

    /// What `cp` brought back from the pod.
    pub(super) fn copied_back(&self) -> Result<String> {
        std::fs::read_to_string(self.scratch.path().join("down.txt")).context("reading down.txt")
    }

    fn own(&self) -> normal::Own {
        normal::Own {
            namespace: self.namespace(),
            project: format!("prj-{}", self.letter),
        }
    }

    fn namespace(&self) -> String {
        format!("parity-{}", self.letter)
    }

    async fn plain(&self, case: &Case) -> Result<Output> {
        let kubectl = self.prepared(case);
        let args = self.words(case.command)?;
        let output = kubectl.run_with(&args, case.stdin).await?;
        if case.cache != Cache::Twice {
            return Ok(output);
        }
        let again = kubectl.run_with(&args, case.stdin).await?;
        // What differs between the two runs shows as a difference from the other sides.
        let stderr = if again == output {
            output.stderr
        } else {
            format!("then:\n{again:?}")
        };
        Ok(Output { stderr, ..output })
    }

    async fn watch(&self, case: &Case, first: &str, touch: &[&str], then: &str) -> Result<Output> {
        let running = self.prepared(case).start(&self.words(case.command)?)?;
        running.printed(&self.filled(first), STEP).await?;
        for command in touch {
            self.direct(command).await?;
        }
        running.printed(then, STEP).await?;
        running.interrupt()?;
        let output = running.finish(STEP).await?;
        if case.only.is_some() {
            return Ok(output);
        }
        Ok(Output {
            stdout: normal::up_to(&output.stdout, then)?,
            ..output
        })
    }

    async fn until(&self, case: &Case, first: Trigger, touch: &[&str]) -> Result<Output> {
        let audit = self
            .plane
            .audit_log()
            .context("the control plane keeps no audit log")?;
        let audited = || std::fs::read_to_string(audit).unwrap_or_default();
        let start = audited().len();
        let running = self.prepared(case).start(&self.words(case.command)?)?;
        match first {
            Trigger::Printed(pattern) => {
                running.printed(&self.filled(pattern), STEP).await?;
            }
            Trigger::Watching(uri) => {
                let uri = self.filled(uri);
                let seen = || {
                    let log = audited();
                    let fresh = log.get(start..).unwrap_or_default();
                    fresh.lines().any(|l| {
                        l.contains(&uri)
                            && l.contains("watch=true")
                            && l.contains("ResponseStarted")
                    })
                };
                until(&format!("a watch of {uri}"), STEP, seen).await?;
            }
        }
        for command in touch {
            self.direct(command).await?;
        }
        running.finish(STEP).await
    }

    async fn port_forward(&self, case: &Case) -> Result<Output> {
        let running = self.prepared(case).start(&self.words(case.command)?)?;
        let line = running
            .printed(r"Forwarding from 127\.0\.0\.1:\d+", STEP)
            .await?;
        let address = line.rsplit(' ').next().unwrap_or_default().to_owned();
        let talk = async {
            let mut tcp = TcpStream::connect(&address).await.context("connecting")?;
            tcp.write_all(b"ping\n").await.context("sending")?;
            let mut reply = String::new();
            tcp.read_to_string(&mut reply).await.context("receiving")?;
            Ok::<_, integration::Failure>(reply)
        };
        let reply = within("an answer through port-forward", STEP, talk).await??;
        running
            .printed("Handling connection for .*\n", STEP)
            .await?;
        running.interrupt()?;
        let output = running.finish(STEP).await?;
        Ok(Output {
            stdout: format!("{}{reply}", output.stdout),
            ..output
        })
    }

    async fn direct(&self, command: &str) -> Result<Output> {
        self.admin.run(&self.words(command)?).await?.ok()
    }

    fn prepared(&self, case: &Case) -> Kubectl {
        let cache = if case.cache == Cache::Warm {
            "warm"
        } else {
            case.name
        };
        let kubectl = self.kubectl(case.user, cache);
        case.env
            .iter()
            .fold(kubectl, |k, (name, value)| k.env(name, &self.filled(value)))
    }

    fn kubectl(&self, user: &str, cache: &str) -> Kubectl {
        let kubeconfig = self.kubeconfigs.get(user).cloned().unwrap_or_default();
        let kubectl = Kubectl::new(kubeconfig, self.scratch.path()).unwrap();
        kubectl
            .cache(self.scratch.path().join(format!("cache-{cache}")))
            .deadline(STEP)
    }

    fn words(&self, command: &str) -> Result<Vec<String>> {
        words(&self.filled(command))
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{ns}", &self.namespace())
            .replace("{side}", &self.letter.to_string())
            .replace("{port}", &self.port.to_string())
            .replace("{dir}", &self.scratch.path().to_string_lossy())
    }

    fn write_files(&self) -> Result<()> {
        let namespace = self.namespace();
        let map = |name: &str, value: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace}, "data": {"a": value}})
        };
        let merged = |mut object: serde_json::Value, key: &str, value: serde_json::Value| {
            object[key] = value;
            object
        };
        let finalized = json!({"name": "fin", "namespace": namespace,
            "finalizers": ["example.com/hold"]});
        let project = |annotations: serde_json::Value| {
            json!({"apiVersion": "project.openshift.io/v1", "kind": "Project",
                "metadata": {"name": format!("prj-{}", self.letter), "annotations": annotations}})
        };
        let files = [
            ("cm.json", map("w1", "1")),
            ("cm2.json", map("w2", "1")),
            ("bad.json", merged(map("w3", "1"), "nope", json!(1))),
            ("ap.json", map("ap1", "1")),
            ("ap2.json", map("ap1", "2")),
            ("ap3.json", map("ap1", "3")),
            ("ap4.json", map("ap1", "4")),
            ("ap5.json", map("ap1", "5")),
            ("ss.json", map("ss1", "1")),
            ("ss2.json", map("ss1", "9")),
            ("fin.json", merged(map("fin", "1"), "metadata", finalized)),
            ("project.json", project(json!({}))),
            (
                "project2.json",
                project(json!({"openshift.io/display-name": "Nice"})),
            ),
            ("d.json", deployment(&namespace)),
        ];
        for (name, content) in files {
            self.scratch.write(name, content.to_string())?;
        }
        self.scratch.write("up.txt", "upload\n".repeat(3))?;
        let editor = "#!/bin/sh\nsed -i 's/a: .*/a: edited/' \"$1\"\n";
        let editor = self.scratch.write("edit.sh", editor)?;
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755))
            .context("making the editor executable")
    }
}

/// A cluster-scoped kind of the cases whose names start with `crd-`.
pub(super) fn projects() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "projects.project.openshift.io"},
        "spec": {
            "group": "project.openshift.io",
            "scope": "Cluster",
            "names": {"plural": "projects", "singular": "project", "kind": "Project"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "A namespace with manners.",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn deployment(namespace: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d1", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "d1"}},
            "template": {
                "metadata": {"labels": {"app": "d1"}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "registry.example/x:1"}],
                },
            },
        },
    })
}

fn event(namespace: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p0.1", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p0", "namespace": namespace},
        "type": "Normal", "reason": "Noticed", "message": "a test was here", "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "parity"},
    })
}
