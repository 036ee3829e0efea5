//! Stage 1: connections. TCP, TLS, protocol, limits; each request of a connection enters the
//! pipeline.
//!
//! Failure: a connection over a limit is closed before it costs anything. Limits on what one
//! connection may do (headers, streams, resets, silence) are set here and enforced by hyper.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{CONNECTION, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use portcullis_authn::x509;
use portcullis_core::observer::Observer;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::exchange::Peer;
use crate::lifecycle::Lifecycle;
use crate::pipeline::Pipeline;
use crate::workers::{Place, Workers};

pub mod tls;

/// Header lines per request; client-go sends about a dozen, a caller in many groups one per group
/// when it impersonates.
const HEADER_LINES_MAX: usize = 512;
/// Bytes a client may send on one request before the upstream has taken them.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of answers buffered per stream for a client that reads slowly.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Streams that a client may open and reset again before they were handled (rapid reset).
const PENDING_RESETS_MAX: usize = 20;
/// Streams that the gateway may have to reset for a client's faults before it closes.
const LOCAL_RESETS_MAX: usize = 200;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after the process ran out of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Limits of the listener; keys of `GatewayConfiguration.limits`.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// `maxConnections`.
    pub connections: usize,
    /// `maxConcurrentStreams`.
    pub concurrent_streams: u32,
    /// `maxHeaderBytes`.
    pub header_bytes: usize,
    /// `tlsHandshakeTimeout`.
    pub tls_handshake_timeout: Duration,
    /// `headerReadTimeout`.
    pub header_read_timeout: Duration,
}

/// The gateway's listener.
pub struct Acceptor {
    listener: TcpListener,
    tls: Arc<ArcSwap<ServerConfig>>,
    limits: ConnectionLimits,
    permits: Arc<Semaphore>,
    observer: Arc<dyn Observer>,
    lifecycle: Lifecycle,
    workers: Arc<Workers>,
}

impl Acceptor {
    /// Binds `address`.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        tls: Arc<ArcSwap<ServerConfig>>,
        limits: ConnectionLimits,
        observer: Arc<dyn Observer>,
        lifecycle: Lifecycle,
        workers: Arc<Workers>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let permits = Arc::new(Semaphore::new(limits.connections));
        Ok(Self {
            listener,
            tls,
            limits,
            permits,
            observer,
            lifecycle,
            workers,
        })
    }

    /// The address really bound, with its port.
    ///
    /// # Errors
    /// If the socket is gone.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections until the lifecycle shuts down.
    pub async fn run(self, pipeline: Pipeline) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.lifecycle.shutdown.cancelled() => return,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("accepting a connection failed: {error}");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                    continue;
                }
            };
            let (Ok(permit), Some(place)) = (
                Arc::clone(&self.permits).try_acquire_owned(),
                self.workers.place(),
            ) else {
                self.observer.connection_refused("maxConnections");
                continue;
            };
            // The socket is taken off this thread's event queue and put on the worker's.
            let Ok(stream) = stream.into_std() else {
                continue;
            };
            let worker = place.runtime.clone();
            let connection = Connection {
                tls: TlsAcceptor::from(self.tls.load_full()),
                limits: self.limits,
                observer: Arc::clone(&self.observer),
                lifecycle: self.lifecycle.clone(),
                address,
                _held: (permit, place),
            };
            let pipeline = pipeline.clone();
            let serving = async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => connection.serve(stream, pipeline).await,
                    Err(error) => tracing::warn!("a connection cannot be served: {error}"),
                }
            };
            self.lifecycle.tasks.spawn_on(serving, &worker);
        }
    }
}

struct Connection {
    tls: TlsAcceptor,
    limits: ConnectionLimits,
    observer: Arc<dyn Observer>,
    lifecycle: Lifecycle,
    address: SocketAddr,
    _held: (OwnedSemaphorePermit, Place),
}

impl Connection {
    async fn serve(self, stream: TcpStream, pipeline: Pipeline) {
        // The last bytes of a small answer must not wait for the client's acknowledgement.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let handshake = self.tls.accept(stream);
        let stream = match tokio::time::timeout(self.limits.tls_handshake_timeout, handshake).await
        {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.observer.connection_refused("tlsHandshake");
                tracing::debug!(peer = %self.address, "TLS handshake failed: {error}");
                return;
            }
            Err(_) => {
                self.observer.connection_refused("tlsHandshakeTimeout");
                return;
            }
        };
        self.observer.connections_changed(1);
        let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::ALPN_H2);
        let peer = Arc::new(self.peer(&stream));
        let served = if http2 {
            self.serve_http2(stream, peer, pipeline).await
        } else {
            self.serve_http1(stream, peer, pipeline).await
        };
        if let Err(error) = served {
            tracing::debug!(peer = %self.address, "connection ended: {error}");
        }
        self.observer.connections_changed(-1);
    }

    fn peer(&self, stream: &TlsStream<TcpStream>) -> Peer {
        // The chain was verified in the handshake; a certificate without a user name is no login.
        let certificate = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(|chain| chain.first())
            .and_then(|leaf| x509::user_from_certificate(leaf.as_ref()).ok().flatten())
            .map(Arc::new);
        Peer {
            address: self.address,
            certificate,
        }
    }

    async fn serve_http2(
        &self,
        stream: TlsStream<TcpStream>,
        peer: Arc<Peer>,
        pipeline: Pipeline,
    ) -> hyper::Result<()> {
        let begun = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&begun);
        let service = service_fn(move |request| {
            asked.store(true, Ordering::Relaxed);
            let (pipeline, peer) = (pipeline.clone(), Arc::clone(&peer));
            async move { Ok::<_, Infallible>(pipeline.serve(peer, request).await) }
        });
        let header_bytes = u32::try_from(self.limits.header_bytes).unwrap_or(u32::MAX);
        // h2 refuses a list of exactly the size it is given.
        let header_bytes = header_bytes.saturating_add(1);
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.concurrent_streams)
            .max_header_list_size(header_bytes)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(LOCAL_RESETS_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // hyper's own timers start with the preface, and none of them waits for a whole head.
        let first_request = tokio::time::sleep(self.limits.header_read_timeout);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = self.lifecycle.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
            () = first_request => if !begun.load(Ordering::Relaxed) {
                self.observer.connection_refused("headerReadTimeout");
                return Ok(());
            },
        }
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = self.lifecycle.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = connection => ended,
            () = self.lifecycle.abort.cancelled() => Ok(()),
        }
    }

    async fn serve_http1(
        &self,
        stream: TlsStream<TcpStream>,
        peer: Arc<Peer>,
        pipeline: Pipeline,
    ) -> hyper::Result<()> {
        let service = service_fn(move |request: Request<Incoming>| {
            let (pipeline, peer) = (pipeline.clone(), Arc::clone(&peer));
            let last = is_last(&request);
            async move {
                let mut response = pipeline.serve(peer, request).await;
                if last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_read_timeout)
            .max_headers(HEADER_LINES_MAX)
            .max_header_size(self.limits.header_bytes)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = self.lifecycle.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = connection => ended,
            () = self.lifecycle.abort.cancelled() => Ok(()),
        }
    }
}

/// Whether what stands behind a request on its connection must not be taken for a request.
///
/// Behind an upgrade or a CONNECT that is refused stand bytes of the tunnel. A transfer coding may
/// have stood beside a length, which hyper has taken off by now and an earlier hop may have
/// believed (RFC 9112 section 6.1 asks to close).
fn is_last(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let upgrades = |value: &HeaderValue| {
        value.to_str().is_ok_and(|v| {
            v.split(',')
                .any(|t| t.trim().eq_ignore_ascii_case("upgrade"))
        })
    };
    request.method() == Method::CONNECT
        || headers.contains_key(TRANSFER_ENCODING)
        || (headers.contains_key(UPGRADE) && headers.get_all(CONNECTION).iter().any(upgrades))
}
