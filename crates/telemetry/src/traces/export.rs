//! From finished spans to the collector.
//!
//! Purpose: a bounded queue and batches in a task of the runtime. The SDK's own batch processor
//! would do, but it occupies a thread and does not tell what it dropped.
//! Invariant: a request never waits for the collector. A full queue drops the span and counts it.

use std::time::Duration;

use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::KeyValue;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{
    Protocol, SpanExporter as Otlp, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{TraceError, TraceOptions};
use crate::metrics::SpanCounters;

/// Spans that may wait; about 1 KiB each.
pub(super) const QUEUE: usize = 2048;
/// Spans in one request to the collector.
const BATCH: usize = 512;
/// How long a span may wait for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The sending end.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Message>,
    counters: SpanCounters,
}

#[derive(Debug)]
enum Message {
    Span(Box<SpanData>),
    Flush(oneshot::Sender<()>),
}

impl Queue {
    /// Starts the exporting task on the current runtime.
    pub(super) fn start(
        options: &TraceOptions<'_>,
        counters: &SpanCounters,
    ) -> Result<Self, TraceError> {
        let exporter = exporter(options)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(run(receiver, exporter, counters.clone()));
        Ok(Self {
            sender,
            counters: counters.clone(),
        })
    }

    pub(super) fn push(&self, span: Box<SpanData>) {
        if self.sender.try_send(Message::Span(span)).is_err() {
            self.counters.dropped.inc();
        }
    }

    /// Waits until all that was pushed before was sent or `limit` has passed.
    pub(super) async fn flush(&self, limit: Duration) {
        let (done, wait) = oneshot::channel();
        let flush = async {
            if self.sender.send(Message::Flush(done)).await.is_ok() {
                let _sent_or_gone = wait.await;
            }
        };
        if timeout(limit, flush).await.is_err() {
            tracing::warn!(
                ?limit,
                "the trace collector did not take the last spans in time"
            );
        }
    }
}

async fn run(mut queue: mpsc::Receiver<Message>, exporter: Otlp, counters: SpanCounters) {
    while let Some(first) = queue.recv().await {
        let deadline = Instant::now() + BATCH_DELAY;
        let (mut batch, mut flush) = (Vec::new(), None);
        let mut next = Some(first);
        while let Some(message) = next.take() {
            match message {
                Message::Span(span) => batch.push(*span),
                Message::Flush(done) => flush = Some(done),
            }
            if batch.len() < BATCH && flush.is_none() {
                next = timeout_at(deadline, queue.recv()).await.ok().flatten();
            }
        }
        export(&exporter, batch, &counters).await;
        if let Some(done) = flush {
            let _no_longer_waiting = done.send(());
        }
    }
}

async fn export(exporter: &Otlp, batch: Vec<SpanData>, counters: &SpanCounters) {
    let spans = batch.len() as u64;
    if spans == 0 {
        return;
    }
    match exporter.export(batch).await {
        Ok(()) => {
            counters.exported.inc_by(spans);
        }
        Err(error) => {
            counters.failed.inc_by(spans);
            tracing::warn!(spans, %error, "the trace collector did not take spans");
        }
    }
}

fn exporter(options: &TraceOptions<'_>) -> Result<Otlp, TraceError> {
    let endpoint = endpoint(options.endpoint)?;
    let refuse = |reason: String| TraceError::Endpoint {
        endpoint: options.endpoint.to_owned(),
        reason,
    };
    let builder = Otlp::builder().with_http();
    let builder = if endpoint.starts_with("https:") {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| refuse(format!("system certificates: {error}")))?;
        let connector = tls.https_only().enable_http1().build();
        builder.with_http_client(HyperClient::new(connector, EXPORT_TIMEOUT, None))
    } else {
        builder.with_http_client(HyperClient::new(HttpConnector::new(), EXPORT_TIMEOUT, None))
    };
    let mut exporter = builder
        .with_endpoint(endpoint)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| refuse(error.to_string()))?;
    exporter.set_resource(
        &Resource::builder_empty()
            .with_service_name("portcullis")
            .with_attribute(KeyValue::new("service.version", options.version))
            .build(),
    );
    Ok(exporter)
}

/// The URL of the traces service: `endpoint` is a base, as in `OTEL_EXPORTER_OTLP_ENDPOINT`.
pub(super) fn endpoint(endpoint: &str) -> Result<String, TraceError> {
    let refuse = |reason: &str| {
        Err(TraceError::Endpoint {
            endpoint: endpoint.to_owned(),
            reason: reason.to_owned(),
        })
    };
    let Ok(uri) = endpoint.parse::<http::Uri>() else {
        return refuse("not a URL");
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return refuse("the scheme must be http or https");
    }
    if uri.query().is_some() {
        return refuse("a query is not allowed");
    }
    let base = endpoint.trim_end_matches('/');
    let path = if base.ends_with("/v1/traces") {
        ""
    } else {
        "/v1/traces"
    };
    Ok(format!("{base}{path}"))
}
