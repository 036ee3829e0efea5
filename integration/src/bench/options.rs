//! What a run is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::target::Way;
use crate::locate;

/// How long and what to measure.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rounds; in each, every way is measured once per scenario.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seconds per slice (one way, one scenario, one round).
    #[arg(long, value_name = "S", default_value_t = 0.8, value_parser = seconds)]
    pub seconds: f64,
    /// Only these groups of scenarios.
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    pub only: Vec<Group>,
    /// Only these ways to the API server; direct is always measured.
    #[arg(long, value_name = "WAY", value_enum, value_delimiter = ',')]
    pub ways: Vec<Way>,
    /// Markdown file to write [default: docs/reference/performance.md for a whole run, none with
    /// --only, --ways or --quick].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Fewer rounds, shorter slices, fewer events: a first impression within 90 seconds.
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    pub quick: bool,
}

/// A group of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// GET of one ConfigMap.
    Get,
    /// LIST of 100 pods.
    Pods,
    /// LIST of 5,000 namespaces.
    Namespaces,
    /// Memory while a 20 MB list streams.
    Bulk,
    /// Memory of 1,000 idle watches.
    Watches,
    /// Watch event latency.
    Events,
    /// Exec echo round trip.
    Exec,
    /// Start to first answer, and idle memory.
    Start,
}

impl Options {
    /// Whether a group was asked for; no list asks for all.
    pub fn has(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }

    /// Whether a way is measured; no list means all.
    pub fn takes(&self, way: Way) -> bool {
        self.ways.is_empty() || self.ways.contains(&way)
    }

    /// The file to write: a partial run must not replace the record of a whole one unasked.
    pub fn out(&self) -> Option<PathBuf> {
        let whole = self.only.is_empty() && self.ways.is_empty() && !self.quick;
        let usual = || locate::workspace().join("docs/reference/performance.md");
        self.out.clone().or_else(|| whole.then(usual))
    }

    /// How many rounds.
    pub fn rounds(&self) -> u32 {
        if self.quick { 2 } else { self.rounds }
    }

    /// How long one slice lasts.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(if self.quick { 0.2 } else { self.seconds })
    }

    /// How often to repeat what is counted rather than timed.
    pub fn repeat(&self, full: u32) -> u32 {
        if self.quick { full.div_ceil(5) } else { full }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.05 to 60".to_owned()),
    }
}
