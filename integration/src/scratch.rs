//! Folders for what a run writes.
//!
//! Purpose: one folder per use below `target/it`, gone when its handle goes.
//! Invariant: a folder whose process no longer lives is swept by the next run, so instances that
//! are shared for a whole process (and so never dropped) leave nothing behind for long.
//! `PORTCULLIS_KEEP=1` keeps everything, to look at logs after a failure.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Context, Result};

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a fresh folder; `purpose` becomes part of its name.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(purpose: &str) -> Result<Self> {
        static SWEEP: Once = Once::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = root();
        SWEEP.call_once(|| sweep(&root));
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root
            .join(std::process::id().to_string())
            .join(format!("{number}-{purpose}"));
        std::fs::create_dir_all(&path).context(format!("making {}", path.display()))?;
        Ok(Self { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into the folder and returns its path.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::write(&path, content).context(format!("writing {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !keep() {
            // A child that is still writing must not turn a passed test into a failed one.
            let _ = std::fs::remove_dir_all(&self.path);
            let _ = self.path.parent().map(std::fs::remove_dir);
        }
    }
}

fn root() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::locate::workspace().join("target"), PathBuf::from)
        .join("it")
}

fn keep() -> bool {
    std::env::var_os("PORTCULLIS_KEEP").is_some_and(|v| !v.is_empty() && v != "0")
}

fn sweep(root: &Path) {
    if keep() {
        return;
    }
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let owner = entry.file_name().to_string_lossy().parse::<u32>();
        if owner.is_ok_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_handle() {
        let scratch = Scratch::new("gone").unwrap();
        let file = scratch.write("a", "b").unwrap();
        assert!(file.is_file());
        drop(scratch);
        assert!(!file.exists());
    }
}
