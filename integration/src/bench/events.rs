//! How long an event takes from a write to a watch.
//!
//! Purpose: one writer goes straight to the API server; two watches of the same object, one direct
//! and one through a way, see the event at the same time, and their delays are compared.
//! Invariant: time runs from sending the PATCH to reading the event's bytes; the next write waits
//! for both watches; which watch was opened first alternates.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::objects::NAMESPACE;
use super::options::Options;
use super::target::{Target, Way, Ways};
use super::wire::{Connection, Http};
use crate::client::{H2Client, SOON};
use crate::control_plane::ControlPlane;
use crate::wait::within;
use crate::{Context, Failure, Result};

/// Writes per round and way.
const WRITES: u32 = 40;
const ROUNDS: u32 = 4;
/// Between writes, so that one event does not queue behind another.
const PAUSE: Duration = Duration::from_millis(5);
const MARK: &str = "portcullis-bench";

/// The delays seen on one way and, by the same writes, directly.
#[derive(Debug, Clone)]
pub struct Events {
    /// The way.
    pub way: Way,
    /// The HTTP version of both watches.
    pub http: Http,
    /// Milliseconds per event on this way.
    pub through: Vec<f64>,
    /// Milliseconds per event directly.
    pub direct: Vec<f64>,
}

/// When a watch saw which event.
#[derive(Debug)]
struct Seen {
    way: Way,
    mark: String,
    at: Instant,
}

/// Measures every way but the direct one.
///
/// # Errors
/// When a watch cannot be opened or an event does not come.
pub async fn measure(plane: &ControlPlane, ways: &Ways, options: &Options) -> Result<Vec<Events>> {
    let direct = Target::direct(plane)?;
    let writer = Writer::connect(&direct).await?;
    let mut all: Vec<Events> = Vec::new();
    for http in [Http::Two, Http::One] {
        for round in 0..options.repeat(ROUNDS) {
            for target in ways.rotated(round).filter(|t| t.way != Way::Direct) {
                let seen = pair(&writer, &direct, target, http, round).await?;
                match all
                    .iter_mut()
                    .find(|e| (e.way, e.http) == (target.way, http))
                {
                    Some(events) => {
                        events.through.extend(seen.through);
                        events.direct.extend(seen.direct);
                    }
                    None => all.push(seen),
                }
            }
        }
    }
    all.sort_by_key(|e| (e.way, e.http));
    Ok(all)
}

/// One round: two watches, then the writes.
async fn pair(
    writer: &Writer,
    direct: &Target,
    through: &Target,
    http: Http,
    round: u32,
) -> Result<Events> {
    let (sender, mut seen) = mpsc::channel(16);
    let mut watches = JoinSet::new();
    let order = if round.is_multiple_of(2) {
        [direct, through]
    } else {
        [through, direct]
    };
    for target in order {
        let watch = Watch::open(target, http, &writer.version().await?).await?;
        watches.spawn(watch.follow(sender.clone()));
    }
    let mut events = Events {
        way: through.way,
        http,
        through: Vec::new(),
        direct: Vec::new(),
    };
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for write in 0..WRITES {
        ticks.tick().await;
        let mark = format!("{}-{http}-{round}-{write}", through.way);
        let sent = Instant::now();
        let both = async {
            writer.write(&mark).await?;
            receive(&mut seen, &mark).await
        };
        let [direct, through] = within(&format!("the event {mark}"), SOON, both).await??;
        // The first write wakes what has slept while the watches were opened.
        if write > 0 {
            events.direct.push((direct - sent).as_secs_f64() * 1e3);
            events.through.push((through - sent).as_secs_f64() * 1e3);
        }
    }
    watches.abort_all();
    Ok(events)
}

/// When the direct watch and the other saw `mark`.
async fn receive(seen: &mut mpsc::Receiver<Seen>, mark: &str) -> Result<[Instant; 2]> {
    let (mut direct, mut through) = (None, None);
    loop {
        if let (Some(direct), Some(through)) = (direct, through) {
            return Ok([direct, through]);
        }
        let next = seen.recv().await.context("both watches have ended")?;
        match next.way {
            _ if next.mark != mark => {}
            Way::Direct => direct = Some(next.at),
            _ => through = Some(next.at),
        }
    }
}

struct Writer {
    client: H2Client,
    token: String,
}

impl Writer {
    async fn connect(direct: &Target) -> Result<Self> {
        let client = H2Client::connect(&direct.dial).await?;
        Ok(Self {
            client,
            token: format!("Bearer {}", direct.token),
        })
    }

    fn path() -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/configmaps/watched")
    }

    async fn write(&self, mark: &str) -> Result<()> {
        let headers = [
            ("authorization", self.token.as_str()),
            ("content-type", "application/merge-patch+json"),
        ];
        let patch = format!("{{\"metadata\":{{\"annotations\":{{\"{MARK}\":\"{mark}\"}}}}}}");
        let reply = self
            .client
            .call(Method::PATCH, &Self::path(), &headers, patch)
            .await?;
        if reply.status.is_success() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "PATCH of the watched object: {}",
            reply.text()
        )))
    }

    /// The object's resourceVersion, where a watch begins.
    async fn version(&self) -> Result<String> {
        let headers = [("authorization", self.token.as_str())];
        let reply = self
            .client
            .call(Method::GET, &Self::path(), &headers, "")
            .await?
            .json()?;
        let version = reply
            .pointer("/metadata/resourceVersion")
            .and_then(|v| v.as_str());
        version
            .map(str::to_owned)
            .context("the watched object has no resourceVersion")
    }
}

struct Watch {
    way: Way,
    body: hyper::body::Incoming,
    _connection: Connection,
}

impl Watch {
    async fn open(target: &Target, http: Http, version: &str) -> Result<Self> {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true&timeoutSeconds=300\
             &fieldSelector=metadata.name%3Dwatched&resourceVersion={version}"
        );
        let mut connection = Connection::open(target, http).await?;
        let uri = connection.uri(&path)?;
        let what = format!("a watch by way of {}", target.way);
        let body = within(&what, SOON, connection.start(&uri)).await??;
        Ok(Self {
            way: target.way,
            body,
            _connection: connection,
        })
    }

    /// Reports each event's mark until nobody listens or the watch ends.
    async fn follow(mut self, seen: mpsc::Sender<Seen>) {
        let mut line = Vec::new();
        while let Some(Ok(frame)) = self.body.frame().await {
            let at = Instant::now();
            line.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
            while let Some(end) = line.iter().position(|b| *b == b'\n') {
                let event: Vec<u8> = line.drain(..=end).collect();
                let Some(mark) = mark_of(&event) else {
                    continue;
                };
                if seen
                    .send(Seen {
                        way: self.way,
                        mark,
                        at,
                    })
                    .await
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

/// The mark's value, found without parsing the event.
fn mark_of(event: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(event).ok()?;
    let (_, rest) = text.split_once(&format!("\"{MARK}\":\""))?;
    rest.split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found_in_an_event() {
        let event = br#"{"type":"MODIFIED","object":{"metadata":{"annotations":{"portcullis-bench":"a-7"}}}}"#;
        assert_eq!(mark_of(event).as_deref(), Some("a-7"));
        assert_eq!(mark_of(b"{\"type\":\"BOOKMARK\"}"), None);
    }
}
