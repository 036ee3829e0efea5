//! Clusters from a folder of files.
//!
//! Purpose: `ProxyKubeApi`, `Secret` and `ConfigMap` documents of all `*.yaml`, `*.yml` and
//! `*.json` files of one folder, not of folders in it, read in the order of their names.
//! Invariant: all or nothing: one fault anywhere refuses the whole folder. Bounded in files and
//! bytes. Links are followed, as mounted ConfigMaps need it; loops are refused by the system.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use portcullis_core::yaml::{Diagnostic, MAX_BYTES};

use crate::candidate::Candidate;

mod inventory;

pub use inventory::{Inventory, Loaded};

/// Most files of a folder.
pub const MAX_FILES: usize = 4096;
/// Most bytes of all files of a folder.
pub const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Reads a whole folder.
///
/// # Errors
/// Every fault that was found.
pub fn load(folder: &Path, cross_namespace: bool) -> Result<Vec<Candidate>, Vec<Diagnostic>> {
    let mut inventory = Inventory::new(cross_namespace);
    inventory.add_folder(folder);
    let loaded = inventory.finish()?;
    Ok(loaded
        .clusters
        .into_iter()
        .map(|(candidate, _)| candidate)
        .collect())
}

/// The files of a folder that are read, sorted by name.
///
/// # Errors
/// That the folder cannot be read, or has too many files.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let fault = |message: String, remedy: &str| {
        Diagnostic::of_file(folder.display().to_string(), message, remedy)
    };
    let unreadable = |error: std::io::Error| {
        fault(
            format!("the folder cannot be read: {error}"),
            "check path and permissions",
        )
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let known = |ext: &std::ffi::OsStr| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|known| ext.eq_ignore_ascii_case(known))
        };
        if !hidden && path.extension().is_some_and(known) {
            found.push(path);
        }
        if found.len() > MAX_FILES {
            return Err(fault(
                format!("the folder has more than {MAX_FILES} files"),
                "use fewer",
            ));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file that must not be larger than a document may be.
///
/// # Errors
/// That it cannot be read, is no file or is too large.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    let fault = |message: String, remedy: &str| {
        Diagnostic::of_file(path.display().to_string(), message, remedy)
    };
    let unreadable = |error: std::io::Error| {
        fault(
            format!("cannot be read: {error}"),
            "check path and permissions",
        )
    };
    // Whatever is no file (a pipe, say) could block for ever.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(fault("is no file".to_owned(), "remove it from the folder"));
    }
    let limit = u64::try_from(MAX_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
