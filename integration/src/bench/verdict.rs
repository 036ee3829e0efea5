//! What the gateway promises, against what was measured.
//!
//! Invariant: ways are compared within a round, and the median over the rounds counts; with
//! nothing to compare with there is no verdict.

use super::Results;
use super::load::Slice;
use super::plan::{Measured, Scenario, Workload};
use super::stats::median;
use super::target::Way;
use super::wire::Http;

/// One promise.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What was compared.
    pub what: String,
    /// The promise, in words.
    pub asked: &'static str,
    /// What Portcullis showed.
    pub measured: Option<String>,
    /// Whether that keeps the promise.
    pub kept: Option<bool>,
    /// What Portcullis showed in mode Impersonate, for which nothing is promised.
    pub impersonate: Option<String>,
}

/// All promises about what was measured.
pub fn all(results: &Results) -> Vec<Verdict> {
    let load = &results.load;
    let mut all = Vec::new();
    for scenario in load.scenarios().into_iter().filter(|s| s.how.clients == 1) {
        let ratio = |way| added_ratio(load, scenario, way);
        let what = format!("added p50, {}: Portcullis / HAProxy", name(scenario));
        all.push(bounded(what, "≤ 1.15", ratio, |r| r <= 1.15));
    }
    for scenario in load.scenarios().into_iter().filter(|s| s.how.clients == 16) {
        let ratio = |way| paired(load, scenario, way, Way::Haproxy, |s| Some(s.rate()));
        let what = format!("requests/s, {}: Portcullis / HAProxy", name(scenario));
        all.push(bounded(what, "≥ 0.95", ratio, |r| r >= 0.95));
    }
    for scenario in load.scenarios().into_iter().filter(|s| s.how.clients == 16) {
        let ratio = |way| cpu_ratio(load, scenario, way);
        let what = format!("CPU per request, {}: Portcullis / HAProxy", name(scenario));
        all.push(match scenario.workload {
            Workload::Get => bounded(what, "≤ 1.25", ratio, |r| r <= 1.25),
            _ => bounded(what, "≤ 1.10", ratio, |r| r <= 1.10),
        });
    }
    for http in [Http::Two, Http::One] {
        let ratio = |way| event_ratio(results, http, way);
        let what = format!("watch event p50, HTTP/{http}: Portcullis / direct");
        all.push(bounded(what, "≤ 1.10", ratio, |r| r <= 1.10));
    }
    all.extend(sizes(results));
    all.retain(|verdict| verdict.measured.is_some() || verdict.impersonate.is_some());
    all
}

/// A scenario in words.
pub fn name(scenario: Scenario) -> String {
    let (title, how) = (scenario.workload.title(), scenario.how);
    let clients = if how.clients == 1 {
        "client"
    } else {
        "clients"
    };
    let shared = if how.shared { " on one connection" } else { "" };
    format!(
        "{title}, HTTP/{}, {} {clients}{shared}",
        how.http, how.clients
    )
}

/// How many milliseconds a way adds to the direct median.
pub fn added(load: &Measured, scenario: Scenario, way: Way) -> Option<f64> {
    let p50 = |slice: &Slice| median(&slice.latencies);
    let rounds = load
        .slices(scenario, way)
        .iter()
        .zip(load.slices(scenario, Way::Direct));
    let added: Vec<f64> = rounds
        .filter_map(|(a, b)| Some(p50(a)? - p50(b)?))
        .collect();
    median(&added)
}

/// The median over the rounds of a figure by one way as a share of the same by another.
pub fn paired(
    load: &Measured,
    scenario: Scenario,
    way: Way,
    other: Way,
    figure: impl Fn(&Slice) -> Option<f64>,
) -> Option<f64> {
    let rounds = load
        .slices(scenario, way)
        .iter()
        .zip(load.slices(scenario, other));
    let shares = rounds.filter_map(|(a, b)| Some(figure(a)? / figure(b).filter(|b| *b > 0.0)?));
    median(&shares.collect::<Vec<_>>())
}

fn added_ratio(load: &Measured, scenario: Scenario, way: Way) -> Option<f64> {
    // A way that adds less than can be measured gives no ratio.
    let haproxy = added(load, scenario, Way::Haproxy).filter(|ms| *ms >= 0.01)?;
    Some(added(load, scenario, way)? / haproxy)
}

/// Of sums, not of rounds: processor time is counted in steps of 10 ms.
fn cpu_ratio(load: &Measured, scenario: Scenario, way: Way) -> Option<f64> {
    let haproxy = load
        .figures(scenario, Way::Haproxy)?
        .cpu
        .filter(|cpu| *cpu > 0.0)?;
    Some(load.figures(scenario, way)?.cpu? / haproxy)
}

fn event_ratio(results: &Results, http: Http, way: Way) -> Option<f64> {
    let events = results
        .events
        .iter()
        .find(|e| (e.way, e.http) == (way, http))?;
    Some(median(&events.through)? / median(&events.direct)?)
}

fn bounded(
    what: String,
    asked: &'static str,
    ratio: impl Fn(Way) -> Option<f64>,
    kept: impl Fn(f64) -> bool,
) -> Verdict {
    let text = |ratio: f64| format!("{ratio:.2}");
    let measured = ratio(Way::PassThrough);
    Verdict {
        what,
        asked,
        measured: measured.map(text),
        kept: measured.map(kept),
        impersonate: ratio(Way::Impersonate).map(text),
    }
}

#[allow(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
fn sizes(results: &Results) -> Vec<Verdict> {
    let memory = |way| results.memory.iter().find(move |m| m.way == Some(way));
    let start = |way| results.startup.iter().find(move |s| s.way == way);
    let growth = |way| {
        memory(way)?
            .bulk
            .iter()
            .map(|(_, grown)| *grown as f64 / 1e6)
            .reduce(f64::max)
    };
    let watch = |way| Some(memory(way)?.watch? as f64 / 1024.0);
    let idle = |way| Some(median(&start(way)?.idle)? / f64::from(1 << 20));
    let took = |way| Some(median(&start(way)?.took)? / 1e3);
    vec![
        sized(
            "RSS growth while a 20 MB list streams, MB",
            "< 4",
            growth,
            |mb| mb < 4.0,
        ),
        sized("RSS per idle watch, KiB", "≤ 20", watch, |kib| {
            kib <= 20.0
        }),
        sized("idle RSS, MiB", "≤ 15", idle, |mib| mib <= 15.0),
        sized("start to first answer, s", "≤ 0.2", took, |s| s <= 0.2),
    ]
}

fn sized(
    what: &str,
    asked: &'static str,
    size: impl Fn(Way) -> Option<f64>,
    kept: impl Fn(f64) -> bool,
) -> Verdict {
    bounded(what.to_owned(), asked, size, kept)
}

#[cfg(test)]
mod tests {
    use super::super::load::Loop;
    use super::*;

    const GET: Scenario = Scenario {
        workload: Workload::Get,
        how: Loop {
            http: Http::Two,
            clients: 1,
            shared: false,
        },
    };

    fn slices(p50s: &[f64]) -> Vec<Slice> {
        let slice = |p50: &f64| Slice {
            latencies: vec![*p50],
            seconds: 1.0,
            ..Slice::default()
        };
        p50s.iter().map(slice).collect()
    }

    fn results(ours: &[f64]) -> Results {
        let mut results = Results::default();
        results.load.set(GET, Way::Direct, slices(&[1.0, 5.0, 1.0]));
        results
            .load
            .set(GET, Way::Haproxy, slices(&[1.5, 5.4, 1.6]));
        results.load.set(GET, Way::PassThrough, slices(ours));
        results
    }

    #[test]
    fn added_latency_is_compared_within_a_round() {
        let kept = all(&results(&[1.55, 5.55, 1.5]));
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(
            (kept[0].measured.as_deref(), kept[0].kept),
            (Some("1.10"), Some(true))
        );
        let missed = all(&results(&[1.6, 5.6, 1.5]));
        assert_eq!(
            (missed[0].measured.as_deref(), missed[0].kept),
            (Some("1.20"), Some(false))
        );
    }

    #[test]
    fn without_haproxy_there_is_no_verdict() {
        let mut results = results(&[1.5]);
        results.load.set(GET, Way::Haproxy, Vec::new());
        assert!(all(&results).is_empty());
    }
}
