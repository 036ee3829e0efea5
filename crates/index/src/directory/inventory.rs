//! The objects of a set of files, and what they make together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use portcullis_api::{ConfigMap, ProxyKubeApi, Secret, gateway_configuration, proxy_kube_api};
use portcullis_core::yaml::{self, Diagnostic, Document, Fault};
use serde::de::DeserializeOwned;

use super::{MAX_TOTAL_BYTES, files, read_file};
use crate::candidate::Candidate;
use crate::resolve::{ConfigMapValues, Files, Policy, References, SecretValues, ServicePorts};

/// Most faults that are reported at once.
const MAX_DIAGNOSTICS: usize = 200;

type Name = (String, String);

/// Collects files; [`Inventory::finish`] makes clusters of them.
pub struct Inventory {
    cross_namespace: bool,
    clusters: Vec<Object>,
    secrets: BTreeMap<Name, SecretValues>,
    config_maps: BTreeMap<Name, ConfigMapValues>,
    files: Vec<String>,
    gateways: bool,
    /// Where each object stands, by kind, namespace and name.
    origins: BTreeMap<(&'static str, Name), String>,
    bytes: usize,
    diagnostics: Vec<Diagnostic>,
}

struct Object {
    document: Document,
    folder: PathBuf,
    object: ProxyKubeApi,
}

/// What a set of files makes.
#[derive(Debug)]
pub struct Loaded {
    /// Clusters, in the order of the files, and where each stands.
    pub clusters: Vec<(Candidate, Document)>,
    /// The files that were read.
    pub files: Vec<String>,
}

impl Inventory {
    /// An empty inventory of cluster objects.
    #[must_use]
    pub fn new(cross_namespace: bool) -> Self {
        Self {
            cross_namespace,
            clusters: Vec::new(),
            secrets: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            files: Vec::new(),
            gateways: false,
            origins: BTreeMap::new(),
            bytes: 0,
            diagnostics: Vec::new(),
        }
    }

    /// Leaves out `GatewayConfiguration` documents, which are a fault otherwise.
    #[must_use]
    pub fn with_gateways(self) -> Self {
        Self {
            gateways: true,
            ..self
        }
    }

    /// Adds the files of a folder.
    pub fn add_folder(&mut self, folder: &Path) {
        match files(folder) {
            Ok(files) => files.iter().for_each(|file| self.add_file(file)),
            Err(diagnostic) => self.diagnostics.push(diagnostic),
        }
    }

    /// Adds all documents of a file.
    pub fn add_file(&mut self, path: &Path) {
        let file = path.display().to_string();
        let bytes = match read_file(path) {
            Ok(bytes) => bytes,
            Err(diagnostic) => return self.diagnostics.push(diagnostic),
        };
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MAX_TOTAL_BYTES {
            let message = format!("with this file there are more than {MAX_TOTAL_BYTES} bytes");
            return self
                .diagnostics
                .push(Diagnostic::of_file(file, message, "use fewer files"));
        }
        self.files.push(file.clone());
        let folder = path.parent().unwrap_or(Path::new(""));
        match yaml::parse(&file, &bytes) {
            Ok(documents) => documents
                .into_iter()
                .for_each(|doc| self.add_document(doc, folder)),
            Err(found) => self.diagnostics.extend(found),
        }
    }

    fn add_document(&mut self, document: Document, folder: &Path) {
        let api_version = document.text("apiVersion").unwrap_or_default();
        let kind = document.text("kind").unwrap_or_default();
        match (api_version, kind) {
            (proxy_kube_api::API_VERSION, proxy_kube_api::KIND) => {
                if let Some(object) = self.decode::<ProxyKubeApi>(&document) {
                    let name = (
                        object.metadata.namespace().to_owned(),
                        object.metadata.name.clone(),
                    );
                    self.claim(proxy_kube_api::KIND, name, &document);
                    self.clusters.push(Object {
                        document,
                        folder: folder.to_owned(),
                        object,
                    });
                }
            }
            ("v1", "Secret") => {
                if let Some(secret) = self.decode::<Secret>(&document) {
                    let name = (
                        secret.metadata.namespace().to_owned(),
                        secret.metadata.name.clone(),
                    );
                    self.claim("Secret", name.clone(), &document);
                    match secret.values() {
                        Ok(values) => _ = self.secrets.insert(name, values),
                        Err(faults) => self.report(&document, faults),
                    }
                }
            }
            ("v1", "ConfigMap") => {
                if let Some(map) = self.decode::<ConfigMap>(&document) {
                    let name = (
                        map.metadata.namespace().to_owned(),
                        map.metadata.name.clone(),
                    );
                    self.claim("ConfigMap", name.clone(), &document);
                    match map.values() {
                        Ok(values) => _ = self.config_maps.insert(name, values),
                        Err(faults) => self.report(&document, faults),
                    }
                }
            }
            (gateway_configuration::API_VERSION, gateway_configuration::KIND) if self.gateways => {}
            _ => {
                let fault = self.unknown_kind(&document);
                self.report(&document, vec![fault]);
            }
        }
    }

    fn unknown_kind(&self, document: &Document) -> Fault {
        let gateway = if self.gateways {
            ", GatewayConfiguration of portcullis.dev/v1alpha1"
        } else {
            ""
        };
        let remedy = format!(
            "known here: ProxyKubeApi of weebo.si.rs/v1, Secret and ConfigMap of v1{gateway}"
        );
        match document.text("kind") {
            None => Fault::new("kind", "is required", remedy),
            Some(_) => Fault::new("kind", "this kind has no meaning here", remedy),
        }
    }

    fn decode<T: DeserializeOwned>(&mut self, document: &Document) -> Option<T> {
        yaml::decode(document)
            .map_err(|found| self.diagnostics.extend(found))
            .ok()
    }

    /// Reports a second object of the same name.
    fn claim(&mut self, kind: &'static str, name: Name, document: &Document) {
        let place = document.place("metadata.name");
        let here = format!("{}:{}", document.file(), place.line);
        if let Some(first) = self.origins.insert((kind, name), here) {
            let message = format!("another {kind} of this name stands at {first}");
            self.report(
                document,
                vec![Fault::new(
                    "metadata.name",
                    message,
                    "remove one of the two",
                )],
            );
        }
    }

    fn report(&mut self, document: &Document, faults: Vec<Fault>) {
        self.diagnostics
            .extend(faults.into_iter().map(|fault| document.diagnose(fault)));
    }

    /// Resolves all clusters.
    ///
    /// # Errors
    /// Every fault of every file, up to a limit.
    pub fn finish(mut self) -> Result<Loaded, Vec<Diagnostic>> {
        let mut candidates = Vec::new();
        let mut hosts = BTreeMap::new();
        for Object {
            document,
            folder,
            object,
        } in std::mem::take(&mut self.clusters)
        {
            let policy = Policy {
                cross_namespace: self.cross_namespace,
                files: Files::In(&folder),
            };
            match Candidate::new(&object, &policy, &self) {
                Ok(candidate) => candidates.push((candidate, document)),
                Err(faults) => self.report(&document, faults),
            }
        }
        for (candidate, document) in &candidates {
            for (index, host) in candidate.config.hosts.iter().enumerate() {
                let key = &candidate.config.key;
                if let Some(other) = hosts.insert(host.clone(), key) {
                    let message = format!("is a host name of {other} too");
                    let field = format!("spec.hosts[{index}]");
                    let fault = Fault::new(field, message, "remove one of the two");
                    self.diagnostics.push(document.diagnose(fault));
                }
            }
        }
        if !self.diagnostics.is_empty() {
            self.diagnostics.truncate(MAX_DIAGNOSTICS);
            return Err(self.diagnostics);
        }
        Ok(Loaded {
            clusters: candidates,
            files: self.files,
        })
    }
}

impl References for Inventory {
    fn secret(&self, namespace: &str, name: &str) -> Result<&SecretValues, String> {
        find(&self.secrets, "Secret", namespace, name)
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<&ConfigMapValues, String> {
        find(&self.config_maps, "ConfigMap", namespace, name)
    }

    fn service(&self, _: &str, _: &str) -> Result<Option<&ServicePorts>, String> {
        Ok(None)
    }
}

fn find<'v, V>(
    values: &'v BTreeMap<Name, V>,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<&'v V, String> {
    values
        .get(&(namespace.to_owned(), name.to_owned()))
        .ok_or_else(|| format!("no file holds the {kind} {namespace}/{name}"))
}
