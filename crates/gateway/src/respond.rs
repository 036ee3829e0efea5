//! The one place where an error becomes an answer: a `metav1.Status` with the code, reason and
//! headers that client-go acts on.
//!
//! In: `Received`. Upstream counterpart: `responsewriters.ErrorNegotiated`. The body is JSON
//! whatever the client prefers: kubectl, client-go and the generated clients all accept it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Response, StatusCode};
use portcullis_core::error::whole_seconds;
use portcullis_core::{Blame, Error};
use tower::{Layer, Service};

use crate::Body;
use crate::exchange::{Exchange, Received};
use crate::metrics::BlameMark;

/// Builds [`Respond`].
#[derive(Clone, Copy)]
pub struct RespondLayer;

impl<S> Layer<S> for RespondLayer {
    type Service = Respond<S>;

    fn layer(&self, inner: S) -> Respond<S> {
        Respond { inner }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Respond<S> {
    inner: S,
}

impl<S> Service<Received> for Respond<S>
where
    S: Service<Received, Response = Response<Body>, Error = Error>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // No stage waits for capacity: a stage that is full says so with an error.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, received: Received) -> Self::Future {
        let exchange = Arc::clone(&received.exchange);
        let head = received.request.method() == Method::HEAD;
        let answer = self.inner.call(received);
        Box::pin(async move {
            Ok(answer.await.unwrap_or_else(|error| {
                log(&error, &exchange);
                to_response(&error, head)
            }))
        })
    }
}

/// The answer for `error`; without its body for a HEAD request.
pub(crate) fn to_response(error: &Error, head: bool) -> Response<Body> {
    let json = serde_json::to_vec(&error.status).unwrap_or_default();
    let length = HeaderValue::from(json.len());
    let mut response = Response::new(if head {
        Body::empty()
    } else {
        Body::full(json)
    });
    *response.status_mut() =
        StatusCode::from_u16(error.status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, length);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if error.challenge {
        headers.insert(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"portcullis\""),
        );
    }
    if let Some(wait) = error.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
    response.extensions_mut().insert(BlameMark(error.blame));
    response
}

/// Logs a refusal or failure; refusals of the client's own making only at `debug`.
pub(crate) fn log(error: &Error, exchange: &Exchange) {
    let audit_id = exchange
        .audit_id
        .get()
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    let (cluster, code) = (exchange.cluster_label(), error.status.code);
    let (blame, peer) = (error.blame.as_str(), exchange.peer.address);
    match error.blame {
        Blame::Client | Blame::Policy => {
            tracing::debug!(audit_id, cluster, code, blame, %peer, "request refused: {error}");
        }
        Blame::Upstream | Blame::Config => {
            tracing::warn!(audit_id, cluster, code, blame, %peer, "request failed: {error}");
        }
        Blame::Internal => {
            tracing::error!(audit_id, cluster, code, blame, %peer, "request failed: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_refusal_is_a_status_with_the_headers_clients_act_on() {
        let response = to_response(
            &Error::too_many_requests("slow down", Duration::from_millis(1500)),
            false,
        );
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
        assert_eq!(status["details"]["retryAfterSeconds"], 2);
    }

    #[tokio::test]
    async fn a_head_request_gets_the_length_and_no_body() {
        let response = to_response(&Error::unauthorized(), true);
        assert_ne!(response.headers()[CONTENT_LENGTH], "0");
        assert!(response.headers().contains_key(WWW_AUTHENTICATE));
        assert!(
            response
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .is_empty()
        );
    }
}
