//! The tables, in Markdown, which also reads well in a terminal.

use std::fmt::Write as _;
use std::time::Duration;

use super::options::Options;
use super::plan::{Measured, Scenario, Workload};
use super::stats::{median, percentile};
use super::target::Way;
use super::{Results, verdict};

const MIB: f64 = 1_048_576.0;

/// The whole document.
pub fn markdown(results: &Results, options: &Options, took: Duration) -> String {
    let mut text = String::from(INTRODUCTION);
    let _ = writeln!(
        text,
        "Measured on: {}. {} rounds, slices of {} s, {:.0} s in all.\n",
        machine(),
        options.rounds(),
        options.slice().as_secs_f64(),
        took.as_secs_f64(),
    );
    for missing in &results.missing {
        let _ = writeln!(text, "Left out: {missing}\n");
    }
    promises(&mut text, results);
    for workload in Workload::ALL {
        load(&mut text, &results.load, workload);
    }
    events(&mut text, results);
    exec(&mut text, results);
    memory(&mut text, results);
    text.push_str(HOW_TO_READ);
    text
}

const INTRODUCTION: &str = "\
# Performance

What Portcullis costs, measured side by side in one run with direct calls to kube-apiserver and
with HAProxy, the practical limit of a proxy that speaks TLS and HTTP/2 on both sides.

This page is written by `make bench`; `make bench ARGS=--help` shows how to measure less or longer.
HAProxy comes from Debian (`apt-get install haproxy`).

";

const HOW_TO_READ: &str = "\
## How to read this

- The ways: `direct` is kube-apiserver itself. `haproxy` carries bytes and checks nobody.
  `portcullis` runs its whole pipeline: tokens validated against the cluster (the outcome cached),
  metrics on, default logging, the caller's token passed on. `portcullis-impersonate` calls with its
  own client certificate and impersonation headers; kube-apiserver then authorizes the impersonation
  too, which its column shows.
- Slices of all ways alternate and each round begins with another way. Compare ways within one
  run; absolute figures change from machine to machine and from day to day.
- p50 is the median over the rounds of each round's median; p99 is of all answers; requests/s is
  the median over the rounds. \"added\" is the median over the rounds of the difference to direct in
  the same round.
- The client, the API server, etcd and the process in the middle share the machine's processors, so
  requests/s is a lower bound. CPU seconds per 1,000 requests is the sturdier figure; it is read
  from `/proc` in steps of 10 ms.
- Each client has a connection of its own, except where one connection is shared, as a controller
  does. Connections and the authentication cache are warm when the clock starts.
- Event latency is from sending a PATCH, straight to kube-apiserver, to reading the event's bytes; a
  direct watch and one through the way see the same write at the same time.
- Memory is of fresh processes. \"warm\" is after 40 small requests. Growth is the peak of resident
  memory while a list of ConfigMaps of 500 KB each streams, over what was resident before. A slow
  reader takes about 20 MB/s. Idle watches: 1,000 over HTTP/2, 100 streams per connection.
- Start to first answer includes writing the configuration and up to 10 ms of looking for readiness.
";

fn promises(text: &mut String, results: &Results) {
    let verdicts = verdict::all(results);
    if verdicts.is_empty() {
        return;
    }
    text.push_str(
        "## Bounds\n\n| What | Bound | Portcullis | | Impersonate |\n|---|---|---|---|---|\n",
    );
    for verdict in verdicts {
        let kept = match verdict.kept {
            Some(true) => "PASS",
            Some(false) => "MISS",
            None => "",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {kept} | {} |",
            verdict.what,
            verdict.asked,
            verdict.measured.unwrap_or_default(),
            verdict.impersonate.unwrap_or_default(),
        );
    }
    text.push('\n');
}

fn load(text: &mut String, load: &Measured, workload: Workload) {
    let scenarios: Vec<Scenario> = load
        .scenarios()
        .into_iter()
        .filter(|s| s.workload == workload)
        .collect();
    let figures = scenarios.iter().find_map(|s| load.figures(*s, Way::Direct));
    let Some(size) = figures.map(|f| f.size) else {
        return;
    };
    let _ = writeln!(text, "## {} ({})\n", workload.title(), bytes(size));
    text.push_str("| HTTP | Clients | Way | p50 ms | added ms | p99 ms | requests/s | CPU s/1,000 | kube-apiserver CPU s/1,000 | RSS MiB |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    let mut failures = Vec::new();
    for scenario in scenarios {
        let how = scenario.how;
        let shared = if how.shared { ", one connection" } else { "" };
        for way in load.ways(scenario) {
            if let Some(failure) = load.failure(scenario, way) {
                failures.push(format!("{way}, {}: {failure}", verdict::name(scenario)));
            }
            let Some(f) = load.figures(scenario, way) else {
                continue;
            };
            let added = verdict::added(load, scenario, way).filter(|_| way != Way::Direct);
            let _ = writeln!(
                text,
                "| {} | {}{shared} | {way} | {:.2} | {} | {:.2} | {:.0} | {} | {:.2} | {} |",
                how.http,
                how.clients,
                f.p50,
                cell(added, 2),
                f.p99,
                f.rate,
                cell(f.cpu, 3),
                f.upstream_cpu,
                cell(f.rss.map(mib), 1),
            );
        }
    }
    text.push('\n');
    for failure in failures {
        let _ = writeln!(text, "Failed requests: {failure}\n");
    }
}

fn events(text: &mut String, results: &Results) {
    if results.events.is_empty() {
        return;
    }
    text.push_str("## Watch event latency\n\n");
    text.push_str("| HTTP | Way | p50 ms | direct p50 ms | p99 ms | direct p99 ms | events |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for e in &results.events {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            e.http,
            e.way,
            cell(median(&e.through), 2),
            cell(median(&e.direct), 2),
            cell(percentile(&e.through, 0.99), 2),
            cell(percentile(&e.direct, 0.99), 2),
            e.through.len(),
        );
    }
    text.push('\n');
}

fn exec(text: &mut String, results: &Results) {
    if results.exec.is_empty() {
        return;
    }
    text.push_str("## Exec (WebSocket)\n\n");
    text.push_str("| Way | echo p50 ms | echo p99 ms | whole session p50 ms | echoes |\n");
    text.push_str("|---|---|---|---|---|\n");
    for e in &results.exec {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            e.way,
            cell(median(&e.echo), 2),
            cell(percentile(&e.echo, 0.99), 2),
            cell(median(&e.session), 1),
            e.echo.len(),
        );
    }
    text.push('\n');
}

fn memory(text: &mut String, results: &Results) {
    if !results.startup.is_empty() {
        text.push_str("## Start\n\n| Way | start to first answer ms | idle RSS MiB | starts |\n|---|---|---|---|\n");
        for s in &results.startup {
            let idle = median(&s.idle).map(|rss| rss / MIB);
            let took = cell(median(&s.took), 0);
            let _ = writeln!(
                text,
                "| {} | {took} | {} | {} |",
                s.way,
                cell(idle, 1),
                s.took.len()
            );
        }
        text.push('\n');
    }
    if results.memory.is_empty() {
        return;
    }
    text.push_str("## Memory\n\n| Way | What | Figure |\n|---|---|---|\n");
    for m in &results.memory {
        let way = m.way.map(|w| w.to_string()).unwrap_or_default();
        let _ = writeln!(text, "| {way} | RSS, warm | {:.1} MiB |", mib(m.warm));
        for (reader, grown) in &m.bulk {
            let size = bytes(m.bulk_size);
            let grown = mib(*grown) * MIB / 1e6;
            let _ = writeln!(
                text,
                "| {way} | growth during a list of {size}, {reader} | {grown:.2} MB |"
            );
        }
        if let Some(watch) = m.watch {
            let _ = writeln!(text, "| {way} | RSS per idle watch | {watch} bytes |");
        }
    }
    text.push('\n');
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map(|v| format!("{v:.digits$}")).unwrap_or_default()
}

#[allow(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

#[allow(
    clippy::cast_precision_loss,
    reason = "bodies are far below 2^52 bytes"
)]
fn bytes(size: usize) -> String {
    let size = size as f64;
    if size < 1e4 {
        format!("{size} bytes")
    } else if size < 1e6 {
        format!("{:.0} KB", size / 1e3)
    } else {
        format!("{:.1} MB", size / 1e6)
    }
}

/// The machine in general words.
fn machine() -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let virtual_ = read("/proc/cpuinfo").contains(" hypervisor");
    let kind = if virtual_ {
        "virtual machine"
    } else {
        "machine"
    };
    let memory = read("/proc/meminfo");
    let total = memory.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib: f64 = total
        .and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0);
    let arch = std::env::consts::ARCH;
    let gib = kib / MIB;
    format!("a {arch} {kind} with {processors} processors and {gib:.0} GiB of memory")
}
