//! The documents say what is true.
//!
//! Links lead somewhere, YAML is what `portcullis check` accepts, quoted files are quoted whole,
//! and the reference pages have every key, field and metric, and no other. Files that examples
//! name (`tls.crt`, `gateway.token`) are made up.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test; clippy knows only those of the usual harness"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_api::{gateway_configuration, proxy_kube_api};
use portcullis_cli::check::{self, Output, PASS};
use portcullis_core::Blame;
use portcullis_core::observer::{Observer, PoolEvent, RequestOutcome, Stage, VerbClass};
use portcullis_core::yaml;
use portcullis_telemetry::Metrics;
use serde_json::{Value, json};

#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/stand_ins.rs"]
mod stand_ins;

use markdown::{Block, blocks, headings, links, prose, rows};
use stand_ins::StandIns;

#[test]
fn blocks_marked_check_are_accepted() {
    let stand_ins = StandIns::new();
    let blocks = all_blocks("yaml check");
    assert!(!blocks.is_empty());
    for block in blocks {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("document.yaml");
        fs::write(&file, &block.text).unwrap();
        stand_ins.make_for(&file);
        let (code, output) = run_check(folder.path());
        assert_eq!(code, PASS, "{}: {output}", block.place);
    }
}

#[test]
fn blocks_that_quote_a_file_quote_it_whole() {
    let blocks = all_blocks("yaml file=");
    assert!(!blocks.is_empty());
    for block in blocks {
        let file = block.info.trim_start_matches("yaml file=");
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert_eq!(block.text, text, "{} is not {file}", block.place);
    }
}

#[test]
fn examples_are_accepted_without_a_warning() {
    let examples = root().join("examples");
    let (rbac, ours): (Vec<_>, Vec<_>) = files_below(&examples, "yaml")
        .into_iter()
        .partition(|file| file.starts_with(examples.join("rbac")));
    assert!(!rbac.is_empty() && !ours.is_empty());
    for file in &rbac {
        let parsed = yaml::parse(&file.display().to_string(), &fs::read(file).unwrap());
        assert!(parsed.is_ok(), "{}", file.display());
    }
    let copy = tempfile::tempdir().unwrap();
    let stand_ins = StandIns::new();
    let mut folders = BTreeSet::new();
    for file in &ours {
        let target = copy.path().join(file.strip_prefix(&examples).unwrap());
        let folder = target.parent().unwrap().to_owned();
        fs::create_dir_all(&folder).unwrap();
        fs::copy(file, &target).unwrap();
        stand_ins.make_for(&target);
        folders.insert(folder);
    }
    for folder in folders {
        let (code, output) = run_check(&folder);
        let clean = code == PASS && output.starts_with("0 errors, 0 warnings");
        assert!(clean, "{}: {output}", folder.display());
    }
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in documents() {
        for link in links(&prose(&file)) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => file.clone(),
                path => file.with_file_name("").join(path),
            };
            let found = heading.is_empty() || headings(&target).contains(heading);
            let elsewhere = link.contains("://");
            let broken = !target.exists() || !found;
            if broken && !elsewhere {
                wrong.push(format!("{}: {link}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_gateway_configuration_page_has_every_key_and_no_other() {
    let text = read("docs/reference/gateway-configuration.md");
    let example = blocks("the page", &text)
        .into_iter()
        .find(|b| b.info == "yaml check");
    let whole = document(&example.unwrap().text).value;
    let keys: BTreeSet<String> = leaves("", &whole).into_iter().collect();
    assert_eq!(
        keys,
        rows(&text).collect(),
        "the complete example and the tables"
    );
    // An unknown field is answered with those that are known.
    for pointer in mappings("", &whole) {
        let mut odd = whole.clone();
        let mapping = odd.pointer_mut(&pointer).unwrap().as_object_mut().unwrap();
        let here: BTreeSet<String> = mapping.keys().cloned().collect();
        mapping.insert("nobody-knows-this".to_owned(), json!(1));
        let odd = document(&odd.to_string());
        let faults = gateway_configuration::decode(&odd, Path::new(".")).unwrap_err();
        assert_eq!(faults[0].fault.message, "unknown field");
        assert_eq!(
            here,
            backquoted(&faults[0].fault.remedy),
            "keys of {pointer:?}"
        );
    }
}

#[test]
fn the_proxy_kube_api_page_has_every_field_and_no_other() {
    let text = read("docs/reference/proxykubeapi.md");
    let definition = proxy_kube_api::crd();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let mut fields = BTreeSet::new();
    for part in ["spec", "status"] {
        schema_fields(part, &schema[part], &mut fields);
    }
    for field in &fields {
        // A field is there by itself, or by a field in it.
        let there = |end| text.contains(&format!("`{field}{end}"));
        assert!(["`", ".", "["].iter().any(there), "no word of {field}");
    }
    for row in rows(&text).filter(|row| row.starts_with("spec.") || row.starts_with("status.")) {
        assert!(fields.contains(&row), "the CRD has no {row}");
    }
}

#[test]
fn the_metrics_page_has_every_metric_and_no_other() {
    let text = read("docs/reference/metrics.md");
    let encoded = everything_once().encode(false);
    let types = encoded
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let metrics: BTreeSet<_> = types
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    let ours = |row: &String| row.starts_with("portcullis_") || row.starts_with("process_");
    assert_eq!(metrics, rows(&text).filter(ours).collect());
}

/// Metrics after one of each fact: a family without a series is not shown.
fn everything_once() -> Metrics {
    let metrics = Metrics::new("0");
    metrics.set_clusters(["a/b"]);
    metrics.request_finished(&RequestOutcome {
        cluster: "a/b",
        class: Some(VerbClass::Read),
        code: 200,
        duration: Duration::ZERO,
        blame: Some(Blame::Client),
    });
    metrics.stage_finished(Stage::Forward, Duration::ZERO);
    metrics.streams_changed("a/b", VerbClass::Watch, 1);
    metrics.in_flight_changed(VerbClass::Read, 1);
    metrics.connections_changed(1);
    metrics.connection_refused("maxConnections");
    metrics.pool("a/b", PoolEvent::Opened);
    metrics.authentication("a/b", "token", "success", true);
    metrics.limited("a/b", "maxRequestsInFlight");
    metrics.reloaded("directory", true);
    metrics.clusters(1, 0, 0);
    metrics
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

fn document(text: &str) -> yaml::Document {
    yaml::parse("document", text.as_bytes()).unwrap().remove(0)
}

/// All Markdown files that people wrote.
fn documents() -> Vec<PathBuf> {
    let here = fs::read_dir(root()).unwrap();
    let here = here.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = here
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    for folder in ["docs", "examples", "testcluster"] {
        found.extend(files_below(&root().join(folder), "md"));
    }
    found
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found
}

/// The blocks of all documents whose info begins with `info`.
fn all_blocks(info: &str) -> Vec<Block> {
    let of = |file: &PathBuf| {
        blocks(
            &file.display().to_string(),
            &fs::read_to_string(file).unwrap(),
        )
    };
    let blocks = documents().iter().flat_map(of).collect::<Vec<_>>();
    blocks
        .into_iter()
        .filter(|block| block.info.starts_with(info))
        .collect()
}

/// Paths of the values that are no mappings.
fn leaves(path: &str, value: &Value) -> Vec<String> {
    let Some(entries) = value.as_object() else {
        return vec![path.to_owned()];
    };
    let dot = if path.is_empty() { "" } else { "." };
    entries
        .iter()
        .flat_map(|(key, value)| leaves(&format!("{path}{dot}{key}"), value))
        .collect()
}

/// JSON pointers of `value` and the mappings in it.
fn mappings(pointer: &str, value: &Value) -> Vec<String> {
    let Some(entries) = value.as_object() else {
        return Vec::new();
    };
    let inner = entries
        .iter()
        .flat_map(|(key, value)| mappings(&format!("{pointer}/{key}"), value));
    std::iter::once(pointer.to_owned()).chain(inner).collect()
}

fn backquoted(text: &str) -> BTreeSet<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Parts of the schema that occur in several places and are described once.
const DESCRIBED_ONCE: [&str; 7] = [
    "Secret",
    "ConfigMap",
    "File",
    "allowed_ressources",
    "list_fallback_token",
    "spec.client_cert.cert",
    "spec.client_cert.key",
];

fn schema_fields(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    let last = path.rsplit('.').next().unwrap_or_default();
    if DESCRIBED_ONCE.contains(&last) || DESCRIBED_ONCE.contains(&path) {
        return;
    }
    let items = format!("{path}[]");
    for (path, schema) in [(path, schema), (&items, &schema["items"])] {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            schema_fields(&format!("{path}.{name}"), schema, found);
        }
    }
}

fn run_check(path: &Path) -> (u8, String) {
    let mut output = Vec::new();
    let code = check::check(&[path.to_owned()], Output::Table, &mut output);
    (code, String::from_utf8(output).unwrap())
}
