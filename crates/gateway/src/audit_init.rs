//! Second bracket: gives the request its Audit-ID and turns a panic further in into a 500.
//!
//! In and out: `Received`. Upstream counterpart: `WithAuditInit` and `WithPanicRecovery`.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use http::{HeaderName, HeaderValue, Response};
use portcullis_core::Error;
use tower::{Layer, Service};

use crate::Body;
use crate::exchange::{Exchange, Received};
use crate::respond;

/// Carries the identifier of a request on all hops.
pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Longest Audit-ID taken from a client. Upstream takes any; ours ends up in logs.
const AUDIT_ID_BYTES_MAX: usize = 64;

/// Builds [`AuditInit`].
#[derive(Clone, Copy)]
pub struct AuditInitLayer;

impl<S> Layer<S> for AuditInitLayer {
    type Service = AuditInit<S>;

    fn layer(&self, inner: S) -> AuditInit<S> {
        AuditInit { inner }
    }
}

/// See the module.
#[derive(Clone)]
pub struct AuditInit<S> {
    inner: S,
}

impl<S> Service<Received> for AuditInit<S>
where
    S: Service<Received, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut received: Received) -> Self::Future {
        let mut id = audit_id(received.request.headers().get(AUDIT_ID));
        // Never twice the same: in the HPACK table it would only push out what is.
        id.set_sensitive(true);
        received.request.headers_mut().insert(AUDIT_ID, id.clone());
        let exchange = Arc::clone(&received.exchange);
        let _ = exchange.audit_id.set(id.clone());
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        // Stages decide in `call` as well as in their futures: both run inside the guard.
        let answer = AssertUnwindSafe(async move { inner.call(received).await }).catch_unwind();
        Box::pin(async move {
            let mut response = match answer.await {
                Ok(answer) => answer?,
                Err(_) => panicked(&exchange),
            };
            // The upstream repeats the ID it was given; where it does not, we do.
            response
                .headers_mut()
                .entry(AUDIT_ID)
                .or_insert(id)
                .set_sensitive(true);
            Ok(response)
        })
    }
}

fn panicked(exchange: &Exchange) -> Response<Body> {
    // The panic's own message may quote the request: only the place is logged, by the hook.
    let error = Error::internal("a stage panicked; see the log line of the panic");
    respond::log(&error, exchange);
    respond::to_response(&error, false)
}

fn audit_id(sent: Option<&HeaderValue>) -> HeaderValue {
    let usable = |v: &&HeaderValue| {
        let bytes = v.as_bytes();
        !bytes.is_empty()
            && bytes.len() <= AUDIT_ID_BYTES_MAX
            && bytes
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    if let Some(sent) = sent.filter(usable) {
        return sent.clone();
    }
    let mut text = uuid::Uuid::encode_buffer();
    let text = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_panic_further_in_becomes_a_500_with_its_audit_id() {
        let stage = AuditInitLayer.layer(service_fn(|_: Received| {
            std::panic::resume_unwind(Box::new("as if a stage had a fault"));
            #[allow(unreachable_code, reason = "gives the closure its type")]
            std::future::ready(Ok(Response::new(Body::empty())))
        }));
        let response = stage.oneshot(testing::received("GET", "/x")).await.unwrap();
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key(AUDIT_ID));
    }

    #[test]
    fn a_clients_audit_id_is_kept_unless_it_could_spoil_a_log() {
        let kept = HeaderValue::from_static("4f2a-1.x_y");
        assert_eq!(audit_id(Some(&kept)), kept);
        for odd in ["", "a b", "a\"b", &"x".repeat(AUDIT_ID_BYTES_MAX + 1)] {
            let sent = HeaderValue::from_str(odd).unwrap();
            assert_eq!(
                audit_id(Some(&sent)).len(),
                36,
                "{odd} is replaced by a UUID"
            );
        }
        let longest = HeaderValue::from_str(&"x".repeat(AUDIT_ID_BYTES_MAX)).unwrap();
        assert_eq!(audit_id(Some(&longest)), longest);
    }
}
