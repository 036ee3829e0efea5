//! Memory, CPU time and open files of this process, read from `/proc` at each scrape.
//!
//! Names are those of the Prometheus client libraries. Where there is no `/proc`, the metrics are
//! absent rather than zero.

use std::fmt::Error;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks per second in `/proc/self/stat`: `USER_HZ`, which is 100 on every architecture that
/// Linux shares with Rust, whatever the kernel's own tick rate.
const USER_HZ: f64 = 100.0;

/// Collects the metrics of the process itself.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        gauge(
            &mut encoder,
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            status_bytes(&status, "VmRSS"),
        )?;
        gauge(
            &mut encoder,
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            status_bytes(&status, "VmSize"),
        )?;
        gauge(
            &mut encoder,
            "process_open_fds",
            "Number of open file descriptors.",
            // One of the entries is the directory being read.
            fs::read_dir("/proc/self/fd")
                .ok()
                .map(|fds| fds.count().saturating_sub(1) as u64),
        )?;
        gauge(
            &mut encoder,
            "process_max_fds",
            "Maximum number of open file descriptors.",
            max_fds(&limits),
        )?;
        gauge(
            &mut encoder,
            "process_threads",
            "Number of OS threads.",
            status_field(&status, "Threads"),
        )?;
        if let Some(seconds) = cpu_seconds(&stat) {
            let counter = ConstCounter::new(seconds);
            let encoder = encoder.encode_descriptor(
                "process_cpu_seconds",
                "Total user and system CPU time spent in seconds.",
                None,
                counter.metric_type(),
            )?;
            counter.encode(encoder)?;
        }
        Ok(())
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: Option<u64>,
) -> Result<(), Error> {
    let Some(value) = value else { return Ok(()) };
    let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

/// A field of `/proc/self/status` given in kB.
fn status_bytes(status: &str, field: &str) -> Option<u64> {
    status_field(status, field)?.checked_mul(1024)
}

/// The number after `field:` in `/proc/self/status`.
fn status_field(status: &str, field: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// The soft limit in `/proc/self/limits`.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// utime + stime. The command's name, in parentheses, may hold anything, so count from its end.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / USER_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_formats_of_proc() {
        let status = "Name:\tx\nVmSize:\t  10 kB\nVmRSS:\t    4096 kB\nThreads:\t7\n";
        assert_eq!(status_bytes(status, "VmRSS"), Some(4096 * 1024));
        assert_eq!(status_field(status, "Threads"), Some(7));
        assert_eq!(status_field(status, "VmSwap"), None);
        let limits = "Max open files            1024                 4096                 files\n";
        assert_eq!(max_fds(limits), Some(1024));
        let stat = "1 (a) b) S 0 1 1 0 -1 4 1 2 3 4 250 150 0 0 20 0 1 0 5 6";
        assert_eq!(cpu_seconds(stat), Some(4.0));
        assert_eq!(cpu_seconds("1 (x) S 0"), None);
    }
}
