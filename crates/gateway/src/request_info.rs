//! Stage 4: which cluster, and what is asked of it.
//!
//! In: `Received`. Out: [`Resolved`], which only this stage constructs. Fails with 404 for an
//! unknown cluster and 400 for a path that two hops could read in two ways.
//! Upstream counterpart: `WithRequestInfo`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, Request, Response, Version};
use portcullis_core::observer::{Stage, VerbClass};
use portcullis_core::request_info::{PathError, clean_path};
use portcullis_core::{Blame, Error, RequestInfo};
use portcullis_index::ClusterState;
use tower::{Layer, Service};

use crate::Body;
use crate::cluster::{Cluster, Registry};
use crate::exchange::{Exchange, Facts, Received};
use crate::pipeline::{StageFuture, StageResult};

/// Prefix of the paths under which clusters answer.
pub const CLUSTERS_PREFIX: &str = "/clusters/";

/// A request whose cluster and meaning are known. Boxed: it is handed from stage to stage by value.
pub struct Resolved(Box<Parts>);

struct Parts {
    received: Received,
    cluster: Arc<Cluster>,
    info: RequestInfo,
    target: Target,
    upgrade: Option<UpgradeProtocol>,
}

/// The client's request line, split at the cluster's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `/clusters/<namespace>/<name>`, or empty when the cluster was named by host.
    pub prefix: String,
    /// Raw path and query behind the prefix; starts with `/`.
    pub path_and_query: String,
}

/// A protocol that a connection may be upgraded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeProtocol {
    /// RFC 6455.
    WebSocket,
    /// The older framing of exec, attach and port-forward.
    Spdy31,
}

impl Resolved {
    /// What is asked.
    #[must_use]
    pub fn info(&self) -> &RequestInfo {
        &self.0.info
    }

    /// The cluster it is asked of.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.0.cluster
    }

    /// Shared with the bracketing layers.
    #[must_use]
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.0.received.exchange
    }

    /// The request as the client sent it.
    #[must_use]
    pub fn request(&self) -> &Request<Body> {
        &self.0.received.request
    }

    /// The request, for the stage that takes the credential out of it.
    pub(crate) fn request_mut(&mut self) -> &mut Request<Body> {
        &mut self.0.received.request
    }

    /// The request line behind the cluster's prefix.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// The protocol that the client wants to switch to, if it may.
    #[must_use]
    pub fn upgrade(&self) -> Option<UpgradeProtocol> {
        self.0.upgrade
    }

    /// Verb class.
    #[must_use]
    pub fn class(&self) -> VerbClass {
        self.0.info.verb_class()
    }

    /// Whether it stays open for as long as the client likes.
    #[must_use]
    pub fn is_long_running(&self) -> bool {
        self.0.info.is_long_running()
    }

    /// Takes the request out, for the stage that sends it on.
    pub(crate) fn into_request(self) -> Request<Body> {
        self.0.received.request
    }
}

/// Builds [`ResolveRequestInfo`].
#[derive(Clone)]
pub struct RequestInfoLayer {
    registry: Arc<Registry>,
}

impl RequestInfoLayer {
    /// Looks clusters up in `registry`.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }
}

impl<S> Layer<S> for RequestInfoLayer {
    type Service = ResolveRequestInfo<S>;

    fn layer(&self, inner: S) -> ResolveRequestInfo<S> {
        ResolveRequestInfo {
            inner,
            registry: Arc::clone(&self.registry),
        }
    }
}

/// See the module.
#[derive(Clone)]
pub struct ResolveRequestInfo<S> {
    inner: S,
    registry: Arc<Registry>,
}

impl<S> Service<Received> for ResolveRequestInfo<S>
where
    S: Service<Resolved, Response = Response<Body>, Error = Error, Future = StageFuture>,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = StageFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, received: Received) -> StageFuture {
        let began = Instant::now();
        let exchange = Arc::clone(&received.exchange);
        let resolved = resolve(&self.registry, received);
        exchange.stage_finished(Stage::RequestInfo, began);
        match resolved {
            Ok(resolved) => self.inner.call(resolved),
            Err(error) => Box::pin(std::future::ready(StageResult::Err(error))),
        }
    }
}

fn resolve(registry: &Registry, received: Received) -> Result<Resolved, Error> {
    let request = &received.request;
    if request.method() == Method::CONNECT {
        return Err(Error::bad_request(
            "CONNECT is not served: this is a gateway, not a forward proxy",
        ));
    }
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        return Err(Error::bad_request(
            "the request has more than one Host header",
        ));
    }
    if !is_plainly_framed(request.headers()) {
        return Err(Error::bad_request(
            "the only transfer coding that is undone here is chunked",
        ));
    }
    let raw_path = request.uri().path();
    let (cluster, prefix) = locate(registry, request, raw_path)?;
    let query = request.uri().query();
    let rest = raw_path
        .get(prefix.len()..)
        .filter(|p| !p.is_empty())
        .unwrap_or("/");
    let path = clean_path(rest).map_err(|e| refuse_path(e, &cluster))?;
    let info = RequestInfo::new(request.method().as_str(), &path, query)
        .map_err(|e| refuse_path(e, &cluster))?;
    let path_and_query = match query {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let target = Target {
        prefix: prefix.to_owned(),
        path_and_query,
    };
    let upgrade = if info.is_long_running() {
        wanted_upgrade(request)
    } else {
        None
    };
    let facts = Facts {
        cluster: Arc::clone(&cluster),
        class: info.verb_class(),
        verb: info.verb.clone(),
        resource: info.resource.clone(),
    };
    let _ = received.exchange.facts.set(facts);
    match cluster.state() {
        ClusterState::Serving => {}
        // To a caller a disabled cluster does not exist.
        ClusterState::Disabled => return Err(unknown_cluster()),
        ClusterState::Refused { reason } => {
            let message = format!("cluster {} is not served: {reason}", cluster.label());
            return Err(Error::unavailable(Blame::Config, message));
        }
    }
    Ok(Resolved(Box::new(Parts {
        received,
        cluster,
        info,
        target,
        upgrade,
    })))
}

/// Whether the body is as its sender meant it once hyper has taken `chunked` off: any other coding
/// would still be on it, and nothing would say so any more.
fn is_plainly_framed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        _ => false,
    }
}

/// Finds the cluster by host name or by path; returns it with the prefix of the path that is ours.
fn locate<'r>(
    registry: &Registry,
    request: &'r Request<Body>,
    path: &'r str,
) -> Result<(Arc<Cluster>, &'r str), Error> {
    if let Some(cluster) = host(request).and_then(|h| registry.by_host(h)) {
        return Ok((cluster, ""));
    }
    let Some(rest) = path.strip_prefix(CLUSTERS_PREFIX) else {
        return Err(Error::not_found(
            "the gateway serves clusters under /clusters/<namespace>/<name>/ and by their host names",
        ));
    };
    // The key stands in the path as `<namespace>/<name>`, which is how the registry stores it.
    let namespace_end = rest.find('/').ok_or_else(unknown_cluster)?;
    let name = rest.get(namespace_end + 1..).unwrap_or_default();
    let key_end = namespace_end + 1 + name.find('/').unwrap_or(name.len());
    let key = rest.get(..key_end).unwrap_or_default();
    let cluster = registry.by_key(key).ok_or_else(unknown_cluster)?;
    Ok((
        cluster,
        path.get(..CLUSTERS_PREFIX.len() + key_end)
            .unwrap_or_default(),
    ))
}

/// Host that the client asked for, without its port. HTTP/2 has it in the URI.
fn host(request: &Request<Body>) -> Option<&str> {
    if let Some(host) = request.uri().host() {
        return Some(host);
    }
    let value = request.headers().get(HOST)?.to_str().ok()?;
    Some(match value.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => value,
    })
}

fn unknown_cluster() -> Error {
    // The same answer whether the cluster is unknown or disabled: no oracle.
    Error::not_found("the gateway does not know this cluster")
}

fn refuse_path(error: PathError, cluster: &Cluster) -> Error {
    let message = format!(
        "the request for cluster {} is refused: {error}",
        cluster.label()
    );
    Error::bad_request(message)
}

/// The protocol to switch to; `None` unless the client asks by the book (RFC 9110 section 7.8).
fn wanted_upgrade(request: &Request<Body>) -> Option<UpgradeProtocol> {
    let asks = request.version() == Version::HTTP_11 && has_token(request.headers(), "upgrade");
    let mut protocols = request.headers().get_all(UPGRADE).iter();
    let protocol = protocols.next()?.to_str().ok()?;
    if !asks || protocols.next().is_some() {
        return None;
    }
    // Anything else (h2c above all) is ignored, as RFC 9110 allows: the request is ordinary.
    match protocol {
        p if p.eq_ignore_ascii_case("websocket") => Some(UpgradeProtocol::WebSocket),
        p if p.eq_ignore_ascii_case("spdy/3.1") => Some(UpgradeProtocol::Spdy31),
        _ => None,
    }
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let values = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok());
    values
        .flat_map(|v| v.split(','))
        .any(|t| t.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
