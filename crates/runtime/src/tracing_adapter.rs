//! Lets the gateway open spans without knowing OpenTelemetry.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use portcullis_core::observer::{RequestOutcome, RequestSpan, Stage, Tracing};
use portcullis_telemetry::{Span, TraceContext, Tracer};

/// Opens the spans of a [`Tracer`].
pub(crate) struct TracingAdapter(pub(crate) Tracer);

impl Tracing for TracingAdapter {
    fn start(&self, headers: &HeaderMap) -> Option<Box<dyn RequestSpan>> {
        let span = self.0.start(TraceContext::from_headers(headers))?;
        Some(Box::new(SpanAdapter(span)))
    }
}

struct SpanAdapter(Span);

impl RequestSpan for SpanAdapter {
    fn traceparent(&self) -> HeaderValue {
        self.0.context().to_header()
    }

    fn stage(&mut self, stage: Stage, duration: Duration) {
        self.0.stage(stage, duration);
    }

    fn finish(mut self: Box<Self>, verb: &str, resource: &str, outcome: &RequestOutcome<'_>) {
        self.0.set_cluster(outcome.cluster);
        self.0.set_request(verb, resource);
        self.0.finish(outcome.code, outcome.blame);
    }
}
