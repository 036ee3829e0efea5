//! What Portcullis tells about itself: metrics, logs, traces and the admin port.
//!
//! Purpose: one place that knows Prometheus, `tracing` and OpenTelemetry, so that engines and
//! stages need only [`portcullis_core::observer::Observer`].
//! Invariant: no token, header or body reaches a metric, a log line or a span; every label has a
//! bounded set of values and every queue a bounded length.
//! Upstream counterpart: `k8s.io/component-base` (`metrics`, `logs`, `tracing`) and
//! `k8s.io/apiserver/pkg/server/healthz`.

pub mod metrics;
pub mod logs;
pub mod traces;
pub mod admin;

pub use admin::{ConditionHandle, Readiness};
pub use metrics::Metrics;
pub use traces::{Span, TraceContext, Tracer};
