//! The admin port: plain HTTP/1.1, for probes and scrapers inside the trust boundary.
//!
//! | Path | Answer |
//! |---|---|
//! | `/livez` | 200 `ok` while the process can answer at all |
//! | `/readyz` | 200 `ok`, or 500 with the conditions that fail |
//! | `/metrics` | OpenMetrics or Prometheus text, as `Accept` asks |
//!
//! `?verbose` lists every condition, `?exclude=NAME` (repeatable) leaves one out.
//!
//! Invariant: no caller can make this port use more than its connections and their time limits, and
//! nothing here reads a request's body.
//! Upstream counterpart: `k8s.io/apiserver/pkg/server/healthz`.

mod readiness;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use portcullis_core::observer::Observer as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Metrics;
use readiness::Report;
pub use readiness::{ConditionHandle, Readiness};

/// Probes and scrapers are few; what comes above this is closed at once.
const MAX_CONNECTIONS: usize = 64;
/// For each request's head, so also the longest idle time between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// For a connection as a whole, so that a peer that does not read its answer goes away too.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of a request's head.
const MAX_HEAD: usize = 16 * 1024;
/// Pause after an `accept` that failed, as it does without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const NOSNIFF: HeaderName = http::header::X_CONTENT_TYPE_OPTIONS;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

type Body = http_body_util::Full<hyper::body::Bytes>;

/// The admin port, bound and not yet served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
    pages: Arc<Pages>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    header: Duration,
}

#[derive(Debug)]
struct Pages {
    readiness: Readiness,
    metrics: Arc<Metrics>,
}

impl Server {
    /// Binds `address`; port 0 lets the system choose, see [`Server::local_addr`].
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        readiness: Readiness,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let limits = Limits {
            connections: MAX_CONNECTIONS,
            header: HEADER_TIMEOUT,
        };
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            listener,
            limits,
            pages: Arc::new(Pages { readiness, metrics }),
        })
    }

    /// The address that was bound.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` resolves; then open connections are closed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            listener,
            limits,
            pages,
        } = self;
        let slots = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => return,
                Some(_ended) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _peer)) => {
                    let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                        pages.metrics.connection_refused("adminConnections");
                        continue;
                    };
                    let connection = serve(stream, limits.header, Arc::clone(&pages));
                    connections.spawn(async move {
                        connection.await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin port could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, header_timeout: Duration, pages: Arc<Pages>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = pages.answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // How a prober's connection ends concerns nobody; both outcomes close it.
    let _closed = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

impl Pages {
    fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let page = match request.uri().path() {
            "/livez" => {
                let report = Report {
                    ok: true,
                    lines: "[+]ping ok\n".to_owned(),
                };
                health("livez", &report, query)
            }
            "/readyz" => health("readyz", &self.readiness.report(&excluded(query)), query),
            "/metrics" => self.metrics(request),
            _ => text(
                StatusCode::NOT_FOUND,
                "404: try /livez, /readyz or /metrics\n",
            ),
        };
        if page.status() == StatusCode::NOT_FOUND
            || matches!(*request.method(), Method::GET | Method::HEAD)
        {
            return page;
        }
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "405: use GET\n");
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        refused
    }

    fn metrics<B>(&self, request: &Request<B>) -> Response<Body> {
        let mut accepted = request.headers().get_all(ACCEPT).iter();
        let open_metrics = accepted.any(|accept| {
            accept
                .to_str()
                .is_ok_and(|accept| accept.contains("application/openmetrics-text"))
        });
        let mut page = text(StatusCode::OK, self.metrics.encode(open_metrics));
        let content_type = if open_metrics {
            OPEN_METRICS
        } else {
            PROMETHEUS
        };
        page.headers_mut().insert(CONTENT_TYPE, content_type);
        page
    }
}

/// As kube-apiserver answers: `ok`, or the conditions if asked or if one fails.
fn health(name: &str, report: &Report, query: &str) -> Response<Body> {
    let lines = &report.lines;
    if !report.ok {
        let body = format!("{lines}{name} check failed\n");
        return text(StatusCode::INTERNAL_SERVER_ERROR, body);
    }
    if parameters(query).any(|(key, _)| key == "verbose") {
        return text(StatusCode::OK, format!("{lines}{name} check passed\n"));
    }
    text(StatusCode::OK, "ok")
}

fn excluded(query: &str) -> Vec<&str> {
    parameters(query)
        .filter(|(key, _)| *key == "exclude")
        .map(|(_, value)| value)
        .collect()
}

fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn text(status: StatusCode, body: impl Into<hyper::body::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests;
