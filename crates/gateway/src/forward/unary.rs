//! Requests that are answered on a pooled connection: everything but upgrades.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use portcullis_core::observer::{Observer, PoolEvent};
use portcullis_core::{Blame, Error, status::Reason};

use super::pool::{Pool, SendError};
use crate::Body;

/// Sends `request`, at most twice, and returns the head of the answer with the place it occupies.
///
/// The second try happens only where the first cannot have had an effect: not a byte was sent, or
/// a request that only reads was lost on a connection that had been idle.
pub(super) async fn send(
    pool: &Arc<Pool>,
    observer: &dyn Observer,
    deadline: Option<Duration>,
    request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let label = pool.connector().label();
    let answer = attempt_twice(pool, observer, request);
    match deadline {
        None => answer.await,
        Some(limit) => tokio::time::timeout(limit, answer)
            .await
            .unwrap_or_else(|_| {
                let message =
                    format!("the API server of cluster {label} did not answer within {limit:?}");
                Err(Error::upstream_timeout(message))
            }),
    }
}

async fn attempt_twice(
    pool: &Arc<Pool>,
    observer: &dyn Observer,
    request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let label = pool.connector().label();
    let replay = Replay::of(&request);
    let lease = pool.checkout().await.map_err(|e| e.to_error(label))?;
    let reused = lease.reused();
    let failed = match lease.send(request).await {
        Ok((response, place)) => return receive(label, response, place),
        Err(failed) => failed,
    };
    let again = match (reused, failed.unsent, replay) {
        (true, Some(request), _) => request,
        (true, None, Some(replay)) if !was_aborted(failed.error.as_ref()) => replay.into_request(),
        (_, unsent, _) => return Err(unanswered(label, unsent.is_some(), failed.error.as_ref())),
    };
    observer.pool(label, PoolEvent::Retried);
    let lease = pool.checkout_fresh().await.map_err(|e| e.to_error(label))?;
    match lease.send(again).await {
        Ok((response, place)) => receive(label, response, place),
        Err(failed) => {
            let SendError { unsent, error } = *failed;
            Err(unanswered(label, unsent.is_some(), error.as_ref()))
        }
    }
}

fn receive(
    label: &str,
    response: Response<Incoming>,
    place: impl Send + 'static,
) -> Result<Response<Body>, Error> {
    let (parts, incoming) = response.into_parts();
    if parts.status.is_informational() {
        // Handed on, a 101 would make the client's connection a tunnel that nobody asked for.
        let message =
            format!("the API server of cluster {label} switched protocols without being asked");
        return Err(Error::new(
            Blame::Upstream,
            502,
            Reason::InternalError,
            message,
        ));
    }
    let mut body = Body::incoming(incoming);
    body.hold(place);
    Ok(Response::from_parts(parts, body))
}

fn unanswered(label: &str, unsent: bool, error: &(dyn std::error::Error + 'static)) -> Error {
    let detail = error_chain(error);
    if unsent {
        let message = format!(
            "the API server of cluster {label} closed the connection before the request was sent"
        );
        return Error::unavailable(Blame::Upstream, message).with_detail(detail);
    }
    let message = format!(
        "the API server of cluster {label} closed the connection without an answer; whether the request took effect is unknown"
    );
    Error::new(Blame::Upstream, 502, Reason::InternalError, message).with_detail(detail)
}

/// Whether the upstream ended this one request and not the connection under it: it has seen the
/// request, and would end it again.
fn was_aborted(error: &(dyn std::error::Error + 'static)) -> bool {
    let cause = error
        .source()
        .and_then(|source| source.downcast_ref::<h2::Error>());
    cause.is_some_and(|e| e.is_reset() && e.reason() != Some(h2::Reason::REFUSED_STREAM))
}

fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The head of a request that only reads and has no body, kept to send it again.
struct Replay {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl Replay {
    fn of(request: &Request<Body>) -> Option<Self> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        (reads && request.body().is_end_stream()).then(|| Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
        })
    }

    fn into_request(self) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

/// The target to call: `path_and_query` below the upstream's own path prefix, byte by byte.
pub(super) fn upstream_target(path_prefix: &str, path_and_query: &str) -> Result<Uri, Error> {
    let mut target = String::with_capacity(path_prefix.len() + path_and_query.len());
    target.push_str(path_prefix);
    target.push_str(path_and_query);
    Uri::from_maybe_shared(Bytes::from(target))
        .map_err(|e| Error::bad_request(format!("the request target cannot be forwarded: {e}")))
}

/// Keeps a redirect within the cluster's path: the API server knows nothing of our prefix. The
/// gateway itself never follows one.
pub(super) fn rewrite_location(headers: &mut HeaderMap, own_prefix: &str, upstream_prefix: &str) {
    if own_prefix.is_empty() && upstream_prefix.is_empty() {
        return;
    }
    let Some(location) = headers.get(LOCATION).and_then(|v| v.to_str().ok()) else {
        return;
    };
    // `//host/path` names another host; only a path of the same server is ours to rewrite.
    if !location.starts_with('/') || location.starts_with("//") {
        return;
    }
    let below = match location.strip_prefix(upstream_prefix) {
        Some(rest) if rest.starts_with('/') => rest,
        _ if upstream_prefix.is_empty() => location,
        _ => return,
    };
    if let Ok(value) = HeaderValue::try_from(format!("{own_prefix}{below}")) {
        headers.insert(LOCATION, value);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        "/clusters/a/b",
        "",
        "/openapi/v3/api/v1?hash=X",
        "/clusters/a/b/openapi/v3/api/v1?hash=X"
    )]
    #[case("/clusters/a/b", "/k8s", "/k8s/openapi", "/clusters/a/b/openapi")]
    #[case("/clusters/a/b", "/k8s", "/k8svil", "/k8svil")]
    #[case("/clusters/a/b", "", "//evil.example/x", "//evil.example/x")]
    #[case(
        "/clusters/a/b",
        "",
        "https://evil.example/x",
        "https://evil.example/x"
    )]
    #[case("", "/k8s", "/k8s/openapi", "/openapi")]
    #[case("", "", "/openapi", "/openapi")]
    fn a_redirect_stays_below_the_clusters_path(
        #[case] own: &str,
        #[case] upstream: &str,
        #[case] location: &'static str,
        #[case] expected: &str,
    ) {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_static(location));
        rewrite_location(&mut headers, own, upstream);
        assert_eq!(headers[LOCATION], expected);
    }

    #[test]
    fn the_target_is_passed_on_byte_by_byte_below_the_prefix() {
        let uri = upstream_target("/pfx/a", "/a%2Fb;c=d//e?x=%2B&y=a+b&z=%zz").unwrap();
        assert_eq!(uri.to_string(), "/pfx/a/a%2Fb;c=d//e?x=%2B&y=a+b&z=%zz");
    }
}
