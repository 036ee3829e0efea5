//! Connections to one upstream, shared by all requests of one worker that go there with one TLS
//! identity.
//!
//! HTTP/2 where the upstream speaks it: few connections, many streams, never more streams on a
//! connection than the upstream allows (a stream too many would wait behind idle watches for
//! ever). HTTP/1.1 otherwise: one request at a time, returned when its answer has ended.
//! Invariant: no lock is held while the network is waited for.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use portcullis_core::observer::{Observer, PoolEvent};

use super::connect::{ALPN_H2, ConnectError, Connector};
use crate::Body;
use crate::body::BodyError;

/// Streams that one HTTP/2 connection carries at most, whatever more the upstream would allow.
const STREAMS_PER_CONNECTION_MAX: usize = 128;
/// Bytes that the upstream may send on one stream before the client has taken them. Bounds what
/// a client that does not read costs.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// Every stream may be full at once and the connection still moves: one tenant's unread answers
/// cannot stop another's.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * (STREAMS_PER_CONNECTION_MAX as u32 + 1);
/// Read ahead on an HTTP/1.1 connection for a client that does not take its answer.
const HTTP1_BUFFER_BYTES: usize = 128 * 1024;
/// Connections per pool.
const CONNECTIONS_MAX: usize = 256;
/// Idle HTTP/1.1 connections kept per pool.
const IDLE_HTTP1_MAX: usize = 64;
/// An unused connection is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// client-go's figures for finding a dead HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// See the module.
pub struct Pool {
    connector: Arc<Connector>,
    observer: Arc<dyn Observer>,
    state: Mutex<State>,
    /// Held while dialing, so that a burst opens one connection and not a hundred.
    dialing: tokio::sync::Mutex<()>,
    epoch: Instant,
}

#[derive(Default)]
struct State {
    http2: Vec<Arc<Http2>>,
    http1: Vec<Idle>,
    /// HTTP/1.1 connections in existence, idle or not.
    http1_open: usize,
    /// Counts failed dials; a waiter that sees it move shares the failure instead of repeating it.
    failures: u64,
    last_failure: Option<ConnectError>,
}

/// An HTTP/1.1 connection that waits for a request.
struct Idle {
    sender: http1::SendRequest<Body>,
    opened: Instant,
    since: Instant,
}

struct Http2 {
    opened: Instant,
    sender: http2::SendRequest<Body>,
    streams: AtomicUsize,
    /// Streams that the upstream allows; it may change its mind at any time.
    streams_max: Arc<AtomicUsize>,
    /// Milliseconds since the pool's epoch.
    last_used: AtomicU64,
}

/// A place on a connection. Give it back by dropping it, once the answer has ended.
pub struct Lease {
    pool: Arc<Pool>,
    kind: LeaseKind,
    reused: bool,
}

enum LeaseKind {
    Http2(StreamSlot),
    Http1(Http1Slot),
}

struct StreamSlot(Arc<Http2>);

struct Http1Slot {
    sender: Option<http1::SendRequest<Body>>,
    opened: Instant,
    pool: Weak<Pool>,
}

/// A request that got no answer.
pub struct SendError {
    /// The request, if not one byte of it was sent: it is then safe to send it again.
    pub unsent: Option<Request<Body>>,
    /// What happened.
    pub error: BodyError,
}

impl Pool {
    /// A pool without connections.
    #[must_use]
    pub fn new(connector: Arc<Connector>, observer: Arc<dyn Observer>) -> Arc<Self> {
        let pool = Arc::new(Self {
            connector,
            observer,
            state: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            epoch: Instant::now(),
        });
        tokio::spawn(reap(Arc::downgrade(&pool)));
        pool
    }

    /// How connections are opened, for upgrades, which are never pooled.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// A place for one request; opens a connection only if there is none with room.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn checkout(self: &Arc<Self>) -> Result<Lease, ConnectError> {
        self.checkout_opened_from(self.epoch).await
    }

    /// As [`Pool::checkout`] on a connection that is opened from now on: one request found its
    /// connection stale, and others of that age may be as stale and not know it yet.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn checkout_fresh(self: &Arc<Self>) -> Result<Lease, ConnectError> {
        self.checkout_opened_from(Instant::now()).await
    }

    async fn checkout_opened_from(self: &Arc<Self>, from: Instant) -> Result<Lease, ConnectError> {
        let seen_failures = self.state().failures;
        if let Some(lease) = self.try_checkout(from) {
            return Ok(lease);
        }
        // Boxed: the handshakes' state is large, and hardly a request needs it.
        Box::pin(self.wait_or_dial(from, seen_failures)).await
    }

    async fn wait_or_dial(
        self: &Arc<Self>,
        from: Instant,
        seen_failures: u64,
    ) -> Result<Lease, ConnectError> {
        let _dialing = self.dialing.lock().await;
        if let Some(lease) = self.try_checkout(from) {
            return Ok(lease);
        }
        {
            let state = self.state();
            if state.failures != seen_failures
                && let Some(error) = &state.last_failure
            {
                return Err(error.clone());
            }
            if state.http2.len() + state.http1_open >= CONNECTIONS_MAX {
                return Err(ConnectError::Exhausted(CONNECTIONS_MAX));
            }
        }
        let dialed = self.dial().await;
        if let Err(error) = &dialed {
            self.report(PoolEvent::Failed);
            let mut state = self.state();
            state.failures += 1;
            state.last_failure = Some(error.clone());
        }
        dialed
    }

    fn try_checkout(self: &Arc<Self>, from: Instant) -> Option<Lease> {
        let mut state = self.state();
        state.http2.retain(|c| !c.sender.is_closed());
        let kind = if let Some(connection) = state.roomiest(from) {
            connection.streams.fetch_add(1, Ordering::Relaxed);
            connection.last_used.store(self.now(), Ordering::Relaxed);
            LeaseKind::Http2(StreamSlot(connection))
        } else {
            let idle = loop {
                let at = state.http1.iter().rposition(|idle| idle.opened >= from)?;
                let idle = state.http1.remove(at);
                if idle.sender.is_ready() {
                    break idle;
                }
            };
            LeaseKind::Http1(Http1Slot {
                sender: Some(idle.sender),
                opened: idle.opened,
                pool: Arc::downgrade(self),
            })
        };
        drop(state);
        self.report(PoolEvent::Reused);
        Some(Lease {
            pool: Arc::clone(self),
            kind,
            reused: true,
        })
    }

    async fn dial(self: &Arc<Self>) -> Result<Lease, ConnectError> {
        let stream = self.connector.connect().await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_H2);
        let http = |e| ConnectError::Http(Arc::new(e));
        let io = TokioIo::new(stream);
        let kind = if http2 {
            let (sender, mut connection) = http2_settings().handshake(io).await.map_err(http)?;
            let streams_max = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
            let seen = Arc::clone(&streams_max);
            let driven = std::future::poll_fn(move |cx| {
                let ended = Pin::new(&mut connection).poll(cx);
                seen.store(connection.current_max_send_streams(), Ordering::Relaxed);
                ended
            });
            self.drive(driven, false);
            let connection = Arc::new(Http2 {
                opened: Instant::now(),
                sender,
                streams: AtomicUsize::new(1),
                streams_max,
                last_used: AtomicU64::new(self.now()),
            });
            self.state().http2.push(Arc::clone(&connection));
            LeaseKind::Http2(StreamSlot(connection))
        } else {
            let (sender, connection) = http1_settings().handshake(io).await.map_err(http)?;
            self.drive(connection, true);
            self.state().http1_open += 1;
            LeaseKind::Http1(Http1Slot {
                sender: Some(sender),
                opened: Instant::now(),
                pool: Arc::downgrade(self),
            })
        };
        self.report(PoolEvent::Opened);
        Ok(Lease {
            pool: Arc::clone(self),
            kind,
            reused: false,
        })
    }

    /// Runs a connection to its end.
    fn drive<C>(self: &Arc<Self>, connection: C, http1: bool)
    where
        C: Future<Output = hyper::Result<()>> + Send + 'static,
    {
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            let ended = connection.await;
            let Some(pool) = pool.upgrade() else { return };
            if let Err(error) = ended {
                tracing::debug!(
                    cluster = pool.connector.label(),
                    "upstream connection ended: {error}"
                );
            }
            if http1 {
                let mut state = pool.state();
                state.http1_open = state.http1_open.saturating_sub(1);
            }
            pool.report(PoolEvent::Closed);
        });
    }

    fn report(&self, event: PoolEvent) {
        self.observer.pool(self.connector.label(), event);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held; if something did, the lists are still sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn close_idle(&self) {
        let limit = u64::try_from(IDLE_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let now = self.now();
        let mut state = self.state();
        state.http2.retain(|c| {
            let idle = now.saturating_sub(c.last_used.load(Ordering::Relaxed)) > limit;
            !(idle && c.streams.load(Ordering::Relaxed) == 0)
        });
        state
            .http1
            .retain(|idle| idle.sender.is_ready() && idle.since.elapsed() < IDLE_TIMEOUT);
    }
}

impl State {
    /// The connection with most room, of those opened at or after `from`, if one has room.
    fn roomiest(&self, from: Instant) -> Option<Arc<Http2>> {
        let free = |c: &&Arc<Http2>| {
            let limit = c
                .streams_max
                .load(Ordering::Relaxed)
                .min(STREAMS_PER_CONNECTION_MAX);
            c.opened >= from && c.streams.load(Ordering::Relaxed) < limit
        };
        let load = |c: &&Arc<Http2>| c.streams.load(Ordering::Relaxed);
        self.http2
            .iter()
            .filter(free)
            .min_by_key(load)
            .map(Arc::clone)
    }
}

impl Lease {
    /// Whether the connection had served before: only then may it have gone stale unnoticed.
    #[must_use]
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Sends `request` and waits for the head of its answer. The second value holds the place
    /// on the connection: keep it until the answer has ended.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(
        self,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, impl Send + 'static), Box<SendError>> {
        let mut kind = self.kind;
        let http2 = matches!(kind, LeaseKind::Http2(_));
        self.pool.connector.address(&mut request, http2);
        let sent = match &mut kind {
            LeaseKind::Http2(slot) => slot.0.sender.clone().try_send_request(request).await,
            LeaseKind::Http1(slot) => match &mut slot.sender {
                Some(sender) => sender.try_send_request(request).await,
                None => {
                    let error = "the connection was given back".into();
                    return Err(Box::new(SendError {
                        unsent: Some(request),
                        error,
                    }));
                }
            },
        };
        match sent {
            Ok(response) => Ok((response, kind)),
            Err(mut e) => {
                let unsent = e.take_message();
                Err(Box::new(SendError {
                    unsent,
                    error: e.into_error().into(),
                }))
            }
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Http1Slot {
    fn drop(&mut self) {
        let (Some(mut sender), Ok(runtime)) =
            (self.sender.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let (pool, opened) = (Weak::clone(&self.pool), self.opened);
        if sender.is_closed() {
            return;
        }
        // The connection is ready again a moment after its answer has ended.
        runtime.spawn(async move {
            if sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                let mut state = pool.state();
                if state.http1.len() < IDLE_HTTP1_MAX {
                    state.http1.push(Idle {
                        sender,
                        opened,
                        since: Instant::now(),
                    });
                }
            }
        });
    }
}

fn http2_settings() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        // An API server's answer to a user in many groups has long Warning and Link headers.
        .max_header_list_size(1024 * 1024);
    builder
}

/// How HTTP/1.1 is spoken to an upstream, pooled or upgraded.
pub(super) fn http1_settings() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HTTP1_BUFFER_BYTES);
    builder
}

async fn reap(pool: Weak<Pool>) {
    let mut tick = tokio::time::interval(IDLE_TIMEOUT / 3);
    loop {
        tick.tick().await;
        match pool.upgrade() {
            Some(pool) => pool.close_idle(),
            None => return,
        }
    }
}
