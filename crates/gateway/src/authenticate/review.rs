//! Questions to the API server about callers: token and access reviews.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use portcullis_core::{Blame, Error};

use crate::Body;
use crate::forward::connect::ConnectError;
use crate::forward::pool::Pool;

/// A review's answer holds one user; the user of very many groups fits ten times.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// From the question to the last byte of the answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Posts a review and returns its answer's status and body.
///
/// # Errors
/// 503 or 504 by the upstream if there is no answer: never a statement about the caller.
pub(super) async fn post(
    pool: &Arc<Pool>,
    path_prefix: &str,
    path: &str,
    authorization: Option<HeaderValue>,
    question: Vec<u8>,
) -> Result<(StatusCode, Bytes), Error> {
    let label = pool.connector().label();
    tokio::time::timeout(
        DEADLINE,
        ask(pool, path_prefix, path, authorization, question),
    )
    .await
    .unwrap_or_else(|_| {
        let message = format!(
            "the API server of cluster {label} did not answer a review within {DEADLINE:?}"
        );
        Err(Error::upstream_timeout(message))
    })
}

async fn ask(
    pool: &Arc<Pool>,
    path_prefix: &str,
    path: &str,
    authorization: Option<HeaderValue>,
    question: Vec<u8>,
) -> Result<(StatusCode, Bytes), Error> {
    let label = pool.connector().label();
    let unreachable = |e: ConnectError| e.to_error(label);
    let broken = |detail: String| {
        let message = format!("the API server of cluster {label} did not answer a review");
        Error::unavailable(Blame::Upstream, message).with_detail(detail)
    };
    let uri = Uri::try_from(format!("{path_prefix}{path}"))
        .map_err(|e| Error::internal(format!("review path {path}: {e}")))?;
    let request = |question: Vec<u8>| {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION"))),
        );
        headers.insert(CONTENT_LENGTH, HeaderValue::from(question.len()));
        if let Some(authorization) = &authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        *request.body_mut() = Body::full(question);
        request
    };
    let lease = pool.checkout().await.map_err(unreachable)?;
    let reused = lease.reused();
    let (response, _place) = match lease.send(request(question.clone())).await {
        Ok(answer) => answer,
        // A review changes nothing, so a second try on a fresh connection is safe.
        Err(_) if reused => {
            let lease = pool.checkout_fresh().await.map_err(unreachable)?;
            lease
                .send(request(question))
                .await
                .map_err(|e| broken(e.error.to_string()))?
        }
        Err(failed) => return Err(broken(failed.error.to_string())),
    };
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await;
    Ok((status, body.map_err(|e| broken(e.to_string()))?.to_bytes()))
}
