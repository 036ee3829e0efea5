//! What an upstream saw.
//!
//! Purpose: the evidence of every test that asks what reached the cluster, and how it ended.
//! Invariant: an entry is made when a request's head arrives, and completed in place.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Version};
use tokio::sync::Semaphore;

/// The most of a request's body that is kept.
const KEPT: usize = 64 * 1024;

/// One request.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The connection it came on, counted from 1.
    pub connection: usize,
    /// The HTTP version it came by.
    pub version: Version,
    /// The method.
    pub method: Method,
    /// Path and query, as sent.
    pub uri: String,
    /// The `Host` field or the `:authority`.
    pub host: String,
    /// The header fields, as sent.
    pub headers: HeaderMap,
    /// Bytes of body received.
    pub body_length: u64,
    /// The first 64 KiB of them.
    pub body: Vec<u8>,
    /// How the body ended.
    pub body_end: BodyEnd,
    /// Bytes of body sent in answer.
    pub reply_length: u64,
    /// How the answer ended.
    pub reply_end: ReplyEnd,
}

impl Seen {
    /// The first value of a header field, as text.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers
            .get(name)
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
    }
}

/// How a request's body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyEnd {
    /// It has not: it is still coming, or nobody reads it.
    Open,
    /// As its framing says.
    Complete,
    /// Before its framing's end; the error as hyper words it.
    Broken(String),
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// It has not.
    Open,
    /// It was given whole to the connection.
    Complete,
    /// It was dropped before its end: the client left, or the answer broke on purpose.
    Dropped,
}

/// Everything recorded so far.
#[derive(Debug)]
pub(super) struct Record {
    seen: Mutex<Vec<Arc<Mutex<Seen>>>>,
    tcp: AtomicUsize,
    tls: AtomicUsize,
    open: AtomicUsize,
    numbers: AtomicUsize,
    gate: Semaphore,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            tcp: AtomicUsize::default(),
            tls: AtomicUsize::default(),
            open: AtomicUsize::default(),
            numbers: AtomicUsize::default(),
            gate: Semaphore::new(0),
        }
    }
}

/// One entry, to complete.
#[derive(Debug, Clone)]
pub(super) struct Entry(Arc<Mutex<Seen>>);

impl Record {
    pub(super) fn enter(&self, connection: usize, head: &Parts) -> Entry {
        let host = head
            .headers
            .get("host")
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into());
        let authority = head.uri.authority().map(ToString::to_string);
        let seen = Arc::new(Mutex::new(Seen {
            connection,
            version: head.version,
            method: head.method.clone(),
            uri: head
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            host: host.or(authority).unwrap_or_default(),
            headers: head.headers.clone(),
            body_length: 0,
            body: Vec::new(),
            body_end: BodyEnd::Open,
            reply_length: 0,
            reply_end: ReplyEnd::Open,
        }));
        lock(&self.seen).push(Arc::clone(&seen));
        Entry(seen)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).iter().map(|s| lock(s).clone()).collect()
    }

    pub(super) fn forget(&self) {
        lock(&self.seen).clear();
        self.tcp.store(0, Ordering::SeqCst);
        self.tls.store(0, Ordering::SeqCst);
    }

    pub(super) fn connected(self: &Arc<Self>) -> Connection {
        self.tcp.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
        let number = self.numbers.fetch_add(1, Ordering::SeqCst) + 1;
        Connection {
            record: Arc::clone(self),
            number,
        }
    }

    pub(super) fn tcp(&self) -> usize {
        self.tcp.load(Ordering::SeqCst)
    }

    pub(super) fn tls(&self) -> usize {
        self.tls.load(Ordering::SeqCst)
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(super) fn gate(&self) -> &Semaphore {
        &self.gate
    }
}

/// Counts as open until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    record: Arc<Record>,
    pub(super) number: usize,
}

impl Connection {
    pub(super) fn handshaken(&self) {
        self.record.tls.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.record.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Entry {
    pub(super) fn body_piece(&self, piece: &Bytes) {
        let mut seen = lock(&self.0);
        seen.body_length += piece.len() as u64;
        let room = KEPT.saturating_sub(seen.body.len());
        seen.body.extend(piece.iter().take(room));
    }

    pub(super) fn body_ended(&self, end: BodyEnd) {
        lock(&self.0).body_end = end;
    }

    pub(super) fn reply_piece(&self, length: usize) {
        lock(&self.0).reply_length += length as u64;
    }

    pub(super) fn reply_ended(&self, end: ReplyEnd) {
        let mut seen = lock(&self.0);
        if seen.reply_end == ReplyEnd::Open {
            seen.reply_end = end;
        }
    }

    pub(super) fn snapshot(&self) -> Seen {
        lock(&self.0).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
