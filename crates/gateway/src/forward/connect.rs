//! One TCP and TLS connection to an upstream, under one deadline.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderValue, Request, Uri, Version};
use portcullis_core::{Blame, Error};
use portcullis_index::Upstream;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls::{Identity, TlsSetupError, client_config};
use crate::Body;

/// ALPN name of HTTP/2.
pub(crate) const ALPN_H2: &[u8] = b"h2";
const ALPN_HTTP11: &[u8] = b"http/1.1";

/// TLS reads a few kilobytes at a time; through this buffer a long answer costs a fraction of the
/// system calls. Upstream connections are few, so it may be large.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A connection to an upstream.
pub type UpstreamStream = TlsStream<BufReader<TcpStream>>;

/// Opens connections to one upstream with one TLS identity.
pub struct Connector {
    label: String,
    dial_host: String,
    port: u16,
    server_name: ServerName<'static>,
    authority: Authority,
    pooled: Arc<ClientConfig>,
    upgrades: Arc<ClientConfig>,
    timeout: Duration,
}

/// Why no connection came about.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Name resolution or TCP failed.
    #[error("cannot connect: {0}")]
    Tcp(Arc<io::Error>),
    /// The handshake failed, most often over a certificate.
    #[error("TLS handshake failed: {0}")]
    Tls(Arc<io::Error>),
    /// Neither came to an end in time.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// The HTTP handshake failed.
    #[error("HTTP handshake failed: {0}")]
    Http(Arc<hyper::Error>),
    /// All connections that one upstream may have are full of streams.
    #[error("all {0} connections to the upstream are in full use")]
    Exhausted(usize),
}

impl ConnectError {
    /// The answer to the client. Nothing was sent, so a client may try again.
    #[must_use]
    pub fn to_error(&self, cluster: &str) -> Error {
        let (code_is_timeout, what) = match self {
            Self::Tcp(_) => (false, "cannot be reached"),
            Self::Tls(_) => (false, "could not be verified: TLS handshake failed"),
            Self::Timeout(_) => (true, "did not accept a connection in time"),
            Self::Http(_) => (false, "does not speak HTTP as expected"),
            Self::Exhausted(_) => (false, "has no free connection"),
        };
        let message = format!("the API server of cluster {cluster} {what}");
        let error = if code_is_timeout {
            Error::upstream_timeout(message)
        } else {
            Error::unavailable(Blame::Upstream, message)
        };
        error.with_detail(self.to_string())
    }
}

impl Connector {
    /// Prepares connections to `upstream`.
    ///
    /// # Errors
    /// If the trust or identity cannot be used, or the host is no valid name.
    pub fn new(
        label: &str,
        upstream: &Upstream,
        identity: Option<&Identity>,
        timeout: Duration,
    ) -> Result<Self, TlsSetupError> {
        // A literal IPv6 address is bracketed in a URL and bare everywhere else.
        let bare = upstream.host.trim_start_matches('[').trim_end_matches(']');
        let server_name = ServerName::try_from(bare.to_owned())
            .map_err(|_| rustls::Error::General(format!("{bare} is no valid host name")))?;
        let authority = match upstream.port {
            443 => upstream.host.clone(),
            port => format!("{}:{port}", upstream.host),
        };
        let authority = Authority::try_from(authority).map_err(|e| {
            rustls::Error::General(format!("{} is no valid host: {e}", upstream.host))
        })?;
        let dial_host = upstream.connect_host.as_deref().unwrap_or(bare);
        Ok(Self {
            label: label.to_owned(),
            dial_host: dial_host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port: upstream.port,
            server_name,
            authority,
            pooled: client_config(&upstream.trust, identity, &[ALPN_H2, ALPN_HTTP11])?,
            upgrades: client_config(&upstream.trust, identity, &[ALPN_HTTP11])?,
            timeout,
        })
    }

    /// The cluster's label, for errors and metrics.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Puts the upstream's name where the protocol wants it. The target itself stays as it is.
    pub fn address(&self, request: &mut Request<Body>, http2: bool) {
        let target = request.uri().path_and_query().cloned();
        let mut parts = http::uri::Parts::default();
        parts.path_and_query = target;
        request.headers_mut().remove(HOST);
        if http2 {
            parts.scheme = Some(http::uri::Scheme::HTTPS);
            parts.authority = Some(self.authority.clone());
            *request.version_mut() = Version::HTTP_2;
        } else {
            if let Ok(host) = HeaderValue::try_from(self.authority.as_str()) {
                request.headers_mut().insert(HOST, host);
            }
            *request.version_mut() = Version::HTTP_11;
        }
        // Cannot fail: the target came out of a URI and scheme and authority stand together.
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }

    /// A connection for the pool: HTTP/2 if the upstream speaks it.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self) -> Result<UpstreamStream, ConnectError> {
        self.open(&self.pooled).await
    }

    /// A connection that will be upgraded: HTTP/1.1 only.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_for_upgrade(&self) -> Result<UpstreamStream, ConnectError> {
        self.open(&self.upgrades).await
    }

    async fn open(&self, tls: &Arc<ClientConfig>) -> Result<UpstreamStream, ConnectError> {
        let opening = async {
            let tcp = |e: io::Error| ConnectError::Tcp(Arc::new(e));
            let stream = TcpStream::connect((self.dial_host.as_str(), self.port))
                .await
                .map_err(tcp)?;
            // Small frames (watch events, ends of bodies) must not wait for an acknowledgement.
            stream.set_nodelay(true).map_err(tcp)?;
            TlsConnector::from(Arc::clone(tls))
                .connect(
                    self.server_name.clone(),
                    BufReader::with_capacity(READ_BUFFER_BYTES, stream),
                )
                .await
                .map_err(|e| ConnectError::Tls(Arc::new(e)))
        };
        tokio::time::timeout(self.timeout, opening)
            .await
            .unwrap_or(Err(ConnectError::Timeout(self.timeout)))
    }
}
