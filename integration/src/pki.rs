//! Certificates for upstreams and clients that the control plane does not know.
//!
//! Purpose: an authority of our own per test, and the rustls configurations made from it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Context, Result};

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub cert_pem: String,
    /// The key.
    pub key_pem: String,
}

/// An authority that signs serving and client certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A fresh authority named `name`.
    ///
    /// # Errors
    /// When a key cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("making the authority's key")?;
        let issuer = CertifiedIssuer::self_signed(params, key).context("signing the authority")?;
        Ok(Self { issuer })
    }

    /// Its certificate, PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A serving certificate for 127.0.0.1, localhost and `names`.
    ///
    /// # Errors
    /// When a name is no DNS name.
    pub fn serving(&self, names: &[&str]) -> Result<Pair> {
        let names = [&["localhost"], names]
            .concat()
            .into_iter()
            .map(str::to_owned);
        let mut params = CertificateParams::new(names.collect::<Vec<_>>())
            .context("naming a serving certificate")?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A serving certificate for `name` only: wrong for whoever dials 127.0.0.1.
    ///
    /// # Errors
    /// When the name is no DNS name.
    pub fn serving_only(&self, name: &str) -> Result<Pair> {
        let mut params =
            CertificateParams::new(vec![name.to_owned()]).context("naming a certificate")?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate as Kubernetes reads it: common name = user, organization = group.
    ///
    /// # Errors
    /// When a key cannot be made.
    pub fn client(&self, user: &str, group: &str) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair> {
        // Strict verifiers (Python's since 3.13) refuse a certificate without it.
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("making a key")?;
        let cert = params
            .signed_by(&key, &self.issuer)
            .context("signing a certificate")?;
        Ok(Pair {
            cert_pem: cert.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

/// A TLS server that presents `pair` and offers `protocols` by ALPN.
///
/// # Errors
/// When the pair cannot be read.
pub fn server_config(pair: &Pair, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>> {
    let certs = certificates(pair.cert_pem.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("choosing TLS versions")?
        .with_no_client_auth()
        .with_single_cert(certs, key(pair.key_pem.as_bytes())?)
        .context("using a serving certificate")?;
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    Ok(Arc::new(config))
}

/// A TLS client that trusts the authorities in `ca_file`, shows `identity` (certificate and key
/// files) when there is one, and offers `protocols` by ALPN.
///
/// # Errors
/// When a file cannot be read.
pub fn client_config(
    ca_file: &Path,
    identity: Option<(&Path, &Path)>,
    protocols: &[&[u8]],
) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(&read(ca_file)?)? {
        roots
            .add(cert)
            .context(format!("trusting {}", ca_file.display()))?;
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("choosing TLS versions")?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((cert_file, key_file)) => builder
            .with_client_auth_cert(certificates(&read(cert_file)?)?, key(&read(key_file)?)?)
            .context(format!("using client certificate {}", cert_file.display()))?,
    };
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(format!("reading {}", path.display()))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .context("reading certificates")
}

fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).context("reading a private key")
}
