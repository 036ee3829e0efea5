//! A real control plane: etcd, kube-apiserver and, when asked, controller manager and kubelet.
//!
//! Purpose: start `testcluster up`, know its address, users, files and processes, and end it.
//! Invariant: it ends when its handle is dropped; the shared one ends with this process, because
//! `testcluster` watches its standard input.
//! Upstream counterpart: `k8s.io/kubernetes/cmd/kube-apiserver/app/testing`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::process::{Ending, Process, Usage, first_line};
use crate::scratch::Scratch;
use crate::{Context, Result, locate};

/// How long etcd and kube-apiserver get to be ready. They need four seconds on an idle machine;
/// the rest is for machines that build at the same time.
const READY: Duration = Duration::from_secs(180);
const STOPPED: Duration = Duration::from_secs(30);

/// What to start beside etcd and kube-apiserver.
#[derive(Debug, Clone, Default)]
pub struct Options {
    controller_manager: bool,
    kubelet: bool,
    audit: bool,
    static_manifests: Option<PathBuf>,
    admission_config: Option<PathBuf>,
    apiserver_args: Vec<String>,
}

impl Options {
    /// etcd and kube-apiserver only.
    pub fn new() -> Self {
        Self::default()
    }

    /// With kube-controller-manager: service accounts appear, namespaces really go.
    #[must_use]
    pub fn controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// With one Node and something that answers as its kubelet.
    #[must_use]
    pub fn kubelet(mut self) -> Self {
        self.kubelet = true;
        self
    }

    /// With an audit log.
    #[must_use]
    pub fn audit(mut self) -> Self {
        self.audit = true;
        self
    }

    /// With admission manifests from a folder.
    #[must_use]
    pub fn static_manifests(mut self, folder: impl Into<PathBuf>) -> Self {
        self.static_manifests = Some(folder.into());
        self
    }

    /// With an AdmissionConfiguration file.
    #[must_use]
    pub fn admission_config(mut self, file: impl Into<PathBuf>) -> Self {
        self.admission_config = Some(file.into());
        self
    }

    /// With one more argument for kube-apiserver.
    #[must_use]
    pub fn apiserver_arg(mut self, argument: impl Into<String>) -> Self {
        self.apiserver_args.push(argument.into());
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// When the binary is missing or a component does not become ready; with the end of its log.
    pub async fn start(self) -> Result<ControlPlane> {
        ControlPlane::start(self).await
    }

    fn command(&self, binary: &Path, dir: &Path) -> Command {
        let mut command = Command::new(binary);
        command.arg("up").arg("--dir").arg(dir);
        let flags = [
            ("--controller-manager", self.controller_manager),
            ("--kubelet", self.kubelet),
            ("--audit", self.audit),
        ];
        command.args(flags.iter().filter(|(_, on)| *on).map(|(flag, _)| flag));
        if let Some(folder) = &self.static_manifests {
            command.arg("--static-manifests").arg(folder);
        }
        if let Some(file) = &self.admission_config {
            command.arg("--admission-config").arg(file);
        }
        for argument in &self.apiserver_args {
            command.arg("--apiserver-arg").arg(argument);
        }
        command
    }
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    info: Info,
    // Dropped before the folder it writes into.
    process: Process,
    _dir: Scratch,
}

/// What `testcluster up` prints once it is ready.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    url: String,
    ca_file: PathBuf,
    #[serde(rename = "clientCAFile")]
    client_ca_file: PathBuf,
    serving_cert_file: PathBuf,
    serving_key_file: PathBuf,
    users: BTreeMap<String, User>,
    pids: BTreeMap<String, u32>,
    logs: BTreeMap<String, PathBuf>,
    audit_log: Option<PathBuf>,
}

/// The credentials of one test user.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// A static bearer token.
    pub token: String,
    /// A client certificate.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// A kubeconfig that goes straight to kube-apiserver.
    pub kubeconfig: PathBuf,
}

impl ControlPlane {
    /// The control plane that all tests of this process share: with controller manager, kubelet
    /// and audit log. Tests keep to namespaces of their own.
    ///
    /// # Errors
    /// When it cannot be started; the next caller tries again.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        let options = Options::new().controller_manager().kubelet().audit();
        SHARED.get_or_try_init(|| options.start()).await
    }

    async fn start(options: Options) -> Result<Self> {
        let binary = locate::testcluster()?;
        let dir = Scratch::new("control-plane")?;
        let command = options.command(&binary, dir.path());
        let log = dir.path().join("testcluster.log");
        let (process, stdout) =
            Process::start("testcluster", command, log, Ending::StdinCloses, true)?;
        let stdout = stdout.context("testcluster has no standard output")?;
        let line = first_line(&process, stdout, READY).await?;
        let info = serde_json::from_str(&line).context(format!(
            "reading what testcluster printed ({})",
            line.trim()
        ))?;
        Ok(Self {
            info,
            process,
            _dir: dir,
        })
    }

    /// The address of kube-apiserver, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.info.url
    }

    /// The authority behind every serving certificate.
    pub fn ca_file(&self) -> &Path {
        &self.info.ca_file
    }

    /// The authority behind the users' client certificates.
    pub fn client_ca_file(&self) -> &Path {
        &self.info.client_ca_file
    }

    /// A serving certificate and its key for 127.0.0.1, ::1, localhost and `*.portcullis.test`.
    pub fn serving_pair(&self) -> (&Path, &Path) {
        (&self.info.serving_cert_file, &self.info.serving_key_file)
    }

    /// A test user: `admin`, `alice`, `bob` or `gateway`.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn user(&self, name: &str) -> Result<&User> {
        self.info
            .users
            .get(name)
            .context(format!("testcluster has no user {name}"))
    }

    /// All test users by name.
    pub fn users(&self) -> &BTreeMap<String, User> {
        &self.info.users
    }

    /// The process ids of its components by name.
    pub fn pids(&self) -> &BTreeMap<String, u32> {
        &self.info.pids
    }

    /// The log files of its components by name.
    pub fn logs(&self) -> &BTreeMap<String, PathBuf> {
        &self.info.logs
    }

    /// kube-apiserver's audit log, when asked for.
    pub fn audit_log(&self) -> Option<&Path> {
        self.info.audit_log.as_deref()
    }

    /// What kube-apiserver uses of the machine.
    ///
    /// # Errors
    /// When it has ended.
    pub fn apiserver_usage(&self) -> Result<Usage> {
        let pid = self.info.pids.get("kube-apiserver");
        Usage::of(*pid.context("testcluster did not say the pid of kube-apiserver")?)
    }

    /// Ends it and waits for its components to go.
    ///
    /// # Errors
    /// When it does not end in time, or not with exit status 0.
    pub async fn stop(mut self) -> Result<()> {
        let status = self.process.stop(STOPPED).await?;
        if status.success() {
            return Ok(());
        }
        Err(crate::Failure::new(format!(
            "testcluster: {status}\n{}",
            self.process.log_tail()
        )))
    }
}
