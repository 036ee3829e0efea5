//! From start to the first answer, and memory before any request.
//!
//! Invariant: the clock starts before the configuration is written and stops when an answer from
//! kube-apiserver has been read; readiness is looked at every 10 ms, so a figure may be that much
//! too high, never too low.

use std::time::Instant;

use super::haproxy::Haproxy;
use super::objects;
use super::options::Options;
use super::target::{DRAINED, Target, Way, start_gateway};
use super::wire::{Connection, Http};
use crate::Result;
use crate::client::SOON;
use crate::control_plane::ControlPlane;
use crate::wait::within;

const STARTS: u32 = 5;

/// What the starts of one process showed.
#[derive(Debug, Clone)]
pub struct Startup {
    /// The way it is on.
    pub way: Way,
    /// Milliseconds to the first answer, per start.
    pub took: Vec<f64>,
    /// Resident memory before any request, in bytes, per start.
    pub idle: Vec<f64>,
}

/// Starts the gateway, and HAProxy when it is installed, a few times.
///
/// # Errors
/// When a process cannot be started or does not answer.
pub async fn measure(plane: &ControlPlane, options: &Options) -> Result<Vec<Startup>> {
    let mut haproxy = Startup {
        way: Way::Haproxy,
        took: Vec::new(),
        idle: Vec::new(),
    };
    let mut gateway = Startup {
        way: Way::PassThrough,
        took: Vec::new(),
        idle: Vec::new(),
    };
    for _ in 0..options.repeat(STARTS) {
        if options.takes(haproxy.way) {
            let began = Instant::now();
            if let Some(started) = Haproxy::start(plane).await? {
                haproxy
                    .first_answer(&Target::haproxy(plane, &started)?, began)
                    .await?;
                started.stop().await?;
            }
        }
        if options.takes(gateway.way) {
            let began = Instant::now();
            let started = start_gateway(plane, gateway.way).await?;
            let target = Target::gateway(plane, &started, gateway.way)?;
            gateway.first_answer(&target, began).await?;
            started.stop(DRAINED).await?;
        }
    }
    Ok([haproxy, gateway]
        .into_iter()
        .filter(|s| !s.took.is_empty())
        .collect())
}

impl Startup {
    async fn first_answer(&mut self, target: &Target, began: Instant) -> Result<()> {
        #[allow(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
        let idle = target.usage()?.map(|usage| usage.rss as f64);
        let mut connection = Connection::open(target, Http::Two).await?;
        let uri = connection.uri(objects::ONE)?;
        within("the first answer", SOON, connection.get(&uri)).await??;
        self.took.push(began.elapsed().as_secs_f64() * 1e3);
        self.idle.extend(idle);
        Ok(())
    }
}
