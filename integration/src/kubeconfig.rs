//! Kubeconfig files for the clients under test.
//!
//! Purpose: write what a person would have in `~/.kube/config` to reach a cluster, directly or
//! through the gateway.
//! Upstream counterpart: `k8s.io/client-go/tools/clientcmd/api/v1`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::control_plane::User;
use crate::scratch::Scratch;
use crate::{Context, Result};

/// How a client proves who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// No credential at all.
    None,
    /// A bearer token.
    Token(String),
    /// A client certificate and its key.
    ClientCertificate {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
    },
}

impl Credential {
    /// The user's token.
    pub fn token(user: &User) -> Self {
        Self::Token(user.token.clone())
    }

    /// The user's client certificate.
    pub fn certificate(user: &User) -> Self {
        Self::ClientCertificate {
            cert: user.cert_file.clone(),
            key: user.key_file.clone(),
        }
    }
}

/// One context of a kubeconfig: an address, an authority, a credential, a namespace.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name of the context, of its cluster and of its user.
    pub name: String,
    /// The server's URL, path included.
    pub server: String,
    /// The authority to trust.
    pub ca_file: PathBuf,
    /// Who calls.
    pub credential: Credential,
    /// The namespace used when the command names none.
    pub namespace: String,
}

/// Writes a kubeconfig with the given contexts; the first one is current.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, entries: &[Entry]) -> Result<()> {
    let list = |f: fn(&Entry) -> Value| entries.iter().map(f).collect::<Vec<_>>();
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": entries.first().map(|e| e.name.as_str()),
        "clusters": list(|e| json!({
            "name": e.name,
            "cluster": {"server": e.server, "certificate-authority": e.ca_file},
        })),
        "users": list(|e| json!({"name": e.name, "user": user(&e.credential)})),
        "contexts": list(|e| json!({
            "name": e.name,
            "context": {"cluster": e.name, "user": e.name, "namespace": e.namespace},
        })),
    });
    std::fs::write(path, format!("{document:#}\n")).context(format!("writing {}", path.display()))
}

/// Writes a kubeconfig with one context into `scratch` and returns its path.
///
/// # Errors
/// When the file cannot be written.
pub fn one(scratch: &Scratch, entry: Entry) -> Result<PathBuf> {
    let path = scratch.path().join(format!("{}.kubeconfig", entry.name));
    write(&path, &[entry])?;
    Ok(path)
}

fn user(credential: &Credential) -> Value {
    match credential {
        Credential::None => json!({}),
        Credential::Token(token) => json!({"token": token}),
        Credential::ClientCertificate { cert, key } => {
            json!({"client-certificate": cert, "client-key": key})
        }
    }
}
