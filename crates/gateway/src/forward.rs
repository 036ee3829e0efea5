//! Stage 12: the request goes to the API server, the answer comes back as it is.
//!
//! In: [`Authorized`], so nothing gets here around a decision. Answers are streamed frame by frame
//! with back-pressure both ways; redirects are handed to the client, never followed.
//! Upstream counterpart: `k8s.io/apimachinery/pkg/util/proxy`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Response};
use http_body::Body as _;
use portcullis_authn::impersonation;
use portcullis_core::Error;
use portcullis_core::observer::{Observer, Stage, VerbClass};
use tower::Service;

use crate::Body;
use crate::authenticate::Caller;
use crate::authorize::Authorized;
use crate::cluster::Cluster;
use crate::lifecycle::Lifecycle;
use crate::pipeline::{Shared, StageFuture, StageResult};
use crate::request_info::{Target, UpgradeProtocol};

pub mod connect;
mod headers;
pub mod pool;
pub mod tls;
mod unary;
mod upgrade;

/// Deadlines towards the upstream.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until the head of the answer has come; not for long-running requests.
    pub request: Duration,
}

/// See the module.
#[derive(Clone)]
pub struct Forward(Arc<Innermost>);

struct Innermost {
    observer: Arc<dyn Observer>,
    timeouts: Timeouts,
    lifecycle: Lifecycle,
}

impl Forward {
    /// The innermost service.
    #[must_use]
    pub fn new(shared: &Shared) -> Self {
        Self(Arc::new(Innermost {
            observer: Arc::clone(&shared.observer),
            timeouts: shared.timeouts,
            lifecycle: shared.lifecycle.clone(),
        }))
    }
}

impl Service<Authorized> for Forward {
    type Response = Response<Body>;
    type Error = Error;
    type Future = StageFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, authorized: Authorized) -> StageFuture {
        Box::pin(forward(Arc::clone(&self.0), authorized))
    }
}

async fn forward(stage: Arc<Innermost>, authorized: Authorized) -> StageResult {
    let began = Instant::now();
    let (resolved, caller) = authorized.into_parts();
    let exchange = Arc::clone(resolved.exchange());
    let cluster = Arc::clone(resolved.cluster());
    let (class, long_running) = (resolved.class(), resolved.is_long_running());
    let (upgrade, target) = (resolved.upgrade(), resolved.target().clone());
    let mut request = resolved.into_request();

    headers::clean_request(request.headers_mut());
    introduce(request.headers_mut(), &cluster, &caller)?;
    headers::name_peer(request.headers_mut(), exchange.peer.address.ip());
    *request.uri_mut() = unary::upstream_target(cluster.path_prefix(), &target.path_and_query)?;
    let stream = long_running.then(|| OpenStream::new(&stage.observer, &cluster, class));

    let pool = cluster.pool_for(&caller)?;
    let mut response = match upgrade {
        Some(protocol) => {
            refuse_body(protocol, request.body())?;
            let limit = stage.timeouts.request;
            let lifecycle = &stage.lifecycle;
            // Boxed, as are the other rare ways: inline they make every request's future large.
            Box::pin(upgrade::send(
                pool.connector(),
                protocol,
                request,
                limit,
                lifecycle,
                stream,
            ))
            .await?
        }
        None => {
            let deadline = (!long_running).then_some(stage.timeouts.request);
            let observer = stage.observer.as_ref();
            let mut response = unary::send(pool, observer, deadline, request).await?;
            headers::clean_response(response.headers_mut());
            if class == VerbClass::Watch {
                let signal = stage.lifecycle.end_watches.clone().cancelled_owned();
                response.body_mut().end_at(signal);
            }
            if let Some(stream) = stream {
                response.body_mut().hold(stream);
            }
            response
        }
    };
    keep_below(&target, &cluster, response.headers_mut());
    cluster.note_answer(&caller, exchange.peer.address.ip(), response.status());
    exchange.stage_finished(Stage::Forward, began);
    Ok(response)
}

fn keep_below(target: &Target, cluster: &Cluster, headers: &mut HeaderMap) {
    unary::rewrite_location(headers, &target.prefix, cluster.path_prefix());
}

/// Sets who the upstream is to believe the caller is. All claims of the client are gone by now.
fn introduce(headers: &mut HeaderMap, cluster: &Cluster, caller: &Caller) -> Result<(), Error> {
    headers.remove(AUTHORIZATION);
    match caller {
        Caller::PassThrough {
            authorization,
            impersonation,
            ..
        } => {
            if let Some(authorization) = authorization {
                headers.insert(AUTHORIZATION, authorization.reveal().clone());
            }
            if let Some(impersonation) = impersonation {
                impersonation::forward_headers(impersonation, headers)?;
            }
        }
        Caller::Impersonate { user, .. } => {
            if let Some(authorization) = cluster.gateway_authorization()? {
                headers.insert(AUTHORIZATION, authorization);
            }
            impersonation::write_headers(user, headers)?;
        }
    }
    Ok(())
}

/// A body behind an upgrade would be taken for the first bytes of the tunnel by one side.
fn refuse_body(protocol: UpgradeProtocol, body: &Body) -> Result<(), Error> {
    if body.is_end_stream() || body.size_hint().exact() == Some(0) {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "a request to upgrade to {protocol:?} must not have a body"
    )))
}

/// Counts a long-running request for as long as it lasts.
struct OpenStream {
    observer: Arc<dyn Observer>,
    cluster: Arc<Cluster>,
    class: VerbClass,
}

impl OpenStream {
    fn new(observer: &Arc<dyn Observer>, cluster: &Arc<Cluster>, class: VerbClass) -> Self {
        observer.streams_changed(cluster.label(), class, 1);
        Self {
            observer: Arc::clone(observer),
            cluster: Arc::clone(cluster),
            class,
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.observer
            .streams_changed(self.cluster.label(), self.class, -1);
    }
}
