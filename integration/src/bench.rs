//! `make bench`: what the gateway costs, side by side with direct calls and with HAProxy.
//!
//! Purpose: drive a real kube-apiserver directly, through HAProxy (the practical limit of a proxy
//! with TLS and HTTP/2 on both sides) and through Portcullis, and compare.
//! Invariants: all ways are measured in one run, in slices that alternate and whose order rotates,
//! so that a noisy machine hits all alike; every loop has an end and every wait a deadline; only
//! what was measured is written down.
//!
//! | Module | Measures |
//! |---|---|
//! | [`load`], [`plan`] | latency, throughput and processor time of a closed loop of clients |
//! | [`events`] | how long an event takes to a watch |
//! | [`exec`] | the round trip of an echo through `kubectl exec`'s protocol |
//! | [`memory`] | memory when idle, while a large list streams, with many idle watches |
//! | [`startup`] | the time from start to the first answer |
//! | [`verdict`], [`report`] | what the figures mean, and how they are shown |

pub mod events;
pub mod exec;
pub mod haproxy;
pub mod load;
pub mod memory;
pub mod objects;
pub mod options;
pub mod plan;
pub mod report;
pub mod startup;
pub mod stats;
pub mod target;
pub mod verdict;
pub mod wire;

pub use options::Options;

use std::time::Instant;

use crate::control_plane::{self, ControlPlane};
use crate::{Context, Result};
use options::Group;
use plan::Measured;
use target::Ways;

/// Everything one run measured. What was not asked for is empty.
#[derive(Debug, Default)]
pub struct Results {
    /// The closed-loop scenarios.
    pub load: Measured,
    /// Watch event latencies.
    pub events: Vec<events::Events>,
    /// Round trips of exec.
    pub exec: Vec<exec::Echo>,
    /// Memory of fresh processes.
    pub memory: Vec<memory::Memory>,
    /// Start to first answer.
    pub startup: Vec<startup::Startup>,
    /// What was left out, and why.
    pub missing: Vec<String>,
}

/// Measures, prints the tables and writes them to the file that the options name.
///
/// # Errors
/// When something cannot be started, does not answer, or the file cannot be written.
pub async fn run(options: &Options) -> Result<()> {
    let began = Instant::now();
    note("starting the control plane");
    let plane = control_plane::Options::new().kubelet().start().await?;
    let results = measure(&plane, options, began).await?;
    plane.stop().await?;
    let text = report::markdown(&results, options, began.elapsed());
    println!("{text}");
    if let Some(file) = options.out() {
        std::fs::write(&file, text).context(format!("writing {}", file.display()))?;
        note(&format!("wrote {}", file.display()));
    }
    Ok(())
}

async fn measure(plane: &ControlPlane, options: &Options, began: Instant) -> Result<Results> {
    let stage = |what: &str| note(&format!("{:.0?} {what}", began.elapsed()));
    stage("making the objects");
    objects::make(plane, options).await?;
    let mut results = Results::default();
    if options.has(Group::Start) {
        stage("start to first answer");
        results.startup = startup::measure(plane, options).await?;
    }
    if options.has(Group::Bulk) || options.has(Group::Watches) {
        stage("memory");
        results.memory = memory::measure(plane, options).await?;
    }
    let ways = Ways::start(plane, options).await?;
    results.missing.clone_from(&ways.missing);
    if options.has(Group::Events) {
        stage("watch event latency");
        results.events = events::measure(plane, &ways, options).await?;
    }
    if options.has(Group::Exec) {
        stage("exec round trips");
        results.exec = exec::measure(&ways, options).await?;
    }
    results.load = plan::measure(plane, &ways, options, stage).await?;
    ways.stop().await?;
    Ok(results)
}

fn note(what: &str) {
    eprintln!("bench: {what}");
}
