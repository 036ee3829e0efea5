//! TLS towards the upstream: built once per cluster, shared by all its connections.

use std::sync::{Arc, OnceLock};

use portcullis_index::Trust;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// A certificate and key with which the gateway introduces itself to an upstream.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Why TLS towards an upstream cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// No certificate of the bundle could be used.
    #[error("the CA bundle holds no usable certificate; give PEM blocks of type CERTIFICATE")]
    EmptyBundle,
    /// The system has no trusted roots.
    #[error("the system's trust store is empty; name a CA bundle in spec.cert")]
    NoSystemRoots,
    /// A PEM block could not be read.
    #[error("{what} cannot be read: {source}")]
    Pem {
        /// Which of the inputs.
        what: &'static str,
        /// What is wrong with it.
        source: rustls_pki_types::pem::Error,
    },
    /// rustls refuses the combination.
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
}

impl Identity {
    /// Reads a PEM chain and its PEM key.
    ///
    /// # Errors
    /// If either holds no usable block.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsSetupError> {
        let pem = |what| move |source| TlsSetupError::Pem { what, source };
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem("the client certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(pem("the client key"))?;
        Ok(Self { chain, key })
    }
}

/// Builds the configuration for `trust`, presenting `identity` if there is one.
///
/// # Errors
/// See [`TlsSetupError`].
pub fn client_config(
    trust: &Trust,
    identity: Option<&Identity>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::SystemRoots => builder.with_root_certificates(system_roots()?),
        Trust::Pem(bundle) => builder.with_root_certificates(roots_from_pem(bundle)?),
        Trust::Insecure => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny { provider })),
    };
    let mut config = match identity {
        Some(i) => builder.with_client_auth_cert(i.chain.clone(), i.key.clone_key())?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    Ok(Arc::new(config))
}

fn roots_from_pem(bundle: &[u8]) -> Result<RootCertStore, TlsSetupError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.map_err(|source| TlsSetupError::Pem {
            what: "the CA bundle",
            source,
        })?;
        roots.add(certificate)?;
    }
    if roots.is_empty() {
        Err(TlsSetupError::EmptyBundle)
    } else {
        Ok(roots)
    }
}

/// The system's roots, read once: they are the same for all clusters.
fn system_roots() -> Result<Arc<RootCertStore>, TlsSetupError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        Err(TlsSetupError::NoSystemRoots)
    } else {
        Ok(Arc::clone(roots))
    }
}

/// `spec.cert: {Insecure: true}`: any certificate will do. The handshake's signatures are still
/// checked, so the peer at least holds the key of whatever certificate it shows.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
