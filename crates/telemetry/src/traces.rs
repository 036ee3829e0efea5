//! One span per request, sent by OTLP over HTTP.
//!
//! Purpose: let an operator see a request between its caller and the API server, in the trace both
//! belong to.
//! Invariant: a span holds cluster, verb, resource, code, blame and stage timings: no name of a
//! user, no header, no body. A request that is not sampled costs one comparison.
//! Upstream counterpart: `k8s.io/component-base/tracing`.

mod context;
mod export;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::SpanData;
use portcullis_core::Blame;
use portcullis_core::observer::Stage;

pub use context::{TRACEPARENT, TraceContext};

use crate::Metrics;
use export::Queue;

/// Longest attribute that comes from a request, in bytes.
const MAX_ATTRIBUTE: usize = 256;

/// What a [`Tracer`] needs to know.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions<'a> {
    /// Base URL of an OTLP/HTTP collector; `/v1/traces` is appended. Headers for it may be given in
    /// the environment variable `OTEL_EXPORTER_OTLP_HEADERS`.
    pub endpoint: &'a str,
    /// Share of requests to record among those whose caller did not decide; 0 to 1.
    pub sampling_ratio: f64,
    /// Version of the program.
    pub version: &'static str,
}

impl TraceOptions<'_> {
    /// Checks the options without starting anything, for `portcullis check`.
    ///
    /// # Errors
    /// If the endpoint is no usable URL or the ratio is not between 0 and 1.
    pub fn check(&self) -> Result<(), TraceError> {
        if !(0.0..=1.0).contains(&self.sampling_ratio) {
            return Err(TraceError::Ratio(self.sampling_ratio));
        }
        export::endpoint(self.endpoint).map(drop)
    }
}

/// Why tracing could not start.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The endpoint cannot be used.
    #[error(
        "tracing.endpoint: {endpoint:?} cannot be used ({reason}): give the base URL of an \
         OTLP/HTTP collector, such as \"http://127.0.0.1:4318\""
    )]
    Endpoint {
        /// What was configured.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The ratio is no share.
    #[error("tracing.samplingRatio: {0} is not between 0 and 1")]
    Ratio(f64),
}

/// Decides which requests are recorded, and records them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tracer {
    /// Absent if tracing is off.
    recording: Option<Arc<Recording>>,
}

#[derive(Debug)]
struct Recording {
    queue: Queue,
    /// A new trace is recorded if its random number is below this; 2^64 would be "always".
    threshold: u128,
    scope: InstrumentationScope,
}

impl Tracer {
    /// A tracer that records nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self { recording: None }
    }

    /// Starts the exporting task on the current Tokio runtime, and counts spans in `metrics`.
    ///
    /// # Errors
    /// As [`TraceOptions::check`], and if an `https` endpoint finds no system certificates.
    pub fn start_exporting(
        options: &TraceOptions<'_>,
        metrics: &Metrics,
    ) -> Result<Self, TraceError> {
        options.check()?;
        let scope = InstrumentationScope::builder("portcullis")
            .with_version(options.version)
            .build();
        let recording = Recording {
            queue: Queue::start(options, metrics.spans())?,
            threshold: (options.sampling_ratio * 2_f64.powi(64)) as u128,
            scope,
        };
        Ok(Self {
            recording: Some(Arc::new(recording)),
        })
    }

    /// Begins a span, unless this request is not to be recorded.
    ///
    /// A parent decides for its children, in both directions; without one the ratio does. Where
    /// there is a span, send [`Span::context`] upstream; where there is none, leave the caller's
    /// own header as it is.
    #[must_use]
    pub fn start(&self, parent: Option<TraceContext>) -> Option<Span> {
        let recording = self.recording.as_ref()?;
        let context = match parent {
            Some(parent) => parent.sampled().then(|| parent.child())?,
            None => {
                let sampled = u128::from(rand::random::<u64>()) < recording.threshold;
                sampled.then(|| TraceContext::root(true))?
            }
        };
        let open = Open {
            recording: Arc::clone(recording),
            context,
            parent,
            started: SystemTime::now(),
            clock: Instant::now(),
            name: None,
            attributes: Vec::with_capacity(10),
        };
        Some(Span {
            context,
            open: Some(Box::new(open)),
        })
    }

    /// Waits until the spans finished so far were sent, at most for `limit`.
    pub async fn flush(&self, limit: Duration) {
        if let Some(recording) = &self.recording {
            recording.queue.flush(limit).await;
        }
    }
}

/// The recording of one request. Dropped without [`Span::finish`], it says that the caller left.
#[must_use = "a span that is dropped at once records a request that was cancelled"]
pub struct Span {
    context: TraceContext,
    open: Option<Box<Open>>,
}

struct Open {
    recording: Arc<Recording>,
    context: TraceContext,
    parent: Option<TraceContext>,
    started: SystemTime,
    clock: Instant,
    name: Option<String>,
    attributes: Vec<KeyValue>,
}

impl Span {
    /// What to send upstream as `traceparent`.
    #[must_use]
    pub const fn context(&self) -> TraceContext {
        self.context
    }

    /// The cluster the request is for, as `namespace/name`.
    pub fn set_cluster(&mut self, cluster: &str) {
        self.attribute(KeyValue::new("portcullis.cluster", bounded(cluster)));
    }

    /// What the request does: `verb` as in `RequestInfo`, `resource` as `group/resource` or empty
    /// for a path that is none. Together they name the span.
    pub fn set_request(&mut self, verb: &str, resource: &str) {
        let (verb, resource) = (bounded(verb), bounded(resource));
        if let Some(open) = &mut self.open {
            open.name = Some(format!("{verb} {resource}").trim_end().to_owned());
        }
        self.attribute(KeyValue::new("portcullis.verb", verb));
        self.attribute(KeyValue::new("portcullis.resource", resource));
    }

    /// Time a stage spent on the way in.
    pub fn stage(&mut self, stage: Stage, duration: Duration) {
        let key = match stage {
            Stage::RequestInfo => "portcullis.stage.request_info.duration_us",
            Stage::Authenticate => "portcullis.stage.authenticate.duration_us",
            Stage::FlowControl => "portcullis.stage.flow_control.duration_us",
            Stage::Authorize => "portcullis.stage.authorize.duration_us",
            Stage::Forward => "portcullis.stage.forward.duration_us",
        };
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        self.attribute(KeyValue::new(key, micros));
    }

    /// Ends the span with the code sent, and the blame if the gateway refused or failed.
    pub fn finish(mut self, code: u16, blame: Option<Blame>) {
        self.attribute(KeyValue::new("http.response.status_code", i64::from(code)));
        if let Some(blame) = blame {
            self.attribute(KeyValue::new("error.type", blame.as_str()));
        }
        // As OpenTelemetry's HTTP conventions have it for servers: a 4xx is no error of ours.
        let status = if code >= 500 {
            Status::error("")
        } else {
            Status::Unset
        };
        self.close(status);
    }

    fn attribute(&mut self, attribute: KeyValue) {
        if let Some(open) = &mut self.open {
            // Each key is set at most once a request; a retry must not grow the span.
            match open
                .attributes
                .iter_mut()
                .find(|known| known.key == attribute.key)
            {
                Some(known) => *known = attribute,
                None => open.attributes.push(attribute),
            }
        }
    }

    fn close(&mut self, status: Status) {
        if let Some(open) = self.open.take() {
            open.close(status);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.close(Status::error("the caller left before it was answered"));
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl Open {
    fn close(self, status: Status) {
        let span = SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(self.context.trace_id()),
                SpanId::from_bytes(self.context.span_id()),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: self.parent.map_or(SpanId::INVALID, |parent| {
                SpanId::from_bytes(parent.span_id())
            }),
            parent_span_is_remote: self.parent.is_some(),
            span_kind: SpanKind::Server,
            name: self.name.map_or("request".into(), Into::into),
            start_time: self.started,
            end_time: self.started + self.clock.elapsed(),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status,
            instrumentation_scope: self.recording.scope.clone(),
        };
        self.recording.queue.push(Box::new(span));
    }
}

/// `text`, cut to [`MAX_ATTRIBUTE`] bytes.
fn bounded(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_ATTRIBUTE))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests;
