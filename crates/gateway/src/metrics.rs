//! Outermost bracket: counts, times and traces every request, refused ones included.
//!
//! In: a request with its peer. Out: `Received` without an Audit-ID yet ([`crate::audit_init`]
//! sets it). Upstream counterpart: `filterlatency` and `WithMetrics` of `k8s.io/apiserver`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderName, Request, Response};
use portcullis_core::Blame;
use portcullis_core::observer::{Observer, RequestOutcome, Tracing};
use tower::{Layer, Service};

use crate::Body;
use crate::exchange::{Exchange, Peer, Received};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Whose fault a refused request was; `respond` leaves it on the answer for the metrics.
#[derive(Clone, Copy)]
pub(crate) struct BlameMark(pub(crate) Blame);

/// Builds [`Metrics`].
#[derive(Clone)]
pub struct MetricsLayer {
    observer: Arc<dyn Observer>,
    tracing: Arc<dyn Tracing>,
}

impl MetricsLayer {
    /// Reports to `observer`; opens spans with `tracing`.
    #[must_use]
    pub fn new(observer: Arc<dyn Observer>, tracing: Arc<dyn Tracing>) -> Self {
        Self { observer, tracing }
    }
}

impl<S> Layer<S> for MetricsLayer {
    type Service = Metrics<S>;

    fn layer(&self, inner: S) -> Metrics<S> {
        Metrics {
            inner,
            layer: self.clone(),
        }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Metrics<S> {
    inner: S,
    layer: MetricsLayer,
}

type Answer = Result<Response<Body>, Infallible>;

impl<S> Service<(Arc<Peer>, Request<Body>)> for Metrics<S>
where
    S: Service<Received, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, (peer, mut request): (Arc<Peer>, Request<Body>)) -> Self::Future {
        let span = self.layer.tracing.start(request.headers());
        if let Some(span) = &span {
            request
                .headers_mut()
                .insert(TRACEPARENT, span.traceparent());
        }
        let exchange = Arc::new(Exchange {
            received: Instant::now(),
            audit_id: OnceLock::new(),
            peer,
            facts: OnceLock::new(),
            observer: Arc::clone(&self.layer.observer),
            stages: Default::default(),
        });
        let answer = self.inner.call(Received {
            exchange: Arc::clone(&exchange),
            request,
        });
        Box::pin(async move {
            let mut response = answer.await?;
            let blame = response
                .extensions_mut()
                .remove::<BlameMark>()
                .map(|mark| mark.0);
            let facts = exchange.facts.get();
            let outcome = RequestOutcome {
                cluster: exchange.cluster_label(),
                class: facts.map(|f| f.class),
                code: response.status().as_u16(),
                duration: exchange.received.elapsed(),
                blame,
            };
            exchange.observer.request_finished(&outcome);
            if let Some(mut span) = span {
                for (stage, took) in exchange.stages() {
                    span.stage(stage, took);
                }
                let (verb, resource) = facts.map_or(("", ""), |f| (&f.verb, &f.resource));
                span.finish(verb, resource, &outcome);
            }
            Ok(response)
        })
    }
}
