//! Stage 7: how much at once, and how much per minute.
//!
//! In and out: `Authenticated`. Requests over a limit are answered 429 with `Retry-After` at once;
//! nothing queues. Failed logins are counted where they happen, in `authenticate`.
//! Upstream counterpart: `WithMaxInFlightLimit`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Response;
use portcullis_core::Error;
use portcullis_core::observer::{Observer, Stage, VerbClass};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};

use crate::Body;
use crate::authenticate::Authenticated;
use crate::pipeline::StageFuture;

pub mod ban;
pub mod rate;

/// In-flight limits; keys of `GatewayConfiguration.limits`.
#[derive(Clone, Copy, Debug)]
pub struct InFlightLimits {
    /// `maxRequestsInFlight`: requests that read and end.
    pub read: usize,
    /// `maxMutatingRequestsInFlight`: requests that write.
    pub mutate: usize,
    /// `maxLongRunningRequests`: watches, exec, log -f, ...
    pub long_running: usize,
}

/// The gateway-wide limits.
#[derive(Debug)]
pub struct FlowControl {
    limits: InFlightLimits,
    read: Arc<Semaphore>,
    mutate: Arc<Semaphore>,
    long_running: Arc<Semaphore>,
}

impl FlowControl {
    /// Nothing in flight yet.
    #[must_use]
    pub fn new(limits: InFlightLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            read: Arc::new(Semaphore::new(limits.read)),
            mutate: Arc::new(Semaphore::new(limits.mutate)),
            long_running: Arc::new(Semaphore::new(limits.long_running)),
        })
    }

    /// Requests in flight that will end by themselves.
    #[must_use]
    pub fn short_requests_in_flight(&self) -> usize {
        let read = self
            .limits
            .read
            .saturating_sub(self.read.available_permits());
        let mutate = self
            .limits
            .mutate
            .saturating_sub(self.mutate.available_permits());
        read + mutate
    }

    fn admit(&self, class: VerbClass) -> Result<OwnedSemaphorePermit, &'static str> {
        let (semaphore, limit) = match class {
            VerbClass::Read => (&self.read, "maxRequestsInFlight"),
            VerbClass::Mutate => (&self.mutate, "maxMutatingRequestsInFlight"),
            VerbClass::Watch | VerbClass::Connect => (&self.long_running, "maxLongRunningRequests"),
        };
        Arc::clone(semaphore).try_acquire_owned().map_err(|_| limit)
    }
}

/// Builds [`LimitFlow`].
#[derive(Clone)]
pub struct FlowControlLayer {
    flow_control: Arc<FlowControl>,
    observer: Arc<dyn Observer>,
}

impl FlowControlLayer {
    /// Shares `flow_control` among all connections.
    #[must_use]
    pub fn new(flow_control: Arc<FlowControl>, observer: Arc<dyn Observer>) -> Self {
        Self {
            flow_control,
            observer,
        }
    }
}

impl<S> Layer<S> for FlowControlLayer {
    type Service = LimitFlow<S>;

    fn layer(&self, inner: S) -> LimitFlow<S> {
        LimitFlow {
            inner,
            layer: self.clone(),
        }
    }
}

/// See the module.
#[derive(Clone)]
pub struct LimitFlow<S> {
    inner: S,
    layer: FlowControlLayer,
}

impl<S> Service<Authenticated> for LimitFlow<S>
where
    S: Service<Authenticated, Response = Response<Body>, Error = Error, Future = StageFuture>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = StageFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Authenticated) -> StageFuture {
        let began = Instant::now();
        let exchange = Arc::clone(request.resolved().exchange());
        let class = request.resolved().class();
        let admitted = self.admit(&request, class, began);
        exchange.stage_finished(Stage::FlowControl, began);
        let permit = match admitted {
            Ok(permit) => permit,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let in_flight = InFlight::new(&self.layer.observer, class, permit);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            // In flight until the last byte of the answer, as the body is where the work is.
            response.body_mut().hold(in_flight);
            Ok(response)
        })
    }
}

impl<S> LimitFlow<S> {
    fn admit(
        &self,
        request: &Authenticated,
        class: VerbClass,
        now: Instant,
    ) -> Result<OwnedSemaphorePermit, Error> {
        let cluster = request.resolved().cluster();
        let refuse = |limit, wait, message: &str| {
            self.layer.observer.limited(cluster.label(), limit);
            Error::too_many_requests(message, wait)
        };
        let address = request.resolved().exchange().peer.address.ip();
        if let Err(wait) = cluster.within_rate(request.caller_identity(), address, now) {
            let message = "too many requests per minute, please try again later";
            return Err(refuse("rate_limiting", wait, message));
        }
        // kube-apiserver's own answer has the same text and the same second.
        self.layer.flow_control.admit(class).map_err(|limit| {
            refuse(
                limit,
                Duration::from_secs(1),
                "Too many requests, please try again later.",
            )
        })
    }
}

/// Held until the answer has ended.
struct InFlight {
    observer: Arc<dyn Observer>,
    class: VerbClass,
    _permit: OwnedSemaphorePermit,
}

impl InFlight {
    fn new(observer: &Arc<dyn Observer>, class: VerbClass, permit: OwnedSemaphorePermit) -> Self {
        observer.in_flight_changed(class, 1);
        Self {
            observer: Arc::clone(observer),
            class,
            _permit: permit,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.observer.in_flight_changed(self.class, -1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_a_limit_of_its_own_met_exactly() {
        let control = FlowControl::new(InFlightLimits {
            read: 1,
            mutate: 1,
            long_running: 1,
        });
        for (class, key) in [
            (VerbClass::Read, "maxRequestsInFlight"),
            (VerbClass::Mutate, "maxMutatingRequestsInFlight"),
            (VerbClass::Watch, "maxLongRunningRequests"),
        ] {
            let held = control.admit(class).unwrap();
            assert_eq!(control.admit(class).unwrap_err(), key);
            drop(held);
            assert!(control.admit(class).is_ok());
        }
        assert_eq!(control.short_requests_in_flight(), 0);
    }
}
