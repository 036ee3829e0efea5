//! HTTP clients that hide nothing: raw bytes over TLS, and HTTP/2.
//!
//! Purpose: send what no well-behaved client sends and see exactly what comes back.
//! Invariant: nothing is retried, followed, decompressed or reused behind the caller's back.

pub mod frames;
pub mod h2;
pub mod raw;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use h2::{H2Client, Reply};
pub use raw::{Head, RawClient, Response};

use crate::gateway::Gateway;
use crate::wait::within;
use crate::{Context, Result, pki};

/// How long a test waits for bytes that should come at once.
pub const SOON: Duration = Duration::from_secs(10);

/// Where and as whom to connect.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address to dial.
    pub address: SocketAddr,
    /// The name to check and to send as SNI; an IP address sends none.
    pub server_name: String,
    /// The authority to trust.
    pub ca_file: PathBuf,
    /// A client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Target {
    /// An address whose certificate names it by IP.
    pub fn new(address: SocketAddr, ca_file: impl Into<PathBuf>) -> Self {
        let server_name = address.ip().to_string();
        Self {
            address,
            server_name,
            ca_file: ca_file.into(),
            identity: None,
        }
    }

    /// The gateway's listener.
    pub fn gateway(gateway: &Gateway) -> Self {
        Self::new(gateway.address(), gateway.ca_file())
    }

    /// The server at `https://IP:PORT`.
    ///
    /// # Errors
    /// When the URL has another form.
    pub fn url(url: &str, ca_file: &Path) -> Result<Self> {
        let address = url.strip_prefix("https://").unwrap_or(url);
        Ok(Self::new(
            address
                .parse()
                .context(format!("reading the address {url}"))?,
            ca_file,
        ))
    }

    /// With another server name.
    #[must_use]
    pub fn server_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.server_name);
        self
    }

    /// With a client certificate.
    #[must_use]
    pub fn identity(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((cert.into(), key.into()));
        self
    }

    /// A TLS connection that offers `protocols` by ALPN (none: no ALPN).
    ///
    /// # Errors
    /// When there is no TCP or TLS connection.
    pub async fn connect(&self, protocols: &[&[u8]]) -> Result<TlsStream<TcpStream>> {
        let identity = self
            .identity
            .as_ref()
            .map(|(c, k)| (c.as_path(), k.as_path()));
        let config = pki::client_config(&self.ca_file, identity, protocols)?;
        let name = ServerName::try_from(self.server_name.clone())
            .context(format!("reading the server name {}", self.server_name))?;
        let connecting = async {
            let tcp = TcpStream::connect(self.address)
                .await
                .context("connecting")?;
            tcp.set_nodelay(true).context("setting TCP_NODELAY")?;
            TlsConnector::from(Arc::clone(&config))
                .connect(name, tcp)
                .await
                .context("TLS handshake")
        };
        within(
            &format!("a TLS connection to {}", self.address),
            SOON,
            connecting,
        )
        .await?
    }
}

/// GET over plain HTTP/1.1: status code and body.
///
/// # Errors
/// When the server does not answer.
pub async fn plain_get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let asking = async {
        let mut tcp = TcpStream::connect(address).await.context("connecting")?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.context("sending")?;
        let mut reply = Vec::new();
        tcp.read_to_end(&mut reply).await.context("receiving")?;
        Ok(String::from_utf8_lossy(&reply).into_owned())
    };
    let reply: String = within(&format!("GET http://{address}{path}"), SOON, asking).await??;
    let (head, body) = reply
        .split_once("\r\n\r\n")
        .context("the reply has no head")?;
    let code = head.split(' ').nth(1).and_then(|c| c.parse().ok());
    Ok((
        code.context(format!("no status code in {head}"))?,
        body.to_owned(),
    ))
}
