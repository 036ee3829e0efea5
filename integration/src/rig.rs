//! `make rig`: control planes and the gateway, held for whoever measures or probes from outside.
//!
//! Purpose: start the setup, print one line of JSON that says how to reach it, hold it until
//! standard input closes, and take it down.
//! Invariant: the line's shape is a contract (CONTRIBUTING documents it): fields are added, never
//! renamed or removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::control_plane::{self, ControlPlane, User};
use crate::gateway::{self, Cluster, Gateway, UpstreamMode};
use crate::kubeconfig::{self, Credential, Entry};
use crate::scratch::Scratch;
use crate::{Context, Result};

const DRAINED: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// HTTP versions that the gateway offers.
    #[arg(long, value_enum, default_value_t = Http::Both)]
    pub http: Http,
    /// How the gateway speaks for its callers.
    #[arg(long, value_enum, default_value_t = Mode::PassThrough)]
    pub upstream_mode: Mode,
    /// Folder of admission manifests for kube-apiserver.
    #[arg(long, value_name = "DIR")]
    pub static_manifests: Option<PathBuf>,
    /// YAML file merged over the GatewayConfiguration (RFC 7396: null removes).
    #[arg(long, value_name = "FILE")]
    pub gateway_config: Option<PathBuf>,
    /// With kube-controller-manager.
    #[arg(long)]
    pub controller_manager: bool,
    /// With a Node whose kubelet answers exec, attach, logs and port-forward.
    #[arg(long)]
    pub kubelet: bool,
    /// Control planes to start: default/kube, default/kube-2, ...
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub clusters: u8,
    /// The gateway's log level.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// HTTP versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Http {
    /// HTTP/2 only.
    H2,
    /// HTTP/1.1 only.
    Http1,
    /// Both.
    Both,
}

/// [`UpstreamMode`] as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The caller's own credential goes on.
    PassThrough,
    /// The gateway's credential and impersonation headers.
    Impersonate,
}

impl From<Mode> for UpstreamMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::PassThrough => Self::PassThrough,
            Mode::Impersonate => Self::Impersonate,
        }
    }
}

/// A running rig.
#[derive(Debug)]
pub struct Rig {
    gateway: Gateway,
    members: Vec<Member>,
    report: Value,
    _dir: Scratch,
}

/// One control plane and its object at the gateway.
#[derive(Debug)]
struct Member {
    plane: ControlPlane,
    cluster: Cluster,
    name: String,
}

impl Rig {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not become ready.
    pub async fn start(options: &Options) -> Result<Self> {
        let mut members = Vec::new();
        for number in 1..=options.clusters {
            members.push(Member::start(options, number).await?);
        }
        let dir = Scratch::new("rig")?;
        let gateway = start_gateway(options, &members, &dir).await?;
        let report = report(&gateway, &members, &dir)?;
        Ok(Self {
            gateway,
            members,
            report,
            _dir: dir,
        })
    }

    /// The line for standard output.
    pub fn report(&self) -> &Value {
        &self.report
    }

    /// Takes everything down, the gateway first.
    ///
    /// # Errors
    /// When a part does not end, or not well.
    pub async fn stop(self) -> Result<()> {
        let status = self.gateway.stop(DRAINED).await?;
        for member in self.members {
            member.plane.stop().await?;
        }
        status
            .success()
            .then_some(())
            .context(format!("the gateway ended with {status}"))
    }
}

impl Member {
    async fn start(options: &Options, number: u8) -> Result<Self> {
        let mut plane = control_plane::Options::new();
        if options.controller_manager {
            plane = plane.controller_manager();
        }
        if options.kubelet {
            plane = plane.kubelet();
        }
        if let Some(folder) = &options.static_manifests {
            plane = plane.static_manifests(folder);
        }
        let plane = plane.start().await?;
        let name = if number == 1 {
            "kube".to_owned()
        } else {
            format!("kube-{number}")
        };
        let cluster = Cluster::in_mode(&plane, options.upstream_mode.into())?;
        Ok(Self {
            plane,
            cluster: cluster.named("default", &name),
            name,
        })
    }

    fn direct(&self) -> Value {
        json!({
            "url": self.plane.url(),
            "caFile": self.plane.ca_file(),
            "users": self.plane.users(),
        })
    }

    /// The same users, with kubeconfigs that go through the gateway.
    fn through(&self, gateway: &Gateway, dir: &Scratch) -> Result<Value> {
        let url = gateway.url_of(&self.cluster);
        let mut users = BTreeMap::new();
        for (name, user) in self.plane.users() {
            let entry = Entry {
                name: format!("{}-{name}", self.name),
                server: url.clone(),
                ca_file: gateway.ca_file(),
                credential: Credential::token(user),
                namespace: "default".to_owned(),
            };
            let kubeconfig = kubeconfig::one(dir, entry)?;
            users.insert(
                name,
                User {
                    kubeconfig,
                    ..user.clone()
                },
            );
        }
        Ok(json!({
            "url": url,
            "caFile": gateway.ca_file(),
            "users": users,
            "admin": format!("http://{}", gateway.admin_address()),
        }))
    }
}

async fn start_gateway(options: &Options, members: &[Member], dir: &Scratch) -> Result<Gateway> {
    let mut with = gateway::Options::new().log_level(&options.log_level);
    with = match options.http {
        Http::H2 => with.protocols(&["h2"]),
        Http::Http1 => with.protocols(&["http/1.1"]),
        Http::Both => with.protocols(&["h2", "http/1.1"]),
    };
    let authorities = members
        .iter()
        .map(|m| std::fs::read_to_string(m.plane.client_ca_file()));
    let bundle = authorities
        .collect::<Result<String, _>>()
        .context("reading client authorities")?;
    with = with.client_ca(&dir.write("client-ca.crt", bundle)?);
    for member in members {
        with = with.cluster(member.cluster.clone());
    }
    if let Some(file) = &options.gateway_config {
        with = with.with(read_yaml(file)?);
    }
    with.start().await
}

fn report(gateway: &Gateway, members: &[Member], dir: &Scratch) -> Result<Value> {
    let mut pids = BTreeMap::from([("gateway".to_owned(), json!(gateway.pid()))]);
    let mut logs = BTreeMap::from([("gateway".to_owned(), json!(gateway.process().log()))]);
    let mut clusters = Vec::new();
    for member in members {
        // The first cluster's processes have plain names, those of others end in its name.
        let suffix = if member.name == "kube" {
            String::new()
        } else {
            format!("/{}", member.name)
        };
        pids.extend(
            member
                .plane
                .pids()
                .iter()
                .map(|(k, v)| (format!("{k}{suffix}"), json!(v))),
        );
        logs.extend(
            member
                .plane
                .logs()
                .iter()
                .map(|(k, v)| (format!("{k}{suffix}"), json!(v))),
        );
        clusters.push(json!({
            "name": format!("default/{}", member.name),
            "direct": member.direct(),
            "gateway": member.through(gateway, dir)?,
        }));
    }
    let first = clusters.first().context("a rig has at least one cluster")?;
    Ok(json!({
        "direct": first.get("direct"),
        "gateway": first.get("gateway"),
        "clusters": clusters,
        "pids": pids,
        "logs": logs,
        "config": {
            "gateway": gateway.config_file(),
            "resources": gateway.clusters_dir(),
        },
    }))
}

/// Reads the one document of a file. Relative paths in it are relative to the configuration it is
/// merged into, so they had better be absolute.
fn read_yaml(file: &Path) -> Result<Value> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).context(format!("reading {name}"))?;
    let documents = portcullis_core::yaml::parse(&name, &bytes).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        crate::Failure::new(lines.join("\n"))
    })?;
    let document = documents
        .into_iter()
        .next()
        .context(format!("{name} is empty"))?;
    Ok(document.value)
}
