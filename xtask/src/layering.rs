//! Which crate may depend on which.
//!
//! Invariant: domain crates decide without I/O, so they know no runtime, no HTTP stack and no
//! cluster client; faces do not know each other; only `runtime` sees them all. Dev-dependencies are
//! exempt: a test may use what it likes.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::{Findings, output};

/// Where the reader of a failure finds [`ALLOWED`].
const TABLE: &str = "ALLOWED in xtask/src/layering.rs";

/// Every crate and what it may depend on. `@domain` and `@crates` stand for sets of crates.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("cel", &["core"]),
    ("schema", &["core"]),
    ("tenancy", &["core"]),
    ("virtual-api", &["core"]),
    ("authn", &["core"]),
    ("authz", &["core"]),
    ("audit", &["core"]),
    ("api", &["core"]),
    ("admission", &["core", "cel", "schema", "authz"]),
    ("index", &["@domain"]),
    ("controller", &["index", "api", "core"]),
    ("gateway", &["@domain", "index"]),
    ("webhook", &["@domain", "index"]),
    ("dashboard", &["@domain", "index"]),
    ("sandbox", &["@domain", "index"]),
    ("telemetry", &["core"]),
    // The loader of files, which the server uses too; its live sources are behind a feature.
    ("cli", &["@domain", "index"]),
    ("runtime", &["@crates"]),
    ("portcullis", &["runtime", "cli"]),
    ("kubectl-portcullis", &["runtime", "cli"]),
    ("integration", &["@crates"]),
    ("xtask", &[]),
];

/// Decide without I/O.
const DOMAIN: &[&str] = &[
    "core",
    "cel",
    "schema",
    "admission",
    "tenancy",
    "virtual-api",
    "authn",
    "authz",
    "audit",
    "api",
];
const NO_IO: &[&str] = &[
    "tokio",
    "tokio-rustls",
    "async-std",
    "smol",
    "hyper",
    "hyper-util",
    "hyper-rustls",
    "h2",
    "tower",
    "reqwest",
    "kube",
    "kube-client",
    "kube-runtime",
    "rustls",
    "notify",
];
/// What `cli` reaches only through `runtime`.
const NO_CLUSTER: &[&str] = &[
    "hyper",
    "hyper-util",
    "hyper-rustls",
    "h2",
    "reqwest",
    "kube",
    "kube-client",
    "kube-runtime",
];

/// Feature of `index` that brings the cluster client.
const LIVE: &str = "sources";

/// The part of `cargo metadata` that counts here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    /// Set for crates of this workspace.
    path: Option<String>,
    #[serde(default)]
    features: Vec<String>,
}

pub(crate) fn run(root: &Path) -> Result<Findings, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root);
    let metadata: Metadata = serde_json::from_slice(&output(&mut command)?)
        .map_err(|error| format!("the answer of cargo metadata: {error}"))?;
    Ok(Findings {
        wrong: check(&metadata.packages),
        notes: Vec::new(),
    })
}

fn check(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let name = short(&package.name);
        let Some((_, allowed)) = ALLOWED.iter().find(|(row, _)| *row == name) else {
            wrong.push(format!(
                "{name}: no such crate in the table; add a row to {TABLE}"
            ));
            continue;
        };
        let dependencies = package
            .dependencies
            .iter()
            .filter(|d| d.kind.as_deref() != Some("dev"));
        for dependency in dependencies {
            let to = short(&dependency.name);
            let live = dependency.features.iter().any(|f| f == LIVE);
            let refusal = if name == "cli" && live {
                Some(format!(
                    "cli reads files, not live sources: no feature {LIVE:?}"
                ))
            } else if dependency.path.is_some() {
                (!allowed.iter().any(|entry| covers(entry, to)))
                    .then(|| format!("the table allows it [{}]", allowed.join(", ")))
            } else if DOMAIN.contains(&name) && NO_IO.contains(&to) {
                Some("a domain crate performs no I/O".to_owned())
            } else if name == "cli" && NO_CLUSTER.contains(&to) {
                Some("cli reaches clusters only through runtime".to_owned())
            } else {
                None
            };
            if let Some(reason) = refusal {
                wrong.push(format!(
                    "{name} must not depend on {to}: {reason}; see {TABLE}"
                ));
            }
        }
    }
    wrong
}

/// Whether an entry of the table stands for the crate `to`.
fn covers(entry: &str, to: &str) -> bool {
    match entry {
        "@domain" => DOMAIN.contains(&to),
        "@crates" => {
            ALLOWED.iter().any(|(row, _)| *row == to) && !matches!(to, "integration" | "xtask")
        }
        name => name == to,
    }
}

/// The folder's name, which is also the word the table uses.
fn short(package: &str) -> &str {
    package.strip_prefix("portcullis-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn edge(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let dependency = Dependency {
            name: to.to_owned(),
            kind: kind.map(str::to_owned),
            path: to.starts_with("portcullis-").then(|| "x".to_owned()),
            features: Vec::new(),
        };
        check(&[Package {
            name: from.to_owned(),
            dependencies: vec![dependency],
        }])
    }

    #[test]
    fn cli_takes_the_loader_of_files_and_not_the_live_sources() {
        let index = |features: &[&str]| Package {
            name: "portcullis-cli".to_owned(),
            dependencies: vec![Dependency {
                name: "portcullis-index".to_owned(),
                kind: None,
                path: Some("x".to_owned()),
                features: features.iter().map(ToString::to_string).collect(),
            }],
        };
        assert!(check(&[index(&[])]).is_empty());
        assert_eq!(check(&[index(&[LIVE])]).len(), 1);
    }

    #[rstest]
    #[case("portcullis-authz", "portcullis-core")]
    #[case("portcullis-admission", "portcullis-cel")]
    #[case("portcullis-index", "portcullis-api")]
    #[case("portcullis-gateway", "portcullis-index")]
    #[case("portcullis-gateway", "tokio")]
    #[case("portcullis-runtime", "portcullis-gateway")]
    #[case("portcullis", "portcullis-cli")]
    #[case("integration", "portcullis-telemetry")]
    #[case("portcullis-cli", "portcullis-authz")]
    #[case("portcullis-core", "serde")]
    fn allowed(#[case] from: &str, #[case] to: &str) {
        assert_eq!(edge(from, to, None), Vec::<String>::new());
    }

    #[rstest]
    #[case("portcullis-core", "portcullis-api", "core must not depend on api")]
    #[case(
        "portcullis-authz",
        "portcullis-authn",
        "authz must not depend on authn"
    )]
    #[case(
        "portcullis-gateway",
        "portcullis-webhook",
        "gateway must not depend on webhook"
    )]
    #[case(
        "portcullis-gateway",
        "portcullis-telemetry",
        "gateway must not depend on telemetry"
    )]
    #[case(
        "portcullis-telemetry",
        "portcullis-index",
        "the table allows it [core]"
    )]
    #[case(
        "portcullis",
        "portcullis-gateway",
        "the table allows it [runtime, cli]"
    )]
    #[case("portcullis-core", "tokio", "a domain crate performs no I/O")]
    #[case("portcullis-api", "kube", "a domain crate performs no I/O")]
    #[case("portcullis-cli", "hyper", "cli reaches clusters only through runtime")]
    #[case("portcullis-gadgets", "serde", "gadgets: no such crate in the table")]
    fn refused(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        let wrong = edge(from, to, None);
        let [wrong] = wrong.as_slice() else {
            panic!("{wrong:?}")
        };
        assert!(wrong.contains(message) && wrong.contains(TABLE), "{wrong}");
    }

    #[test]
    fn only_dev_dependencies_are_exempt() {
        assert!(edge("portcullis-core", "tokio", Some("dev")).is_empty());
        assert_eq!(edge("portcullis-core", "tokio", Some("build")).len(), 1);
    }

    #[test]
    fn the_table_speaks_of_crates_it_has() {
        let known =
            |name: &str| name.starts_with('@') || ALLOWED.iter().any(|(row, _)| *row == name);
        for name in ALLOWED
            .iter()
            .flat_map(|(_, allowed)| *allowed)
            .chain(DOMAIN)
        {
            assert!(known(name), "{name} has no row");
        }
    }
}
