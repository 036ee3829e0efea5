//! What a process uses of the machine.

use std::path::PathBuf;

use crate::{Context, Result};

/// What a process uses, from `/proc`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory, in bytes.
    pub rss: u64,
    /// The most resident memory it ever had, in bytes.
    pub peak_rss: u64,
    /// Processor time, user and system, in seconds (in steps of 10 ms).
    pub cpu_seconds: f64,
    /// Open file descriptors.
    pub open_files: usize,
    /// Threads.
    pub threads: u64,
}

impl Usage {
    /// Reads the usage of process `pid`.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let read = |name: &str| {
            std::fs::read_to_string(folder.join(name)).context(format!("usage of process {pid}"))
        };
        let status = read("status")?;
        let number = |key: &str| -> u64 {
            let line = status.lines().find_map(|l| l.strip_prefix(key));
            line.and_then(|l| l.split_whitespace().next())
                .and_then(|n| n.parse().ok())
                .unwrap_or(0)
        };
        let stat = read("stat")?;
        // Fields after the program's name, which may hold spaces: utime is the 12th, stime the 13th.
        let fields = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(11)
            .take(2);
        let ticks: f64 = fields.filter_map(|f| f.parse::<f64>().ok()).sum();
        let files = std::fs::read_dir(folder.join("fd")).map(Iterator::count);
        Ok(Self {
            rss: number("VmRSS:") * 1024,
            peak_rss: number("VmHWM:") * 1024,
            cpu_seconds: ticks / 100.0,
            open_files: files.context(format!("open files of process {pid}"))?,
            threads: number("Threads:"),
        })
    }
}
