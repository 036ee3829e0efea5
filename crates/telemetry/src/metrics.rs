//! The metrics behind [`Observer`], in Prometheus' words.
//!
//! Purpose: count what stages and engines report, at a cost of some ten nanoseconds per fact: it
//! is paid by every request.
//! Invariant: cardinality is bounded. `cluster` takes the names given to [`Metrics::set_clusters`]
//! and the empty string for everything else; `code` takes registered HTTP codes and `other`;
//! all other labels are fixed words of the program. A cluster that is gone takes its series along.
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/metrics`.

mod families;
mod labels;
mod process;
mod series;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use portcullis_core::observer::{Observer, PoolEvent, RequestOutcome, Stage, VerbClass};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub(crate) use families::SpanCounters;
use families::{Classes, Cluster, Families, Stages, family};
use labels::{
    Authentication, ClassLabel, Code, EventLabel, LimitLabel, ReasonLabel, RequestKey, SourceLabel,
    SourceResult, StateLabel,
};
use process::Process;

/// Every metric of the process and their registry.
///
/// Handles that do not depend on a cluster are resolved once, here; those that do are found by
/// name in an immutable map that is swapped whole when the set of clusters changes.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Families,
    clusters: ArcSwap<HashMap<Arc<str>, Arc<Cluster>>>,
    /// Serialises [`Metrics::set_clusters`].
    clusters_change: Mutex<()>,
    /// Counts what belongs to no configured cluster.
    elsewhere: Cluster,
    stages: Stages,
    in_flight: Classes<Gauge>,
    connections: Gauge,
    refused: Family<ReasonLabel, Counter>,
    reloads: Family<SourceResult, Counter>,
    reload_success: Family<SourceLabel, Gauge>,
    serving: Gauge,
    refused_clusters: Gauge,
    disabled: Gauge,
    spans: SpanCounters,
}

impl Metrics {
    /// An empty set of metrics of a process that calls itself `version`.
    #[must_use]
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let ours = registry.sub_registry_with_prefix("portcullis");
        ours.register(
            "build",
            "The running program",
            Info::new(vec![("version", version)]),
        );
        let families = Families::register(ours);
        let elsewhere = Cluster::new(&families, &Arc::from(""));
        let states = family(ours, "clusters", "Clusters of the configuration, by state");
        let state = |state| states.get_or_create_owned(&StateLabel { state });
        let (serving, refused_clusters, disabled) =
            (state("serving"), state("refused"), state("disabled"));
        let connections = Gauge::default();
        ours.register(
            "connections",
            "Open client connections",
            connections.clone(),
        );
        Self {
            clusters: ArcSwap::default(),
            clusters_change: Mutex::new(()),
            elsewhere,
            stages: Stages::register(ours),
            in_flight: Classes::new(&family(
                ours,
                "requests_in_flight",
                "Requests being served, by verb class",
            )),
            connections,
            refused: family(
                ours,
                "connections_refused",
                "Client connections refused or ended by a limit",
            ),
            reloads: family(ours, "reloads", "Loads of a source of configuration"),
            reload_success: family(
                ours,
                "reload_last_success_timestamp_seconds",
                "Unix time of the last load of a source that succeeded",
            ),
            serving,
            refused_clusters,
            disabled,
            spans: SpanCounters::register(ours),
            families,
            registry,
        }
    }

    /// Says which clusters (`namespace/name`) get series of their own; all others count as `""`.
    ///
    /// Call it *before* requests can reach a new cluster, or what they counted as `""` is missing
    /// here. A cluster that left keeps its series until its last stream has ended and this is
    /// called again.
    pub fn set_clusters<I>(&self, names: I)
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let _one_at_a_time = self
            .clusters_change
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = self.clusters.load_full();
        let mut after = HashMap::with_capacity(before.len());
        for name in names {
            let name = name.as_ref();
            let (name, cluster) = match before.get_key_value(name) {
                Some((name, cluster)) => (Arc::clone(name), Arc::clone(cluster)),
                None => {
                    let name = Arc::from(name);
                    let cluster = Arc::new(Cluster::new(&self.families, &name));
                    (name, cluster)
                }
            };
            after.insert(name, cluster);
        }
        let mut gone = Vec::new();
        for (name, cluster) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            gone.push((Arc::clone(name), Arc::clone(cluster)));
        }
        for (name, cluster) in gone {
            if cluster.streams.any(|streams| streams.get() != 0) {
                after.insert(name, cluster);
            } else {
                cluster.retire();
            }
        }
        self.clusters.store(Arc::new(after));
    }

    /// The metrics as text: OpenMetrics 1.0 if `open_metrics`, else Prometheus 0.0.4.
    #[must_use]
    pub fn encode(&self, open_metrics: bool) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail, and our own collector only passes its errors on.
        let _infallible = if open_metrics {
            text::encode(&mut page, &self.registry)
        } else {
            prometheus_text::encode(&mut page, &self.registry)
        };
        page
    }

    /// What became of trace spans; [`crate::Tracer`] counts here.
    pub(crate) fn spans(&self) -> &SpanCounters {
        &self.spans
    }

    fn cluster<R>(&self, name: &str, act: impl FnOnce(&Cluster) -> R) -> R {
        if name.is_empty() {
            return act(&self.elsewhere);
        }
        act(self
            .clusters
            .load()
            .get(name)
            .map_or(&self.elsewhere, |cluster| cluster))
    }
}

impl Observer for Metrics {
    fn request_finished(&self, outcome: &RequestOutcome<'_>) {
        let verb_class = outcome.class.map_or("", VerbClass::as_str);
        let key = RequestKey {
            verb_class,
            code: Code::new(outcome.code),
            blame: outcome.blame.map_or("", portcullis_core::Blame::as_str),
        };
        self.cluster(outcome.cluster, |cluster| {
            cluster.requests.with(key, |requests| {
                requests.inc();
            });
            cluster
                .durations
                .with(ClassLabel { verb_class }, |durations| {
                    durations.observe(outcome.duration.as_secs_f64());
                });
        });
    }

    fn stage_finished(&self, stage: Stage, duration: Duration) {
        self.stages.get(stage).observe(duration.as_secs_f64());
    }

    fn streams_changed(&self, cluster: &str, class: VerbClass, delta: i64) {
        let key = ClassLabel {
            verb_class: class.as_str(),
        };
        self.cluster(cluster, |cluster| {
            cluster.streams.with(key, |streams| {
                streams.inc_by(delta);
            });
        });
    }

    fn in_flight_changed(&self, class: VerbClass, delta: i64) {
        self.in_flight.get(class).inc_by(delta);
    }

    fn connections_changed(&self, delta: i64) {
        self.connections.inc_by(delta);
    }

    fn connection_refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    fn pool(&self, cluster: &str, event: PoolEvent) {
        let key = EventLabel {
            event: event.as_str(),
        };
        self.cluster(cluster, |cluster| {
            cluster.pool.with(key, |events| {
                events.inc();
            });
        });
    }

    fn authentication(
        &self,
        cluster: &str,
        method: &'static str,
        result: &'static str,
        cached: bool,
    ) {
        let key = Authentication {
            method,
            result,
            cached: if cached { "true" } else { "false" },
        };
        self.cluster(cluster, |cluster| {
            cluster.authentications.with(key, |count| {
                count.inc();
            });
        });
    }

    fn limited(&self, cluster: &str, limit: &'static str) {
        self.cluster(cluster, |cluster| {
            cluster.limited.with(LimitLabel { limit }, |count| {
                count.inc();
            });
        });
    }

    fn reloaded(&self, source: &'static str, ok: bool) {
        let result = if ok { "success" } else { "failure" };
        self.reloads
            .get_or_create(&SourceResult { source, result })
            .inc();
        if ok {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs();
            let now = i64::try_from(now).unwrap_or(i64::MAX);
            self.reload_success
                .get_or_create(&SourceLabel { source })
                .set(now);
        }
    }

    fn clusters(&self, serving: usize, refused: usize, disabled: usize) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.serving.set(gauge(serving));
        self.refused_clusters.set(gauge(refused));
        self.disabled.set(gauge(disabled));
    }
}

#[cfg(test)]
mod tests;
