//! A request's way, on one page. Outer layers finish last, so the way back mirrors the way in.
//!
//! Each stage is one tower layer in a file of its own. A stage that decides something hands on a
//! type that only it can construct, so no path reaches [`forward`] around a decision:
//! `Received -> Resolved -> Authenticated -> Authorized`. A stage that refuses returns an
//! [`Error`] and calls nothing further in: such a request is never forwarded and is answered once.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use portcullis_core::Error;
use portcullis_core::observer::{Observer, Tracing};
use tower::Service;
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt as _};

use crate::Body;
use crate::audit_init::AuditInitLayer;
use crate::authenticate::AuthenticateLayer;
use crate::authorize::AuthorizeLayer;
use crate::cluster::Registry;
use crate::exchange::Peer;
use crate::flow_control::{FlowControl, FlowControlLayer};
use crate::forward::{Forward, Timeouts};
use crate::lifecycle::Lifecycle;
use crate::metrics::MetricsLayer;
use crate::request_info::RequestInfoLayer;
use crate::respond::RespondLayer;

/// What a stage's future resolves to: an answer, or the reason why there is none.
pub type StageResult = Result<Response<Body>, Error>;
/// A stage's future.
pub type StageFuture = std::pin::Pin<Box<dyn Future<Output = StageResult> + Send>>;

/// What the stages share.
#[derive(Clone)]
pub struct Shared {
    /// The clusters by path and by host.
    pub registry: Arc<Registry>,
    /// In-flight limits.
    pub flow_control: Arc<FlowControl>,
    /// Receives metrics.
    pub observer: Arc<dyn Observer>,
    /// Opens trace spans.
    pub tracing: Arc<dyn Tracing>,
    /// Deadlines towards the upstream.
    pub timeouts: Timeouts,
    /// How the gateway ends.
    pub lifecycle: Lifecycle,
}

/// The pipeline as one service; cloned per connection.
#[derive(Clone)]
pub struct Pipeline(
    BoxCloneSyncService<(Arc<Peer>, Request<Body>), Response<Body>, std::convert::Infallible>,
);

impl Pipeline {
    /// Stacks the stages, outermost first.
    #[must_use]
    pub fn new(shared: &Shared) -> Self {
        let stack = ServiceBuilder::new()
            // Outermost, so that every answer is counted and timed, refused ones included.
            .layer(MetricsLayer::new(
                Arc::clone(&shared.observer),
                Arc::clone(&shared.tracing),
            ))
            // Before anything can fail: every answer carries an Audit-ID, a panic becomes a 500.
            .layer(AuditInitLayer)
            // The one place where an error becomes a `metav1.Status`.
            .layer(RespondLayer)
            // Before authentication, as in kube-apiserver: who may authenticate how depends on
            // the cluster, and deadlines and limits depend on the verb.
            .layer(RequestInfoLayer::new(Arc::clone(&shared.registry)))
            // Who is it, and on whose behalf.
            .layer(AuthenticateLayer)
            // After authentication: rates are counted per user. In-flight limits are the gateway's.
            .layer(FlowControlLayer::new(
                Arc::clone(&shared.flow_control),
                Arc::clone(&shared.observer),
            ))
            // The operator's allow-list, on the path that will really be called.
            .layer(AuthorizeLayer)
            // Only an `Authorized` request gets here.
            .service(Forward::new(shared));
        Self(BoxCloneSyncService::new(stack))
    }

    /// Answers one request of `peer`. Every request has exactly one answer.
    pub async fn serve(&self, peer: Arc<Peer>, request: Request<Incoming>) -> Response<Body> {
        let request = request.map(Body::incoming);
        let mut service = self.0.clone();
        match service.ready().await {
            Ok(ready) => match ready.call((peer, request)).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Err(never) => match never {},
        }
    }
}
