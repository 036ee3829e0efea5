//! `portcullis check`: reads configuration as a server would and prints every fault.
//!
//! A folder is read like `resources.directory`, and may hold gateway configurations besides. A
//! gateway configuration's own folder of clusters and certificate files are read too.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use portcullis_api::{GatewayConfiguration, gateway_configuration};
use portcullis_core::yaml::{self, Diagnostic, Document, Fault};
use portcullis_index::Candidate;
use portcullis_index::directory::{self, Inventory};

mod print;

/// Exit code: everything would be loaded.
pub const PASS: u8 = 0;
/// Exit code: something would not be loaded.
pub const LOAD_ERROR: u8 = 2;

/// How to print what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Lines for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// What was found.
#[derive(Debug, Default)]
struct Report {
    errors: Vec<Diagnostic>,
    /// Accepted, but not or not fully what was asked for.
    warnings: Vec<Diagnostic>,
    files: BTreeSet<String>,
    clusters: usize,
    gateways: usize,
}

/// Checks `paths`, prints the result to `out` and returns the exit code.
pub fn check(paths: &[PathBuf], output: Output, out: &mut dyn Write) -> u8 {
    let report = inspect(paths);
    let code = if report.errors.is_empty() {
        PASS
    } else {
        LOAD_ERROR
    };
    match print::print(&report, output, out) {
        Ok(()) => code,
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
        Err(_) => LOAD_ERROR,
    }
}

fn inspect(paths: &[PathBuf]) -> Report {
    let mut report = Report::default();
    // Gateway configurations first: they say how the rest is read.
    let mut folders = BTreeSet::new();
    let mut cross_namespace = false;
    for (document, folder) in gateways(paths) {
        report.gateways += 1;
        report.files.insert(document.file().to_owned());
        match gateway_configuration::decode(&document, &folder) {
            Ok(config) => {
                report.files_of(&config, &document);
                cross_namespace |= config.resources.allow_cross_namespace_references;
                folders.extend(config.resources.directory);
            }
            Err(found) => report.errors.extend(found),
        }
    }
    let mut inventory = Inventory::new(cross_namespace).with_gateways();
    for path in paths {
        if path.is_dir() {
            inventory.add_folder(path);
        } else {
            inventory.add_file(path);
        }
        folders.retain(|folder| !same(folder, path));
    }
    report.take(inventory);
    // A server reads its folder on its own: so do we.
    for folder in folders {
        let mut inventory = Inventory::new(cross_namespace);
        inventory.add_folder(&folder);
        report.take(inventory);
    }
    report
}

/// The gateway configurations among `paths`, as far as they can be read; what cannot be read is
/// found again with everything else.
fn gateways(paths: &[PathBuf]) -> Vec<(Document, PathBuf)> {
    let files = paths.iter().flat_map(|path| match path.is_dir() {
        true => directory::files(path).unwrap_or_default(),
        false => vec![path.clone()],
    });
    let mut found = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let bytes = directory::read_file(&file).unwrap_or_default();
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let documents = yaml::parse(&name, &bytes).unwrap_or_default();
        let gateway = documents.into_iter().filter(|document| {
            document.text("apiVersion") == Some(gateway_configuration::API_VERSION)
                && document.text("kind") == Some(gateway_configuration::KIND)
        });
        found.extend(gateway.map(|document| (document, folder.clone())));
    }
    found
}

impl Report {
    fn take(&mut self, inventory: Inventory) {
        let loaded = match inventory.finish() {
            Ok(loaded) => loaded,
            Err(found) => return self.errors.extend(found),
        };
        self.clusters += loaded.clusters.len();
        self.files.extend(loaded.files);
        for (candidate, document) in &loaded.clusters {
            self.warnings.extend(warnings(candidate).map(|text| {
                // The text begins with the field it is about.
                let place = document.place(field_of(&text));
                let fault = Fault::new("", text, "");
                Diagnostic {
                    file: document.file().to_owned(),
                    place: Some(place),
                    fault,
                }
            }));
        }
    }

    /// Whether the files that a gateway configuration names can be read.
    fn files_of(&mut self, config: &GatewayConfiguration, document: &Document) {
        let tls = &config.listen.tls;
        let files = [
            ("listen.tls.certFile", Some(&tls.cert_file)),
            ("listen.tls.keyFile", Some(&tls.key_file)),
            ("listen.tls.clientCAFile", tls.client_ca_file.as_ref()),
            ("resources.kubeconfig", config.resources.kubeconfig.as_ref()),
        ];
        for (field, path) in files {
            if let Some(error) = path.and_then(|path| fs::File::open(path).err()) {
                let path = path
                    .map(|path| path.display().to_string())
                    .unwrap_or_default();
                let message = format!("{path} cannot be read: {error}");
                let fault = Fault::new(field, message, "check path and permissions");
                self.errors.push(document.diagnose(fault));
            }
        }
    }
}

fn warnings(candidate: &Candidate) -> impl Iterator<Item = String> {
    candidate
        .unsupported
        .iter()
        .chain(&candidate.notices)
        .cloned()
}

/// The first `spec.…` of a text.
fn field_of(text: &str) -> &str {
    let from = text
        .find("spec.")
        .and_then(|at| text.get(at..))
        .unwrap_or_default();
    from.split([' ', ';', ':']).next().unwrap_or_default()
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests;
