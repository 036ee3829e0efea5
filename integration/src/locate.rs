//! Where the programs under test are.
//!
//! Purpose: find the binaries that other parts of the repository build, or say how to build them.
//! Invariant: an environment variable wins over the usual place.

use std::path::{Path, PathBuf};

use crate::{Context, Failure, Result};

/// The control plane: `PORTCULLIS_TESTCLUSTER`, or `target/testcluster/testcluster`.
///
/// # Errors
/// When it has not been built.
pub fn testcluster() -> Result<PathBuf> {
    let usual = workspace().join("target/testcluster/testcluster");
    find(
        "PORTCULLIS_TESTCLUSTER",
        usual,
        "run `make testcluster` first",
    )
}

/// The real kubectl: `PORTCULLIS_KUBECTL`, or the one built beside the control plane.
///
/// # Errors
/// When it has not been built.
pub fn kubectl() -> Result<PathBuf> {
    let beside = testcluster().map_or_else(
        |_| PathBuf::from("kubectl"),
        |t| t.with_file_name("kubectl"),
    );
    find("PORTCULLIS_KUBECTL", beside, "run `make testcluster` first")
}

/// The gateway: `PORTCULLIS_BIN`, or `portcullis` beside the running program (same profile).
///
/// # Errors
/// When it has not been built.
pub fn portcullis() -> Result<PathBuf> {
    let me = std::env::current_exe().context("finding the running program")?;
    // Tests run from `deps/`, the rig and the demo from the profile's own folder.
    let folder = me.parent().map(|p| {
        if p.ends_with("deps") {
            p.parent().unwrap_or(p)
        } else {
            p
        }
    });
    let usual = folder.unwrap_or(Path::new(".")).join("portcullis");
    find(
        "PORTCULLIS_BIN",
        usual,
        "run `cargo build --bin portcullis` first (same profile)",
    )
}

/// The root of the repository.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn find(variable: &str, usual: PathBuf, remedy: &str) -> Result<PathBuf> {
    let path = std::env::var_os(variable).map_or(usual, PathBuf::from);
    if path.is_file() {
        return Ok(path);
    }
    let message = format!(
        "{} is not there: {remedy}, or set {variable}",
        path.display()
    );
    Err(Failure::new(message))
}
