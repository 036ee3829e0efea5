//! Which closed-loop scenarios are run, and in what order.
//!
//! Invariant: all ways of a scenario follow each other at once, and each round begins with another
//! way, so that what else happens on the machine is spread evenly.

use std::collections::BTreeMap;

use super::load::{self, Loop, Slice};
use super::objects;
use super::options::{Group, Options};
use super::stats::{median, percentile};
use super::target::{Way, Ways};
use super::wire::Http;
use crate::Result;
use crate::control_plane::ControlPlane;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// GET of one ConfigMap.
    Get,
    /// LIST of 100 pods.
    Pods,
    /// LIST of 5,000 namespaces.
    Namespaces,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Get, Self::Pods, Self::Namespaces];

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Get => "GET one ConfigMap",
            Self::Pods => "LIST 100 pods",
            Self::Namespaces => "LIST 5,000 namespaces",
        }
    }

    fn group(self) -> Group {
        match self {
            Self::Get => Group::Get,
            Self::Pods => Group::Pods,
            Self::Namespaces => Group::Namespaces,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Get => objects::ONE,
            Self::Pods => objects::PODS,
            Self::Namespaces => objects::NAMESPACES,
        }
    }

    fn loops(self, quick: bool) -> Vec<Loop> {
        let own = |http, clients| Loop {
            http,
            clients,
            shared: false,
        };
        let shared = |clients| Loop {
            http: Http::Two,
            clients,
            shared: true,
        };
        match (self, quick) {
            (Self::Namespaces, _) => vec![own(Http::Two, 1), own(Http::Two, 16), own(Http::One, 1)],
            (_, true) => vec![own(Http::Two, 1), own(Http::Two, 16), own(Http::One, 16)],
            (_, false) => vec![
                own(Http::Two, 1),
                own(Http::Two, 16),
                shared(16),
                own(Http::Two, 32),
                own(Http::One, 1),
                own(Http::One, 16),
                own(Http::One, 32),
            ],
        }
    }
}

/// One row of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scenario {
    /// What is asked for.
    pub workload: Workload,
    /// How.
    pub how: Loop,
}

/// The slices of each scenario and way, one per round.
#[derive(Debug, Default)]
pub struct Measured(BTreeMap<(Scenario, Way), Vec<Slice>>);

/// The figures of a scenario and way, from all its rounds.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Median latency in milliseconds: the median over the rounds.
    pub p50: f64,
    /// 99th percentile in milliseconds, of all answers.
    pub p99: f64,
    /// Answers per second: the median over the rounds.
    pub rate: f64,
    /// Processor seconds of the process in the middle per 1,000 answers.
    pub cpu: Option<f64>,
    /// Processor seconds of kube-apiserver per 1,000 answers.
    pub upstream_cpu: f64,
    /// The most resident memory seen at the end of a slice, in bytes.
    pub rss: Option<u64>,
    /// Bytes per answer.
    pub size: usize,
    /// Failed requests.
    pub errors: usize,
}

impl Measured {
    /// The scenarios measured, in order.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let mut all: Vec<Scenario> = self.0.keys().map(|(scenario, _)| *scenario).collect();
        all.dedup();
        all
    }

    /// The ways measured in a scenario.
    pub fn ways(&self, scenario: Scenario) -> Vec<Way> {
        self.0
            .keys()
            .filter(|(s, _)| *s == scenario)
            .map(|(_, way)| *way)
            .collect()
    }

    /// The slices of a scenario and way.
    pub fn slices(&self, scenario: Scenario, way: Way) -> &[Slice] {
        self.0
            .get(&(scenario, way))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The figures of a scenario and way; `None` when there was no answer.
    pub fn figures(&self, scenario: Scenario, way: Way) -> Option<Figures> {
        let slices = self.slices(scenario, way);
        let all: Vec<f64> = slices
            .iter()
            .flat_map(|s| s.latencies.iter().copied())
            .collect();
        #[allow(
            clippy::cast_precision_loss,
            reason = "a count of answers is far below 2^52"
        )]
        let thousands = all.len() as f64 / 1000.0;
        let p50s: Vec<f64> = slices.iter().filter_map(|s| median(&s.latencies)).collect();
        let rates: Vec<f64> = slices.iter().map(Slice::rate).collect();
        let cpu: Option<f64> = slices.iter().map(|s| s.cpu).sum();
        Some(Figures {
            p50: median(&p50s)?,
            p99: percentile(&all, 0.99)?,
            rate: median(&rates)?,
            cpu: cpu.map(|seconds| seconds / thousands),
            upstream_cpu: slices.iter().map(|s| s.upstream_cpu).sum::<f64>() / thousands,
            rss: slices.iter().filter_map(|s| s.rss).max(),
            size: slices.iter().map(|s| s.size).max()?,
            errors: slices.iter().map(|s| s.errors).sum(),
        })
    }

    /// The last failure seen in a scenario and way.
    pub fn failure(&self, scenario: Scenario, way: Way) -> Option<&str> {
        self.slices(scenario, way)
            .iter()
            .rev()
            .find_map(|s| s.failure.as_deref())
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, scenario: Scenario, way: Way, slices: Vec<Slice>) {
        self.0.insert((scenario, way), slices);
    }

    fn add(&mut self, scenario: Scenario, way: Way, slice: Slice) {
        self.0.entry((scenario, way)).or_default().push(slice);
    }
}

/// Runs all closed-loop scenarios that were asked for.
///
/// # Errors
/// When a slice cannot be run.
pub async fn measure(
    plane: &ControlPlane,
    ways: &Ways,
    options: &Options,
    stage: impl Fn(&str),
) -> Result<Measured> {
    let mut measured = Measured::default();
    let workloads = Workload::ALL.into_iter().filter(|w| options.has(w.group()));
    let scenarios: Vec<Scenario> = workloads
        .flat_map(|workload| {
            let loops = workload.loops(options.quick).into_iter();
            loops.map(move |how| Scenario { workload, how })
        })
        .collect();
    if scenarios.is_empty() {
        return Ok(measured);
    }
    for round in 0..options.rounds() {
        stage(&format!(
            "load, round {} of {}",
            round + 1,
            options.rounds()
        ));
        for scenario in &scenarios {
            for target in ways.rotated(round) {
                let path = scenario.workload.path();
                let slice = load::run(plane, target, scenario.how, path, options.slice()).await?;
                measured.add(*scenario, target.way, slice);
            }
        }
    }
    Ok(measured)
}
