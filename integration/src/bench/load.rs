//! A closed loop of clients for a slice of time.
//!
//! Purpose: latency, throughput and processor time of one way in one scenario.
//! Invariants: connections are open and the first answer is in before the clock starts; a client
//! asks again only when it has read the last answer to its end.

use std::time::{Duration, Instant};

use http::Uri;
use tokio::task::JoinSet;

use super::target::Target;
use super::wire::{Connection, Http};
use crate::control_plane::ControlPlane;
use crate::wait::within;
use crate::{Context, Failure, Result};

/// How long the answers that are on their way at a slice's end may take.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loop {
    /// The HTTP version.
    pub http: Http,
    /// How many ask at the same time.
    pub clients: usize,
    /// Whether they share one connection, as the goroutines of one client-go do.
    pub shared: bool,
}

/// What one slice showed.
#[derive(Debug, Default, Clone)]
pub struct Slice {
    /// Milliseconds per answer.
    pub latencies: Vec<f64>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Requests that failed.
    pub errors: usize,
    /// The last failure.
    pub failure: Option<String>,
    /// Bytes per answer.
    pub size: usize,
    /// Processor seconds of the process in the middle.
    pub cpu: Option<f64>,
    /// Its resident memory at the end, in bytes.
    pub rss: Option<u64>,
    /// Processor seconds of kube-apiserver.
    pub upstream_cpu: f64,
}

/// Runs one slice.
///
/// # Errors
/// When no connection or first answer is to be had, or the last answers do not come.
pub async fn run(
    plane: &ControlPlane,
    target: &Target,
    how: Loop,
    path: &str,
    length: Duration,
) -> Result<Slice> {
    let connections = connect(target, how, path)
        .await
        .context(format!("{} {path}", target.way))?;
    let (before, upstream_before) = (target.usage()?, plane.apiserver_usage()?);
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for (connection, uri) in connections {
        clients.spawn(client(connection, uri, began + length));
    }
    let parts = within(
        "the last answers",
        length + LAST_ANSWERS,
        clients.join_all(),
    )
    .await?;
    let mut slice = Slice {
        seconds: began.elapsed().as_secs_f64(),
        ..Slice::default()
    };
    let (after, upstream_after) = (target.usage()?, plane.apiserver_usage()?);
    slice.cpu = after
        .zip(before)
        .map(|(a, b)| a.cpu_seconds - b.cpu_seconds);
    slice.rss = after.map(|usage| usage.rss);
    slice.upstream_cpu = upstream_after.cpu_seconds - upstream_before.cpu_seconds;
    // The parts hold the connections: closing them costs time that is not the requests'.
    for (_, part) in parts {
        slice.latencies.extend(part.latencies);
        slice.errors += part.errors;
        slice.size = slice.size.max(part.size);
        slice.failure = part.failure.or(slice.failure);
    }
    Ok(slice)
}

/// As many connections as the loop wants, each with its first answer read.
async fn connect(target: &Target, how: Loop, path: &str) -> Result<Vec<(Connection, Uri)>> {
    let mut connections = Vec::new();
    while connections.len() < how.clients {
        let shared = match connections.first() {
            Some((first, _)) if how.shared => Connection::share(first),
            _ => None,
        };
        if let Some(connection) = shared {
            let uri = connection.uri(path)?;
            connections.push((connection, uri));
            continue;
        }
        let mut connection = Connection::open(target, how.http).await?;
        let uri = connection.uri(path)?;
        within("a first answer", LAST_ANSWERS, connection.get(&uri)).await??;
        connections.push((connection, uri));
    }
    Ok(connections)
}

/// Asks until `end`. A connection that has failed is not used again: the error is the finding.
async fn client(mut connection: Connection, uri: Uri, end: Instant) -> (Connection, Slice) {
    let mut slice = Slice::default();
    while Instant::now() < end {
        let asked = Instant::now();
        match connection.get(&uri).await {
            Ok(size) => {
                slice.latencies.push(asked.elapsed().as_secs_f64() * 1e3);
                slice.size = size;
            }
            Err(failure) => {
                slice.note(&failure);
                break;
            }
        }
    }
    (connection, slice)
}

impl Slice {
    /// Answers per second.
    pub fn rate(&self) -> f64 {
        #[allow(
            clippy::cast_precision_loss,
            reason = "a count of answers is far below 2^52"
        )]
        let count = self.latencies.len() as f64;
        count / self.seconds.max(f64::EPSILON)
    }

    fn note(&mut self, failure: &Failure) {
        self.errors += 1;
        self.failure = Some(failure.to_string());
    }
}
