//! Certificates, keys and tokens, wherever they stand.
//!
//! Invariant: a value is checked before it is published: PEM text holds at least one certificate
//! or key. No message repeats a value.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_api::proxy_kube_api::{
    Certificate, ClientCertificate, GatewayCredential as Written, KeyReference, Material,
    ProxyKubeApiSpec, TokenSource,
};
use portcullis_core::Redacted;
use portcullis_core::yaml::Fault;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{Context, Files};
use crate::snapshot::{GatewayCredential, Trust};

/// Largest certificate bundle, key or token file.
const MAX_FILE_BYTES: u64 = 1 << 20;

const PEM: &str = "write PEM, or base64 of PEM";

pub(super) fn trust(written: &Certificate, context: Context<'_>) -> Result<Trust, Fault> {
    let (field, bytes) = match written {
        Certificate::Insecure(true) => return Ok(Trust::Insecure),
        Certificate::Insecure(false) | Certificate::SystemRoots(_) => {
            return Ok(Trust::SystemRoots);
        }
        Certificate::Secret(reference) => {
            let field = "spec.cert.Secret";
            (field, secret(field, reference, context)?)
        }
        Certificate::ConfigMap(reference) => {
            let field = "spec.cert.ConfigMap";
            (field, config_map(field, reference, context)?)
        }
        Certificate::Cert(text) => ("spec.cert.Cert", text.0.reveal().clone().into_bytes()),
        Certificate::File(file) => (
            "spec.cert.File.path",
            read("spec.cert.File.path", &file.path, context)?,
        ),
    };
    certificates(field, &bytes).map(Trust::Pem)
}

/// What `client_cert` or `gateway_credential` says; both are never set.
pub(super) fn gateway_credential(
    spec: &ProxyKubeApiSpec,
    context: Context<'_>,
) -> Result<GatewayCredential, Vec<Fault>> {
    let one = |fault| vec![fault];
    let pair =
        |cert: Result<Vec<u8>, Fault>, key: Result<Redacted<Vec<u8>>, Fault>| match (cert, key) {
            (Ok(cert_pem), Ok(key_pem)) => {
                Ok(GatewayCredential::ClientCertificate { cert_pem, key_pem })
            }
            (cert, key) => Err(cert.err().into_iter().chain(key.err()).collect()),
        };
    if let Some(ClientCertificate { cert, key }) = &spec.client_cert {
        let (cert_field, key_field) = ("spec.client_cert.cert", "spec.client_cert.key");
        return pair(
            text(cert_field, cert, context).and_then(|bytes| certificates(cert_field, &bytes)),
            text(key_field, key, context).and_then(|bytes| private_key(key_field, &bytes)),
        );
    }
    match &spec.gateway_credential {
        None => Ok(GatewayCredential::None),
        Some(Written::TokenFile(file)) => {
            let field = "spec.gateway_credential.TokenFile.path";
            let path = path(field, &file.path, context).map_err(one)?;
            let bytes = read_path(field, &path).map_err(one)?;
            token(field, &bytes).map_err(one)?;
            Ok(GatewayCredential::TokenFile(path))
        }
        Some(Written::Token(TokenSource::Secret(reference))) => {
            let field = "spec.gateway_credential.Token.Secret";
            let bytes = secret(field, reference, context).map_err(one)?;
            token(field, &bytes)
                .map(GatewayCredential::Token)
                .map_err(one)
        }
        Some(Written::ClientCertFile(files)) => {
            let cert = "spec.gateway_credential.ClientCertFile.cert_path";
            let key = "spec.gateway_credential.ClientCertFile.key_path";
            pair(
                read(cert, &files.cert_path, context).and_then(|bytes| certificates(cert, &bytes)),
                read(key, &files.key_path, context).and_then(|bytes| private_key(key, &bytes)),
            )
        }
    }
}

fn text(field: &str, material: &Material, context: Context<'_>) -> Result<Vec<u8>, Fault> {
    match material {
        Material::Secret(reference) => secret(&format!("{field}.Secret"), reference, context),
        Material::ConfigMap(reference) => {
            config_map(&format!("{field}.ConfigMap"), reference, context)
        }
        Material::Cert(text) => Ok(text.0.reveal().clone().into_bytes()),
        Material::File(file) => read(&format!("{field}.File.path"), &file.path, context),
    }
}

fn secret(field: &str, reference: &KeyReference, context: Context<'_>) -> Result<Vec<u8>, Fault> {
    let namespace = namespace(field, reference, context)?;
    let values = context
        .references
        .secret(namespace, &reference.name)
        .map_err(|problem| {
            Fault::new(
                format!("{field}.name"),
                problem,
                "create the Secret, or name another",
            )
        })?;
    let value = values
        .get(&reference.key)
        .ok_or_else(|| no_key(field, "Secret"))?;
    Ok(value.reveal().clone())
}

fn config_map(
    field: &str,
    reference: &KeyReference,
    context: Context<'_>,
) -> Result<Vec<u8>, Fault> {
    let namespace = namespace(field, reference, context)?;
    let values = context
        .references
        .config_map(namespace, &reference.name)
        .map_err(|problem| {
            Fault::new(
                format!("{field}.name"),
                problem,
                "create the ConfigMap, or name another",
            )
        })?;
    values
        .get(&reference.key)
        .cloned()
        .ok_or_else(|| no_key(field, "ConfigMap"))
}

fn no_key(field: &str, kind: &str) -> Fault {
    let message = format!("the {kind} has no such key");
    Fault::new(
        format!("{field}.key"),
        message,
        "add the key, or name another",
    )
}

fn namespace<'a>(
    field: &str,
    reference: &'a KeyReference,
    context: Context<'a>,
) -> Result<&'a str, Fault> {
    match reference.namespace.as_deref() {
        Some(other) if other != context.namespace && !context.policy.cross_namespace => {
            Err(Fault::new(
                format!("{field}.namespace"),
                "is another namespace than the object's own",
                "move the object, or set resources.allowCrossNamespaceReferences in the \
                 gateway's configuration",
            ))
        }
        Some(namespace) => Ok(namespace),
        None => Ok(context.namespace),
    }
}

fn read(field: &str, file: &Path, context: Context<'_>) -> Result<Vec<u8>, Fault> {
    read_path(field, &path(field, file, context)?)
}

fn path(field: &str, path: &Path, context: Context<'_>) -> Result<PathBuf, Fault> {
    match context.policy.files {
        Files::In(folder) => Ok(folder.join(path)),
        Files::Absolute if path.is_absolute() => Ok(path.to_owned()),
        Files::Absolute => Err(Fault::new(
            field,
            "is a relative path",
            "write it from the root, beginning with /",
        )),
        Files::Refused => Err(Fault::new(
            field,
            "names a file of the gateway, which objects of a cluster may not",
            "use a Secret, or set resources.allowFileReferences in the gateway's configuration",
        )),
    }
}

fn read_path(field: &str, path: &Path) -> Result<Vec<u8>, Fault> {
    let fault = |problem: String| Fault::new(field, problem, "check path and permissions");
    let unreadable =
        |error: std::io::Error| fault(format!("{} cannot be read: {error}", path.display()));
    // Whatever is no file (a pipe, say) could block for ever.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(fault(format!("{} is no file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size <= MAX_FILE_BYTES) {
        Ok(bytes)
    } else {
        Err(fault(format!(
            "{} has more than {MAX_FILE_BYTES} bytes",
            path.display()
        )))
    }
}

/// Accepts PEM as it is, and base64 of PEM.
fn pem(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_pem = |bytes: &[u8]| bytes.windows(11).any(|window| window == b"-----BEGIN ");
    if is_pem(bytes) {
        return Some(bytes.to_vec());
    }
    let compact: Vec<u8> = bytes
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    STANDARD.decode(compact).ok().filter(|bytes| is_pem(bytes))
}

fn certificates(field: &str, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let pem =
        pem(bytes).ok_or_else(|| Fault::new(field, "is neither PEM nor base64 of PEM", PEM))?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(pem),
        Ok(_) => Err(Fault::new(field, "holds no certificate", PEM)),
        Err(_) => Err(Fault::new(field, "holds broken PEM", PEM)),
    }
}

fn private_key(field: &str, bytes: &[u8]) -> Result<Redacted<Vec<u8>>, Fault> {
    let pem =
        pem(bytes).ok_or_else(|| Fault::new(field, "is neither PEM nor base64 of PEM", PEM))?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(_) => Ok(Redacted::new(pem)),
        Err(_) => Err(Fault::new(
            field,
            "holds no private key that can be used",
            PEM,
        )),
    }
}

fn token(field: &str, bytes: &[u8]) -> Result<Redacted<String>, Fault> {
    let text = std::str::from_utf8(bytes)
        .map(str::trim)
        .unwrap_or_default();
    let visible = |b: u8| b.is_ascii_graphic();
    if text.is_empty() || !text.bytes().all(visible) {
        let remedy = "store the token as it is sent, without quotes or line breaks";
        return Err(Fault::new(field, "holds no token", remedy));
    }
    Ok(Redacted::new(text.to_owned()))
}
