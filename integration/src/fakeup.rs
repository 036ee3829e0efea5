//! An HTTPS upstream that misbehaves on request and remembers what it saw.
//!
//! Purpose: show what the gateway makes of each fault and of each odd answer, and prove what did
//! and did not reach the cluster.
//! Invariants: HTTP/2 and HTTP/1.1; every request that arrives is recorded before it is answered;
//! what is answered depends on the last segments of the path only ([`answers`]), so it works below
//! any prefix. Faults below HTTP are chosen for the whole upstream ([`Fault`]).

pub mod answers;
pub mod record;
mod serve;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use record::{BodyEnd, ReplyEnd, Seen};

use crate::client::SOON;
use crate::pki::{self, Authority, Pair};
use crate::wait::within;
use crate::{Context, Result};
use record::Record;

/// What is wrong with the upstream below HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Nobody listens: connections are refused.
    Down,
    /// TCP connects, and then nothing.
    HangBeforeTls,
    /// Requests are read and never answered.
    HangAfterRequest,
    /// The certificate is for another name.
    WrongName,
    /// The certificate is of an authority nobody knows.
    UnknownAuthority,
    /// The connection is closed as soon as a request's head has been read (HTTP/1.1).
    CloseAfterRequest,
    /// These bytes are the answer to every request, and then the connection closes (HTTP/1.1).
    Answer(Vec<u8>),
    /// As `Answer`, but the connection stays open.
    AnswerAndHold(Vec<u8>),
}

/// How to make one.
#[derive(Debug, Clone)]
pub struct Options {
    protocols: Vec<Vec<u8>>,
    fault: Fault,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// HTTP/2 and HTTP/1.1, no fault.
    pub fn new() -> Self {
        Self {
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            fault: Fault::None,
        }
    }

    /// Offering HTTP/1.1 only.
    #[must_use]
    pub fn http1_only(mut self) -> Self {
        self.protocols = vec![b"http/1.1".to_vec()];
        self
    }

    /// With a fault from the start.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// Starts it on the current tokio runtime.
    ///
    /// # Errors
    /// When it cannot listen or make certificates.
    pub async fn start(self) -> Result<FakeUpstream> {
        FakeUpstream::start(self).await
    }
}

/// A running upstream; it ends when dropped.
#[derive(Debug)]
pub struct FakeUpstream {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What the accept loop and all connections look at.
#[derive(Debug)]
struct Shared {
    record: Arc<Record>,
    fault: watch::Sender<Ordered>,
    /// The number of the last fault that the accept loop obeys.
    obeyed: watch::Sender<u64>,
    connections: watch::Sender<Connections>,
    protocols: Vec<Vec<u8>>,
    certificates: Certificates,
}

/// A fault and its number, so that one can wait until it holds.
#[derive(Debug, Clone, Default)]
struct Ordered {
    number: u64,
    fault: Fault,
}

/// What open connections shall do; a higher number is a newer order.
#[derive(Debug, Clone, Copy, Default)]
struct Connections {
    cut: u64,
    drained: u64,
}

#[derive(Debug)]
struct Certificates {
    good: Pair,
    wrong_name: Pair,
    unknown_authority: Pair,
}

impl FakeUpstream {
    async fn start(options: Options) -> Result<Self> {
        let (authority, stranger) = (Authority::new("fakeup-ca")?, Authority::new("stranger-ca")?);
        let certificates = Certificates {
            good: authority.serving(&[])?,
            wrong_name: authority.serving_only("elsewhere.portcullis.test")?,
            unknown_authority: stranger.serving(&[])?,
        };
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listening")?;
        let address = listener
            .local_addr()
            .context("reading the address listened on")?;
        let shared = Arc::new(Shared {
            record: Arc::default(),
            fault: watch::Sender::new(Ordered {
                number: 0,
                fault: options.fault,
            }),
            obeyed: watch::Sender::new(0),
            connections: watch::Sender::new(Connections::default()),
            protocols: options.protocols,
            certificates,
        });
        let accepting = tokio::spawn(serve::accept(listener, address, Arc::clone(&shared)));
        Ok(Self {
            address,
            ca_pem: authority.pem(),
            shared,
            accepting,
        })
    }

    /// Its address, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority behind its certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Changes the fault for new connections and cuts the open ones. Returns when it holds.
    ///
    /// # Errors
    /// When the accept loop has ended.
    pub async fn set_fault(&self, fault: Fault) -> Result<()> {
        let mut number = 0;
        self.shared.fault.send_modify(|ordered| {
            ordered.number += 1;
            ordered.fault = fault;
            number = ordered.number;
        });
        self.cut();
        let mut obeyed = self.shared.obeyed.subscribe();
        let holds = obeyed.wait_for(|now| *now >= number);
        within("the upstream to obey", SOON, holds)
            .await?
            .map(drop)
            .context("changing the fault")
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        self.shared.connections.send_modify(|c| c.cut += 1);
    }

    /// Asks all open connections to finish what they do and close (HTTP/2: GOAWAY).
    pub fn drain(&self) {
        self.shared.connections.send_modify(|c| c.drained += 1);
    }

    /// Lets `…/gated` answers send one chunk more, in total over all of them.
    pub fn release(&self) {
        self.shared.record.gate().add_permits(1);
    }

    /// The requests that arrived, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.record.seen()
    }

    /// The last request that arrived.
    ///
    /// # Errors
    /// When none has.
    pub fn last(&self) -> Result<Seen> {
        self.seen()
            .pop()
            .context("no request has reached the upstream")
    }

    /// Forgets the requests and connections so far.
    pub fn forget(&self) {
        self.shared.record.forget();
    }

    /// TCP connections accepted so far.
    pub fn tcp_connections(&self) -> usize {
        self.shared.record.tcp()
    }

    /// TLS handshakes completed so far.
    pub fn tls_connections(&self) -> usize {
        self.shared.record.tls()
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.record.open()
    }
}

impl Drop for FakeUpstream {
    fn drop(&mut self) {
        self.cut();
        self.accepting.abort();
    }
}

impl Shared {
    fn tls(&self, fault: &Fault) -> Result<Arc<rustls::ServerConfig>> {
        let pair = match fault {
            Fault::WrongName => &self.certificates.wrong_name,
            Fault::UnknownAuthority => &self.certificates.unknown_authority,
            _ => &self.certificates.good,
        };
        let by_hand = matches!(
            fault,
            Fault::CloseAfterRequest | Fault::Answer(_) | Fault::AnswerAndHold(_)
        );
        let http1: Vec<&[u8]> = vec![b"http/1.1"];
        let all = self.protocols.iter().map(Vec::as_slice).collect();
        pki::server_config(pair, &if by_hand { http1 } else { all })
    }
}
