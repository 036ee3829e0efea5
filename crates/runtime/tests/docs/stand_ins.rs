//! What examples name and nobody wants in a repository: certificates, keys, tokens.

use std::fs;
use std::path::Path;

use portcullis_core::yaml;
use serde_json::{Value, json};

/// Makes the files and objects that a document names, so that only what it says is checked.
pub(crate) struct StandIns {
    /// A certificate and its key: enough for whatever wants one of them.
    pem: String,
}

impl StandIns {
    pub(crate) fn new() -> Self {
        let pair = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
        Self {
            pem: pair.cert.pem() + &pair.signing_key.serialize_pem(),
        }
    }

    pub(crate) fn make_for(&self, file: &Path) {
        let documents = yaml::parse(&file.display().to_string(), &fs::read(file).unwrap());
        let mut objects = Vec::new();
        for document in documents.unwrap() {
            let own = document.value["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default");
            self.visit(file, own, ("", ""), &document.value, &mut objects);
        }
        for (index, object) in objects.iter().enumerate() {
            let beside = file.with_extension(format!("{index}.json"));
            fs::write(beside, object.to_string()).unwrap();
        }
    }

    /// `within` is the key of the value, and that of the mapping around it.
    fn visit(
        &self,
        file: &Path,
        own: &str,
        within: (&str, &str),
        value: &Value,
        objects: &mut Vec<Value>,
    ) {
        match value {
            Value::String(name) if within.0 == "directory" => {
                fs::create_dir_all(file.with_file_name(name)).unwrap();
            }
            Value::String(name) => {
                if let Some(content) = self.content_of(name) {
                    fs::write(file.with_file_name(name), content).unwrap();
                }
            }
            Value::Object(reference) if matches!(within.0, "Secret" | "ConfigMap") => {
                let content = if within.1 == "Token" {
                    "token"
                } else {
                    &self.pem
                };
                let data = if within.0 == "Secret" {
                    "stringData"
                } else {
                    "data"
                };
                let metadata = json!({ "name": reference["name"], "namespace": own });
                let values = json!({ reference["key"].as_str().unwrap(): content });
                objects.push(json!({ "apiVersion": "v1", "kind": within.0, "metadata": metadata, data: values }));
            }
            Value::Object(entries) => {
                for (key, value) in entries {
                    self.visit(file, own, (key, within.0), value, objects);
                }
            }
            _ => {}
        }
    }

    fn content_of(&self, file: &str) -> Option<&str> {
        match file.rsplit_once('.')?.1 {
            "crt" | "key" => Some(&self.pem),
            "token" => Some("token"),
            "kubeconfig" => Some(""),
            _ => None,
        }
    }
}
