//! TLS of the listener: certificate, optional client CA, reload.
//!
//! Files are looked at on a timer, not at each handshake. A set that cannot be used leaves the
//! last good one in place and says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use portcullis_core::observer::Observer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// ALPN name of HTTP/2.
pub(super) const ALPN_H2: &[u8] = b"h2";
const ALPN_HTTP11: &[u8] = b"http/1.1";
/// How often the files are looked at. cert-manager renews weeks ahead, kubelet swaps mounts
/// within a minute: neither needs more.
const POLL: Duration = Duration::from_secs(5);

/// Where the listener's TLS material lies.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM chain, leaf first.
    pub certificate: PathBuf,
    /// PEM key.
    pub key: PathBuf,
    /// PEM bundle of the CAs whose client certificates are a login; none are asked for without.
    pub client_ca: Option<PathBuf>,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// Whether HTTP/1.1 is offered.
    pub http1: bool,
}

/// Why the material cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}: no usable PEM block: {source}")]
    Pem {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// Certificate, key or CA do not work together.
    #[error("{path}: {source}")]
    Rustls {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The client CA bundle is unusable.
    #[error("{path}: {source}")]
    ClientCa {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rustls::server::VerifierBuilderError,
    },
}

/// File contents, compared to find out whether a reload is due.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl TlsFiles {
    /// Loads the files and keeps them loaded: the returned configuration is swapped when they
    /// change, for as long as somebody holds it.
    ///
    /// # Errors
    /// If the files cannot be used now.
    pub fn watch(
        self,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<ArcSwap<ServerConfig>>, TlsFilesError> {
        let contents = self.read()?;
        let config = Arc::new(ArcSwap::from(self.build(&contents)?));
        let current = Arc::downgrade(&config);
        tokio::spawn(async move {
            let mut last = contents;
            let mut tick = tokio::time::interval(POLL);
            loop {
                tick.tick().await;
                let Some(current) = current.upgrade() else {
                    return;
                };
                match self.read() {
                    Ok(read) if read == last => {}
                    Ok(read) => {
                        let built = self.build(&read);
                        observer.reloaded("tls", built.is_ok());
                        match built {
                            Ok(built) => {
                                current.store(built);
                                tracing::info!("the listener's certificate was reloaded");
                            }
                            Err(error) => {
                                tracing::error!("the listener keeps its certificate: {error}");
                            }
                        }
                        last = read;
                    }
                    Err(error) => {
                        observer.reloaded("tls", false);
                        tracing::error!("the listener keeps its certificate: {error}");
                    }
                }
            }
        });
        Ok(config)
    }

    fn read(&self) -> Result<Contents, TlsFilesError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsFilesError::Read {
                path: path.to_owned(),
                source,
            })
        };
        Ok(Contents {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn build(&self, contents: &Contents) -> Result<Arc<ServerConfig>, TlsFilesError> {
        let pem = |path: &PathBuf| {
            let path = path.clone();
            move |source| TlsFilesError::Pem { path, source }
        };
        let rustls = |path: &PathBuf| {
            let path = path.clone();
            move |source| TlsFilesError::Rustls { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&contents.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(pem(&self.key))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(rustls(&self.certificate))?;
        let builder = match (&self.client_ca, &contents.client_ca) {
            (Some(path), Some(bundle)) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(bundle) {
                    roots
                        .add(certificate.map_err(pem(path))?)
                        .map_err(rustls(path))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .map_err(|source| TlsFilesError::ClientCa {
                            path: path.clone(),
                            source,
                        })?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(rustls(&self.certificate))?;
        if self.http2 {
            config.alpn_protocols.push(ALPN_H2.to_vec());
        }
        if self.http1 {
            config.alpn_protocols.push(ALPN_HTTP11.to_vec());
        }
        if self.client_ca.is_some() {
            // A resumed session would skip the check against the client CA as it is now.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Arc::new(config))
    }
}
