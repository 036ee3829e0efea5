//! The groups of metrics: by cluster, by stage, by verb class.

use std::sync::Arc;

use portcullis_core::observer::{Stage, VerbClass};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{
    Authentication, ClassLabel, EventLabel, LimitLabel, RequestKey, ResultLabel, StageLabel,
};
use super::series::{ByCluster, Series};

/// Seconds. From a cached GET next door to a LIST that takes a minute.
const REQUEST_BUCKETS: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// Seconds. Stages that only compute take microseconds; those that ask upstream, milliseconds.
const STAGE_BUCKETS: [f64; 12] = [
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5,
];

/// What became of trace spans.
#[derive(Clone, Debug)]
pub(crate) struct SpanCounters {
    /// Accepted by the collector.
    pub(crate) exported: Counter,
    /// Never sent: the queue was full.
    pub(crate) dropped: Counter,
    /// Sent, and not accepted.
    pub(crate) failed: Counter,
}

impl SpanCounters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let spans: Family<ResultLabel, Counter> = family(
            registry,
            "trace_spans",
            "Trace spans by what became of them",
        );
        let result = |result| spans.get_or_create_owned(&ResultLabel { result });
        Self {
            exported: result("exported"),
            dropped: result("dropped"),
            failed: result("failed"),
        }
    }
}

/// The families that are split by cluster.
#[derive(Debug)]
pub(super) struct Families {
    pub(super) requests: ByCluster<RequestKey, Counter>,
    pub(super) durations: ByCluster<ClassLabel, Histogram>,
    pub(super) streams: ByCluster<ClassLabel, Gauge>,
    pub(super) pool: ByCluster<EventLabel, Counter>,
    pub(super) authentications: ByCluster<Authentication, Counter>,
    pub(super) limited: ByCluster<LimitLabel, Counter>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let durations: ByCluster<ClassLabel, Histogram> =
            Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS));
        registry.register(
            "request_duration_seconds",
            "From a request's head to its answer's head",
            durations.clone(),
        );
        Self {
            requests: family(
                registry,
                "requests",
                "Requests answered; blame is set if the gateway itself refused or failed them",
            ),
            durations,
            streams: family(registry, "streams", "Open watches and upgraded connections"),
            pool: family(
                registry,
                "upstream_pool_events",
                "What happened in upstream pools",
            ),
            authentications: family(registry, "authentications", "Authentications by result"),
            limited: family(registry, "limited", "Requests that met a limit"),
        }
    }
}

/// The series of one cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) requests: Series<RequestKey, Counter>,
    pub(super) durations: Series<ClassLabel, Histogram>,
    pub(super) streams: Series<ClassLabel, Gauge>,
    pub(super) pool: Series<EventLabel, Counter>,
    pub(super) authentications: Series<Authentication, Counter>,
    pub(super) limited: Series<LimitLabel, Counter>,
}

impl Cluster {
    pub(super) fn new(families: &Families, name: &Arc<str>) -> Self {
        Self {
            requests: Series::new(&families.requests, name),
            durations: Series::new(&families.durations, name),
            streams: Series::new(&families.streams, name),
            pool: Series::new(&families.pool, name),
            authentications: Series::new(&families.authentications, name),
            limited: Series::new(&families.limited, name),
        }
    }

    pub(super) fn retire(&self) {
        self.requests.retire();
        self.durations.retire();
        self.streams.retire();
        self.pool.retire();
        self.authentications.retire();
        self.limited.retire();
    }
}

/// One histogram per stage.
#[derive(Debug)]
pub(super) struct Stages {
    request_info: Histogram,
    authenticate: Histogram,
    flow_control: Histogram,
    authorize: Histogram,
    forward: Histogram,
}

impl Stages {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let stages: Family<StageLabel, Histogram> =
            Family::new_with_constructor(|| Histogram::new(STAGE_BUCKETS));
        let help = "Time a stage spent on a request's way in, without the stages inside it";
        registry.register("stage_duration_seconds", help, stages.clone());
        let stage = |stage: Stage| {
            stages.get_or_create_owned(&StageLabel {
                stage: stage.as_str(),
            })
        };
        Self {
            request_info: stage(Stage::RequestInfo),
            authenticate: stage(Stage::Authenticate),
            flow_control: stage(Stage::FlowControl),
            authorize: stage(Stage::Authorize),
            forward: stage(Stage::Forward),
        }
    }

    pub(super) const fn get(&self, stage: Stage) -> &Histogram {
        match stage {
            Stage::RequestInfo => &self.request_info,
            Stage::Authenticate => &self.authenticate,
            Stage::FlowControl => &self.flow_control,
            Stage::Authorize => &self.authorize,
            Stage::Forward => &self.forward,
        }
    }
}

/// One metric per verb class.
#[derive(Debug)]
pub(super) struct Classes<M> {
    read: M,
    mutate: M,
    watch: M,
    connect: M,
}

impl<M: Clone> Classes<M> {
    pub(super) fn new(family: &Family<ClassLabel, M>) -> Self {
        let class = |class: VerbClass| {
            family.get_or_create_owned(&ClassLabel {
                verb_class: class.as_str(),
            })
        };
        Self {
            read: class(VerbClass::Read),
            mutate: class(VerbClass::Mutate),
            watch: class(VerbClass::Watch),
            connect: class(VerbClass::Connect),
        }
    }

    pub(super) const fn get(&self, class: VerbClass) -> &M {
        match class {
            VerbClass::Read => &self.read,
            VerbClass::Mutate => &self.mutate,
            VerbClass::Watch => &self.watch,
            VerbClass::Connect => &self.connect,
        }
    }
}

/// A family in the registry, which appends the dot to `help`.
pub(super) fn family<S, M>(registry: &mut Registry, name: &str, help: &str) -> Family<S, M>
where
    Family<S, M>: Clone + Default + prometheus_client::registry::Metric,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}
