//! Stage 8: the operator's own rules, on the path that will really be called.
//!
//! In: `Authenticated`. Out: [`Authorized`], which only this stage constructs. What Kubernetes
//! RBAC allows is for the API server to say; this stage narrows it.

use std::task::{Context, Poll};
use std::time::Instant;

use http::Response;
use portcullis_core::Error;
use portcullis_core::observer::Stage;
use tower::{Layer, Service};

use crate::Body;
use crate::authenticate::{Authenticated, Caller};
use crate::pipeline::StageFuture;
use crate::request_info::Resolved;

/// A request that may be forwarded.
pub struct Authorized(Authenticated);

impl Authorized {
    /// The request and who sends it.
    #[must_use]
    pub fn into_parts(self) -> (Resolved, Caller) {
        self.0.into_parts()
    }
}

/// Builds [`Authorize`].
#[derive(Clone, Copy)]
pub struct AuthorizeLayer;

impl<S> Layer<S> for AuthorizeLayer {
    type Service = Authorize<S>;

    fn layer(&self, inner: S) -> Authorize<S> {
        Authorize { inner }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Authorize<S> {
    inner: S,
}

impl<S> Service<Authenticated> for Authorize<S>
where
    S: Service<Authorized, Response = Response<Body>, Error = Error, Future = StageFuture>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = StageFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Authenticated) -> StageFuture {
        let began = Instant::now();
        let decision = authorize(&request);
        request
            .resolved()
            .exchange()
            .stage_finished(Stage::Authorize, began);
        match decision {
            Ok(()) => self.inner.call(Authorized(request)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

fn authorize(request: &Authenticated) -> Result<(), Error> {
    let resolved = request.resolved();
    let cluster = resolved.cluster();
    if let Some(group) = cluster.proxy_group() {
        // The caller's own groups: a group that was only asked for by impersonation is a claim.
        let member = request.caller_identity().is_some_and(|u| u.in_group(group));
        if !member {
            let message = format!(
                "only members of a certain group may use cluster {}",
                cluster.label()
            );
            return Err(Error::forbidden(message));
        }
    }
    let info = resolved.info();
    let Some(allowed) = cluster.allowed_resources() else {
        return Ok(());
    };
    if allowed.allows(&info.path, info, request.effective_identity()) {
        return Ok(());
    }
    let message = format!(
        "{} on path {} is not allowed for cluster {}",
        info.verb,
        info.path,
        cluster.label()
    );
    Err(Error::forbidden(message))
}
