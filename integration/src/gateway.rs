//! `portcullis serve`, started with a configuration made from options.
//!
//! Purpose: write the GatewayConfiguration and the ProxyKubeApi objects into a folder, start the
//! gateway on free ports, and know its addresses, files and process.
//! Invariant: the gateway presents a certificate of an authority of its own, so that a client that
//! trusts the control plane's authority cannot reach kube-apiserver by mistake.

mod cluster;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

pub use cluster::{Cluster, UpstreamMode};

use crate::kubeconfig::{Credential, Entry};
use crate::pki::Authority;
use crate::process::{Ending, Process, Usage};
use crate::scratch::Scratch;
use crate::wait::{Look, eventually};
use crate::{Context, Result, client, locate, yaml};

const READY: Duration = Duration::from_secs(30);

/// What to start the gateway with.
#[derive(Debug, Clone)]
pub struct Options {
    configuration: Value,
    clusters: Vec<Cluster>,
    environment: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// No cluster yet, both HTTP versions, log level info.
    pub fn new() -> Self {
        let configuration = json!({
            "apiVersion": "portcullis.dev/v1alpha1",
            "kind": "GatewayConfiguration",
            "listen": {
                "address": "127.0.0.1:0",
                "tls": {"certFile": "tls.crt", "keyFile": "tls.key"},
            },
            "admin": {"address": "127.0.0.1:0"},
            "resources": {"directory": "clusters"},
        });
        Self {
            configuration,
            clusters: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// In front of one cluster more.
    #[must_use]
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.clusters.push(cluster);
        self
    }

    /// Offering these protocols only: `h2`, `http/1.1`.
    #[must_use]
    pub fn protocols(self, protocols: &[&str]) -> Self {
        self.with(json!({"listen": {"protocols": protocols}}))
    }

    /// Accepting client certificates signed by the authority in this file.
    #[must_use]
    pub fn client_ca(self, file: &Path) -> Self {
        self.with(json!({"listen": {"tls": {"clientCAFile": file}}}))
    }

    /// Logging at this level or by this filter.
    #[must_use]
    pub fn log_level(self, level: &str) -> Self {
        self.with(json!({"logging": {"level": level}}))
    }

    /// With these fields merged over the GatewayConfiguration (RFC 7396: null removes).
    #[must_use]
    pub fn with(mut self, configuration: Value) -> Self {
        merge(&mut self.configuration, configuration);
        self
    }

    /// With an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the gateway and waits until it serves.
    ///
    /// # Errors
    /// When the binary is missing or it does not become ready; with the end of its log.
    pub async fn start(self) -> Result<Gateway> {
        Gateway::start(self).await
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    ready: Ready,
    clusters: Vec<Cluster>,
    // Dropped before the folder it reads and writes.
    process: Process,
    dir: Scratch,
}

/// What `portcullis serve --ready-file` writes once it serves.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Ready {
    listen: SocketAddr,
    admin: SocketAddr,
    pid: u32,
}

impl Gateway {
    async fn start(options: Options) -> Result<Self> {
        let binary = locate::portcullis()?;
        let dir = Scratch::new("gateway")?;
        let authority = Authority::new("gateway-test-ca")?;
        let pair = authority.serving(&["*.portcullis.test"])?;
        dir.write("ca.crt", authority.pem())?;
        dir.write("tls.crt", pair.cert_pem)?;
        dir.write("tls.key", pair.key_pem)?;
        let config = dir.write("gateway.yaml", yaml::to_string(&options.configuration))?;
        let folder = dir.path().join("clusters");
        std::fs::create_dir_all(&folder).context(format!("making {}", folder.display()))?;
        for cluster in &options.clusters {
            let file = folder.join(cluster.file_name());
            std::fs::write(&file, cluster.manifest())
                .context(format!("writing {}", file.display()))?;
        }
        let ready_file = dir.path().join("ready.json");
        let mut command = Command::new(&binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .arg("--ready-file")
            .arg(&ready_file);
        command.envs(options.environment);
        let log = dir.path().join("portcullis.log");
        let (process, _) = Process::start("portcullis", command, log, Ending::Terminate, false)?;
        let ready = wait_ready(&process, &ready_file).await?;
        Ok(Self {
            ready,
            clusters: options.clusters,
            process,
            dir,
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.ready.listen
    }

    /// Where `/livez`, `/readyz` and `/metrics` are.
    pub fn admin_address(&self) -> SocketAddr {
        self.ready.admin
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// The authority behind its serving certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// Its GatewayConfiguration.
    pub fn config_file(&self) -> PathBuf {
        self.dir.path().join("gateway.yaml")
    }

    /// The folder with its ProxyKubeApi objects.
    pub fn clusters_dir(&self) -> PathBuf {
        self.dir.path().join("clusters")
    }

    /// The process: log, usage, signals.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What it uses of the machine.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// The URL of the first cluster.
    pub fn url(&self) -> String {
        self.clusters
            .first()
            .map(|c| self.url_of(c))
            .unwrap_or_default()
    }

    /// The URL of a cluster.
    pub fn url_of(&self, cluster: &Cluster) -> String {
        format!("https://{}{}", self.ready.listen, cluster.path())
    }

    /// The path of the first cluster, without a final slash.
    pub fn path(&self) -> String {
        self.clusters.first().map(Cluster::path).unwrap_or_default()
    }

    /// A kubeconfig context for the first cluster.
    pub fn entry(&self, name: &str, credential: Credential, namespace: &str) -> Entry {
        Entry {
            name: name.to_owned(),
            server: self.url(),
            ca_file: self.ca_file(),
            credential,
            namespace: namespace.to_owned(),
        }
    }

    /// Adds or replaces a ProxyKubeApi object on disk, atomically, as a configuration tool would.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put_cluster(&self, cluster: &Cluster) -> Result<()> {
        let fresh = self.dir.write("fresh.yaml", cluster.manifest())?;
        std::fs::rename(fresh, self.clusters_dir().join(cluster.file_name()))
            .context("replacing a ProxyKubeApi file")
    }

    /// Removes a ProxyKubeApi object from disk.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove_cluster(&self, cluster: &Cluster) -> Result<()> {
        std::fs::remove_file(self.clusters_dir().join(cluster.file_name()))
            .context("removing a ProxyKubeApi file")
    }

    /// GET on the admin port: status code and body.
    ///
    /// # Errors
    /// When the admin port does not answer.
    pub async fn admin(&self, path: &str) -> Result<(u16, String)> {
        client::plain_get(self.ready.admin, path).await
    }

    /// The sum of a metric over all its label sets that contain every one of `labels`
    /// (`name="value"`); 0 when there is none yet.
    ///
    /// # Errors
    /// When the admin port does not answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let (_, text) = self.admin("/metrics").await?;
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let ours = lines.filter(|rest| rest.starts_with(['{', ' ']));
        let matching = ours.filter(|rest| labels.iter().all(|l| rest.contains(l)));
        Ok(matching
            .filter_map(|r| r.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// When it has not ended at the deadline.
    pub async fn stop(mut self, deadline: Duration) -> Result<ExitStatus> {
        self.process.stop(deadline).await
    }
}

async fn wait_ready(process: &Process, file: &Path) -> Result<Ready> {
    let look = || {
        let text = std::fs::read_to_string(file);
        std::future::ready(match (text, process.exited()) {
            (Ok(text), _) => Look::Ready(Ok(text)),
            (Err(_), Some(status)) => Look::Ready(Err(status)),
            (Err(error), None) => Look::Not(error.to_string()),
        })
    };
    let log = |what: String| {
        crate::Failure::new(format!(
            "{what}; the end of its log:\n{}",
            process.log_tail()
        ))
    };
    let outcome = eventually("the gateway's ready file", READY, look).await;
    match outcome.map_err(|late| log(late.to_string()))? {
        Ok(text) => serde_json::from_str(&text).context(format!("reading the ready file ({text})")),
        Err(status) => Err(log(format!(
            "the gateway ended before it was ready ({status})"
        ))),
    }
}

/// RFC 7396 merge patch.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_merged_over_the_defaults() {
        let options = Options::new()
            .protocols(&["h2"])
            .with(json!({"listen": {"tls": {"keyFile": null}}, "limits": {"maxConnections": 3}}));
        let listen = &options.configuration["listen"];
        assert_eq!(listen["protocols"], json!(["h2"]));
        assert_eq!(listen["tls"], json!({"certFile": "tls.crt"}));
        assert_eq!(options.configuration["limits"]["maxConnections"], 3);
    }
}
