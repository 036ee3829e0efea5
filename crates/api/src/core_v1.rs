//! Secrets and ConfigMaps that stand beside `ProxyKubeApi` files and hold what these refer to.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_core::Redacted;
use portcullis_core::yaml::Fault;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::metadata::ObjectMeta;
use crate::names;

/// Counterpart: `corev1.Secret`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Secret {
    #[serde(rename = "apiVersion")]
    _api_version: CoreV1,
    #[serde(rename = "kind")]
    _kind: SecretKind,
    /// Name and namespace.
    pub metadata: ObjectMeta,
    #[serde(default)]
    data: Option<BTreeMap<String, SecretValue>>,
    #[serde(default)]
    string_data: Option<BTreeMap<String, SecretValue>>,
    #[serde(default, rename = "type")]
    _type: Option<IgnoredAny>,
    #[serde(default, rename = "immutable")]
    _immutable: Option<bool>,
}

/// Text that `Debug` does not show.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
struct SecretValue(Redacted<String>);

impl From<String> for SecretValue {
    fn from(text: String) -> Self {
        Self(Redacted::new(text))
    }
}

impl Secret {
    /// The decoded values; `stringData` wins over `data`, as in the API server.
    ///
    /// # Errors
    /// Values that are not base64 and keys that are no keys, all of them.
    pub fn values(&self) -> Result<BTreeMap<String, Redacted<Vec<u8>>>, Vec<Fault>> {
        let mut faults = self.metadata.validate();
        let mut values = BTreeMap::new();
        for (key, SecretValue(value)) in self.data.iter().flatten() {
            check_key("data", key, &mut faults);
            match STANDARD.decode(value.reveal()) {
                Ok(bytes) => _ = values.insert(key.clone(), Redacted::new(bytes)),
                Err(_) => faults.push(Fault::new(
                    format!("data.{key}"),
                    "is not base64",
                    "encode it, or put the text under stringData",
                )),
            }
        }
        for (key, SecretValue(value)) in self.string_data.iter().flatten() {
            check_key("stringData", key, &mut faults);
            values.insert(
                key.clone(),
                Redacted::new(value.reveal().clone().into_bytes()),
            );
        }
        if faults.is_empty() {
            Ok(values)
        } else {
            Err(faults)
        }
    }
}

/// Counterpart: `corev1.ConfigMap`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMap {
    #[serde(rename = "apiVersion")]
    _api_version: CoreV1,
    #[serde(rename = "kind")]
    _kind: ConfigMapKind,
    /// Name and namespace.
    pub metadata: ObjectMeta,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "immutable")]
    _immutable: Option<bool>,
}

impl ConfigMap {
    /// The decoded values.
    ///
    /// # Errors
    /// Values of `binaryData` that are not base64, keys that are no keys or given twice.
    pub fn values(&self) -> Result<BTreeMap<String, Vec<u8>>, Vec<Fault>> {
        let mut faults = self.metadata.validate();
        let mut values = BTreeMap::new();
        for (key, value) in self.data.iter().flatten() {
            check_key("data", key, &mut faults);
            values.insert(key.clone(), value.clone().into_bytes());
        }
        for (key, value) in self.binary_data.iter().flatten() {
            check_key("binaryData", key, &mut faults);
            let field = || format!("binaryData.{key}");
            match STANDARD.decode(value) {
                Ok(bytes) => {
                    if values.insert(key.clone(), bytes).is_some() {
                        faults.push(Fault::new(
                            field(),
                            "stands in data too",
                            "remove one of the two",
                        ));
                    }
                }
                Err(_) => faults.push(Fault::new(
                    field(),
                    "is not base64",
                    "encode it, or put the text under data",
                )),
            }
        }
        if faults.is_empty() {
            Ok(values)
        } else {
            Err(faults)
        }
    }
}

fn check_key(parent: &str, key: &str, faults: &mut Vec<Fault>) {
    if !names::is_data_key(key) {
        let remedy = "use letters, digits, '-', '_' and '.'";
        faults.push(Fault::new(format!("{parent}.{key}"), "is no key", remedy));
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum CoreV1 {
    #[serde(rename = "v1")]
    V1,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum SecretKind {
    Secret,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum ConfigMapKind {
    ConfigMap,
}

#[cfg(test)]
mod tests {
    use portcullis_core::yaml::{decode, parse};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
        decode(&parse("f", text.as_bytes()).unwrap()[0]).unwrap()
    }

    #[test]
    fn a_secret_is_decoded_and_never_printed() {
        let secret: Secret = read(
            "apiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata: {name: a, uid: x, managedFields: [{}]}\n\
             data: {a: czNjcmV0, b: b2xk}\nstringData: {b: s3cret}",
        );
        let values = secret.values().unwrap();
        assert_eq!(values["a"].reveal(), b"s3cret");
        assert_eq!(values["b"].reveal(), b"s3cret");
        let printed = format!("{secret:?} {values:?}");
        assert!(
            !printed.contains("s3cret") && !printed.contains("czNjcmV0"),
            "{printed}"
        );
    }

    #[test]
    fn faults_of_values_are_all_named() {
        let secret: Secret = read(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: A, namespace: a.b}\ndata: {a: '%', 'b/c': ''}",
        );
        let fields: Vec<_> = secret
            .values()
            .unwrap_err()
            .into_iter()
            .map(|f| f.field)
            .collect();
        assert_eq!(
            fields,
            ["metadata.name", "metadata.namespace", "data.a", "data.b/c"]
        );
        let map: ConfigMap = read(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: x}\nbinaryData: {a: eA==, b: '%'}",
        );
        let fields: Vec<_> = map
            .values()
            .unwrap_err()
            .into_iter()
            .map(|f| f.field)
            .collect();
        assert_eq!(fields, ["binaryData.a", "binaryData.b"]);
    }

    #[test]
    fn a_config_map_holds_text_and_bytes() {
        let map: ConfigMap = read(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: x}\nbinaryData: {b: /w==}",
        );
        let values = map.values().unwrap();
        assert_eq!(
            (&values["a"][..], &values["b"][..]),
            (&b"x"[..], &[0xff][..])
        );
    }
}
