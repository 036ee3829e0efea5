//! What engines and stages tell about themselves.
//!
//! Engines know no Prometheus: they call this trait, which `telemetry` implements. Every method
//! has an empty default so that a test passes `()`.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use crate::Blame;

/// Verb class: the label that keeps metrics small. Long-running classes are counted as streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VerbClass {
    /// get, list and non-resource GET/HEAD.
    Read,
    /// create, update, patch, delete, deletecollection.
    Mutate,
    /// watch.
    Watch,
    /// exec, attach, port-forward, proxy, log -f: connections that stay.
    Connect,
}

impl VerbClass {
    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mutate => "mutate",
            Self::Watch => "watch",
            Self::Connect => "connect",
        }
    }
}

/// A stage of the gateway's pipeline, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the stage of that name")]
pub enum Stage {
    RequestInfo,
    Authenticate,
    FlowControl,
    Authorize,
    Forward,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 5] = [
        Self::RequestInfo,
        Self::Authenticate,
        Self::FlowControl,
        Self::Authorize,
        Self::Forward,
    ];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestInfo => "request_info",
            Self::Authenticate => "authenticate",
            Self::FlowControl => "flow_control",
            Self::Authorize => "authorize",
            Self::Forward => "forward",
        }
    }
}

/// What happened to a connection of the upstream pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolEvent {
    /// A connection was established.
    Opened,
    /// A connection went away.
    Closed,
    /// A connection could not be established.
    Failed,
    /// A request found an open connection.
    Reused,
    /// A request was sent a second time because its connection had gone stale.
    Retried,
}

impl PoolEvent {
    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Closed => "closed",
            Self::Failed => "failed",
            Self::Reused => "reused",
            Self::Retried => "retried",
        }
    }
}

/// One finished request (for long-running ones: once the answer's head was sent).
#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome<'a> {
    /// `namespace/name` of the cluster, or empty when none was resolved.
    pub cluster: &'a str,
    /// Verb class, or `None` when the request was refused before its verb was known.
    pub class: Option<VerbClass>,
    /// HTTP code sent to the client.
    pub code: u16,
    /// From the request's head to the answer's head.
    pub duration: Duration,
    /// Set when the gateway itself refused or failed the request.
    pub blame: Option<Blame>,
}

/// Receives facts about the running gateway. Methods must be cheap and must not block.
pub trait Observer: Send + Sync + 'static {
    /// A request got its answer's head.
    fn request_finished(&self, _outcome: &RequestOutcome<'_>) {}
    /// Time a stage spent on its way in, excluding the stages inside it.
    fn stage_finished(&self, _stage: Stage, _duration: Duration) {}
    /// A long-running request (watch, exec, ...) began (`+1`) or ended (`-1`).
    fn streams_changed(&self, _cluster: &str, _class: VerbClass, _delta: i64) {}
    /// Requests in flight changed.
    fn in_flight_changed(&self, _class: VerbClass, _delta: i64) {}
    /// Client connections changed.
    fn connections_changed(&self, _delta: i64) {}
    /// A client connection was refused or ended by a limit; `reason` is a fixed word.
    fn connection_refused(&self, _reason: &'static str) {}
    /// Something happened in the upstream pool.
    fn pool(&self, _cluster: &str, _event: PoolEvent) {}
    /// An authentication ended; `result` is `success`, `failure` or `error`.
    fn authentication(
        &self,
        _cluster: &str,
        _method: &'static str,
        _result: &'static str,
        _cached: bool,
    ) {
    }
    /// A request met a limit; `limit` is the limit's configuration key.
    fn limited(&self, _cluster: &str, _limit: &'static str) {}
    /// A source of configuration was (re)loaded; `source` is a fixed word.
    fn reloaded(&self, _source: &'static str, _ok: bool) {}
    /// Objects that a source now holds, by state (`serving`, `refused`, `disabled`).
    fn clusters(&self, _serving: usize, _refused: usize, _disabled: usize) {}
}

impl Observer for () {}

/// A request's trace span. Dropped without [`RequestSpan::finish`], it says that the client left.
pub trait RequestSpan: Send {
    /// The `traceparent` that the upstream request carries.
    fn traceparent(&self) -> HeaderValue;
    /// Notes how long a stage took on the way in.
    fn stage(&mut self, stage: Stage, duration: Duration);
    /// Ends the span.
    fn finish(self: Box<Self>, verb: &str, resource: &str, outcome: &RequestOutcome<'_>);
}

/// Opens trace spans. The answer `None` means: this request is not traced, leave its headers be.
pub trait Tracing: Send + Sync + 'static {
    /// Starts a span below the client's own, if `headers` name one.
    fn start(&self, headers: &HeaderMap) -> Option<Box<dyn RequestSpan>>;
}

impl Tracing for () {
    fn start(&self, _headers: &HeaderMap) -> Option<Box<dyn RequestSpan>> {
        None
    }
}
