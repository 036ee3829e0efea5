//! Certificates and keys, and where they stand.

use std::path::PathBuf;

use portcullis_core::Redacted;
use serde::Deserialize;

/// `spec.cert`: which server certificates of the target are believed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Certificate {
    /// Authorities from a Secret.
    Secret(KeyReference),
    /// Authorities, PEM or base64 of PEM.
    Cert(Inline),
    /// Authorities from a ConfigMap.
    ConfigMap(KeyReference),
    /// Authorities from a file of the gateway.
    File(FileReference),
    /// `true` = anything is believed; `false` = the system's authorities.
    Insecure(bool),
    /// `true` = the system's authorities.
    SystemRoots(bool),
}

/// `spec.client_cert`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// Certificate chain.
    pub cert: Material,
    /// Private key.
    pub key: Material,
}

/// PEM text, and where it stands.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Material {
    /// In a Secret.
    Secret(KeyReference),
    /// Here, PEM or base64 of PEM.
    Cert(Inline),
    /// In a ConfigMap.
    ConfigMap(KeyReference),
    /// In a file of the gateway.
    File(FileReference),
}

/// One value of a Secret or ConfigMap.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub struct KeyReference {
    /// The object's name.
    pub name: String,
    /// Key of its data.
    pub key: String,
    /// Its namespace; absent = that of the `ProxyKubeApi`.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A file of the gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileReference {
    /// Its path.
    pub path: PathBuf,
}

/// Text that is written right there; a private key may be in it, so it is never printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub struct Inline(pub Redacted<String>);

impl From<String> for Inline {
    fn from(text: String) -> Self {
        Self(Redacted::new(text))
    }
}
