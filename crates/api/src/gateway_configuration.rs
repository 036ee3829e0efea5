//! `GatewayConfiguration`, the file of `portcullis serve --config`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_core::yaml::{self, Diagnostic, Document};
use serde::Deserialize;

use crate::duration;

mod validate;

/// API version of our own kinds.
pub const API_VERSION: &str = "portcullis.dev/v1alpha1";
/// Kind of the file.
pub const KIND: &str = "GatewayConfiguration";

/// How one gateway process runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayConfiguration {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// The listener for Kubernetes clients.
    pub listen: Listen,
    /// The port for probes and metrics.
    #[serde(default)]
    pub admin: Admin,
    /// Where clusters are found.
    pub resources: Resources,
    /// Bounds on everything a client can make the gateway hold.
    #[serde(default)]
    pub limits: Limits,
    /// How long answers about callers are remembered.
    #[serde(default)]
    pub authentication: Authentication,
    /// Log lines, on standard error.
    #[serde(default)]
    pub logging: Logging,
    /// Trace export; off when absent.
    #[serde(default)]
    pub tracing: Option<Tracing>,
    /// How the process ends.
    #[serde(default)]
    pub drain: Drain,
}

/// The listener for Kubernetes clients.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listen {
    /// Address and port; port 0 lets the system choose.
    #[serde(default = "default_listen_address")]
    pub address: SocketAddr,
    /// Protocols offered by ALPN.
    #[serde(default = "default_protocols")]
    pub protocols: Vec<Protocol>,
    /// Certificates. There is no plain-text listener: tokens pass here.
    pub tls: Tls,
}

/// An application protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Protocol {
    /// HTTP/2.
    #[serde(rename = "h2")]
    Http2,
    /// HTTP/1.1, which upgrades (exec, port-forward) need.
    #[serde(rename = "http/1.1")]
    Http1,
}

/// The listener's certificates, reloaded when the files change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// PEM chain, leaf first.
    pub cert_file: PathBuf,
    /// PEM key.
    pub key_file: PathBuf,
    /// PEM bundle of CAs whose client certificates are a login; none are asked for when absent.
    #[serde(default, rename = "clientCAFile")]
    pub client_ca_file: Option<PathBuf>,
}

/// The port for probes and metrics: plain HTTP, so keep it inside.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Admin {
    /// Address and port.
    pub address: SocketAddr,
}

/// Where clusters are found. At least one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// Folder of YAML and JSON files.
    pub directory: Option<PathBuf>,
    /// Kubeconfig of a federating cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig; its current one when absent.
    pub context: Option<String>,
    /// Whether the cluster that this process runs in is the federating cluster.
    pub in_cluster: bool,
    /// Namespace of the federating cluster to read; all when empty.
    pub namespace: String,
    /// Whether a ProxyKubeApi may name Secrets and ConfigMaps of other namespaces. With it, whoever
    /// may create a ProxyKubeApi can use every Secret that the gateway can read.
    pub allow_cross_namespace_references: bool,
    /// Whether a ProxyKubeApi of the federating cluster may name files of this machine. With it,
    /// whoever may create a ProxyKubeApi can use every file that the gateway can read.
    pub allow_file_references: bool,
}

/// Bounds. Each has a metric of its name: `portcullis_limited_total{limit}` for requests,
/// `portcullis_connections_refused_total{reason}` for connections.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Client connections.
    pub max_connections: usize,
    /// Requests at once on one HTTP/2 connection.
    pub max_concurrent_streams: u32,
    /// Bytes of all header lines of a request.
    pub max_header_bytes: usize,
    /// Requests in flight that read and end.
    pub max_requests_in_flight: usize,
    /// Requests in flight that write.
    pub max_mutating_requests_in_flight: usize,
    /// Watches, exec sessions and the like.
    pub max_long_running_requests: usize,
    /// From the connection to the end of the TLS handshake.
    #[serde(deserialize_with = "duration::deserialize")]
    pub tls_handshake_timeout: Duration,
    /// For the header lines of an HTTP/1.1 request.
    #[serde(deserialize_with = "duration::deserialize")]
    pub header_read_timeout: Duration,
    /// Until a connection to an API server stands.
    #[serde(deserialize_with = "duration::deserialize")]
    pub connect_timeout: Duration,
    /// Until the head of an API server's answer; not for long-running requests.
    #[serde(deserialize_with = "duration::deserialize")]
    pub request_timeout: Duration,
}

/// How long answers about callers are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Authentication {
    /// Longest time for which a valid token is not asked about again.
    #[serde(rename = "tokenCacheTTL", deserialize_with = "duration::deserialize")]
    pub token_cache_ttl: Duration,
    /// Tokens remembered per cluster.
    pub token_cache_size: usize,
}

/// Log lines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// `text` or `json`.
    pub format: String,
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter of `target=level` items.
    pub level: String,
}

/// Trace export.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tracing {
    /// Base URL of an OTLP/HTTP collector.
    pub endpoint: String,
    /// Share of requests to record among those whose caller did not decide; 0 to 1.
    #[serde(default = "default_sampling_ratio")]
    pub sampling_ratio: f64,
}

/// How the process ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Drain {
    /// Unready, but still accepting: time for load balancers to notice.
    #[serde(deserialize_with = "duration::deserialize")]
    pub delay: Duration,
    /// From GOAWAY to the moment when whatever is left is cut.
    #[serde(deserialize_with = "duration::deserialize")]
    pub timeout: Duration,
}

fn default_listen_address() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 8443))
}

fn default_protocols() -> Vec<Protocol> {
    vec![Protocol::Http2, Protocol::Http1]
}

fn default_sampling_ratio() -> f64 {
    0.1
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 9090)),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_concurrent_streams: 250,
            max_header_bytes: 64 * 1024,
            max_requests_in_flight: 400,
            max_mutating_requests_in_flight: 200,
            max_long_running_requests: 20_000,
            tls_handshake_timeout: Duration::from_secs(10),
            header_read_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(70),
        }
    }
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            token_cache_ttl: Duration::from_secs(10),
            token_cache_size: 4096,
        }
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            format: "text".to_owned(),
            level: "info".to_owned(),
        }
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(0),
            timeout: Duration::from_secs(30),
        }
    }
}

impl Listen {
    /// Whether HTTP/2 is offered.
    #[must_use]
    pub fn offers_http2(&self) -> bool {
        self.protocols.contains(&Protocol::Http2)
    }

    /// Whether HTTP/1.1 is offered.
    #[must_use]
    pub fn offers_http1(&self) -> bool {
        self.protocols.contains(&Protocol::Http1)
    }
}

/// Reads and validates the file at `path`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path) -> Result<GatewayConfiguration, Vec<Diagnostic>> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| {
        vec![Diagnostic::of_file(
            &file,
            format!("cannot be read: {e}"),
            "check the path",
        )]
    })?;
    let documents = yaml::parse(&file, &bytes)?;
    match documents.as_slice() {
        [document] => decode(document, path.parent().unwrap_or(Path::new("."))),
        other => {
            let message = format!("holds {} documents instead of one", other.len());
            Err(vec![Diagnostic::of_file(
                file,
                message,
                "keep one GatewayConfiguration per file",
            )])
        }
    }
}

/// Decodes and validates one document of a file in `folder`, where its relative paths start.
///
/// # Errors
/// Everything that is wrong with it.
pub fn decode(document: &Document, folder: &Path) -> Result<GatewayConfiguration, Vec<Diagnostic>> {
    let mut config: GatewayConfiguration = yaml::decode(document)?;
    let faults = config.validate();
    if faults.is_empty() {
        config.resolve_paths(folder);
        return Ok(config);
    }
    Err(faults.into_iter().map(|f| document.diagnose(f)).collect())
}

impl GatewayConfiguration {
    /// Makes relative paths relative to the configuration's folder instead of the process's.
    fn resolve_paths(&mut self, folder: &Path) {
        let tls = &mut self.listen.tls;
        let resources = &mut self.resources;
        let required = [&mut tls.cert_file, &mut tls.key_file];
        let optional = [
            &mut tls.client_ca_file,
            &mut resources.directory,
            &mut resources.kubeconfig,
        ];
        for path in required.into_iter().chain(optional.into_iter().flatten()) {
            *path = folder.join(&*path);
        }
    }
}

impl Resources {
    /// Whether a federating cluster is a source.
    #[must_use]
    pub fn has_cluster(&self) -> bool {
        self.kubeconfig.is_some() || self.in_cluster
    }
}

#[cfg(test)]
mod tests;
