//! What is known of a request before anything is decided, and what the outer layers learn later.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request};
use portcullis_core::UserInfo;
use portcullis_core::observer::{Observer, Stage, VerbClass};

use crate::Body;
use crate::cluster::Cluster;

/// Facts of the client's connection, shared by all its requests.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// Who the client's certificate says it is, if it sent one that our client CA signed.
    pub certificate: Option<Arc<UserInfo>>,
}

/// One request and its answer, as the bracketing layers see it.
pub struct Exchange {
    /// When the request's head had been read.
    pub received: Instant,
    /// Identifies the request in the logs of client, gateway and API server; set by `audit_init`.
    pub audit_id: OnceLock<HeaderValue>,
    /// The client's connection.
    pub peer: Arc<Peer>,
    /// Filled in by `request_info`.
    pub facts: OnceLock<Facts>,
    /// Receives stage timings.
    pub observer: Arc<dyn Observer>,
    /// The same timings for the trace span, in microseconds, in the order of [`Stage::ALL`].
    pub stages: [AtomicU32; Stage::ALL.len()],
}

/// What `request_info` found out, for metrics, logs and traces.
pub struct Facts {
    /// The cluster that the request is for.
    pub cluster: Arc<Cluster>,
    /// Its verb class.
    pub class: VerbClass,
    /// Its verb.
    pub verb: String,
    /// Its resource, empty for non-resource requests.
    pub resource: String,
}

impl Exchange {
    /// Reports how long `stage` took on the way in.
    pub fn stage_finished(&self, stage: Stage, began: Instant) {
        let took = began.elapsed();
        self.observer.stage_finished(stage, took);
        if let Some(slot) = self.stages.get(stage as usize) {
            let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
            slot.store(micros, Ordering::Relaxed);
        }
    }

    /// The stages that the request went through, and how long each took.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, Duration)> {
        let times = Stage::ALL.into_iter().zip(&self.stages);
        times.filter_map(|(stage, slot)| {
            let micros = slot.load(Ordering::Relaxed);
            (micros > 0).then(|| (stage, Duration::from_micros(micros.into())))
        })
    }

    /// `namespace/name` of the cluster, empty while unknown.
    #[must_use]
    pub fn cluster_label(&self) -> &str {
        self.facts.get().map_or("", |f| f.cluster.label())
    }
}

/// A request with its exchange: what the bracketing layers hand to `request_info`.
pub struct Received {
    /// Shared with the bracketing layers.
    pub exchange: Arc<Exchange>,
    /// As the client sent it.
    pub request: Request<Body>,
}
