//! Memory of fresh processes: with a few requests served, while a large list streams, with many
//! idle watches.
//!
//! Invariant: each figure is of a process that did nothing else before but serve a few requests,
//! so that one scenario's memory is not taken for another's.

use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::interval;

use super::haproxy::Haproxy;
use super::objects::{self, NAMESPACE};
use super::options::{Group, Options};
use super::target::{DRAINED, Target, Way, start_gateway};
use super::wire::{Connection, Http};
use crate::control_plane::ControlPlane;
use crate::process::Usage;
use crate::wait::within;
use crate::{Context, Failure, Result};

const CONNECTIONS: usize = 10;
const STREAMS: usize = 100;
const WARM: usize = 20;
const SLOW: Duration = Duration::from_secs(60);
/// A slow reader takes this much every [`PACE`]: 20 MB in about a second.
const STEP: usize = 256 * 1024;
const PACE: Duration = Duration::from_millis(12);

/// How a process in the middle uses memory, in bytes.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The way it is on.
    pub way: Option<Way>,
    /// Resident after a few requests.
    pub warm: u64,
    /// How much more at most while the large list streamed: reader and growth.
    pub bulk: Vec<(&'static str, u64)>,
    /// The size of the large list.
    pub bulk_size: usize,
    /// Resident memory per idle watch.
    pub watch: Option<u64>,
}

/// Measures the gateway in both modes, and HAProxy when it is installed.
///
/// # Errors
/// When a process cannot be started or does not answer.
pub async fn measure(plane: &ControlPlane, options: &Options) -> Result<Vec<Memory>> {
    let mut all = Vec::new();
    if options.takes(Way::Haproxy)
        && let Some(haproxy) = Haproxy::start(plane).await?
    {
        let bulk = bulk(&Target::haproxy(plane, &haproxy)?, options).await?;
        haproxy.stop().await?;
        let fresh = Haproxy::start(plane).await?.context("haproxy has gone")?;
        all.push(watches(bulk, &Target::haproxy(plane, &fresh)?, options).await?);
        fresh.stop().await?;
    }
    for way in [Way::PassThrough, Way::Impersonate] {
        if !options.takes(way) {
            continue;
        }
        let gateway = start_gateway(plane, way).await?;
        let bulk = bulk(&Target::gateway(plane, &gateway, way)?, options).await?;
        gateway.stop(DRAINED).await?;
        let fresh = start_gateway(plane, way).await?;
        all.push(watches(bulk, &Target::gateway(plane, &fresh, way)?, options).await?);
        fresh.stop(DRAINED).await?;
    }
    Ok(all)
}

async fn bulk(target: &Target, options: &Options) -> Result<Memory> {
    let warm = warm(target).await?;
    let mut memory = Memory {
        way: Some(target.way),
        warm,
        ..Memory::default()
    };
    if !options.has(Group::Bulk) {
        return Ok(memory);
    }
    for (reader, http, slow) in [
        ("HTTP/2", Http::Two, false),
        ("HTTP/2, slow reader", Http::Two, true),
        ("HTTP/1.1", Http::One, false),
        ("HTTP/1.1, slow reader", Http::One, true),
    ] {
        let mut connection = Connection::open(target, http).await?;
        let uri = connection.uri(objects::BULK)?;
        let before = rss(target)?;
        forget_peak(target)?;
        let body = within("the head of the large list", SLOW, connection.start(&uri)).await??;
        memory.bulk_size = within("the large list", SLOW, read(body, slow)).await??;
        memory
            .bulk
            .push((reader, usage(target)?.peak_rss.saturating_sub(before)));
    }
    Ok(memory)
}

async fn read(mut body: Incoming, slow: bool) -> Result<usize> {
    let mut ticks = interval(PACE);
    let (mut size, mut allowed) = (0, 0);
    while let Some(frame) = body.frame().await {
        size += frame
            .context("reading the large list")?
            .data_ref()
            .map_or(0, bytes::Bytes::len);
        while slow && size > allowed {
            ticks.tick().await;
            allowed += STEP;
        }
    }
    Ok(size)
}

async fn watches(memory: Memory, target: &Target, options: &Options) -> Result<Memory> {
    if !options.has(Group::Watches) {
        return Ok(memory);
    }
    warm(target).await?;
    let before = rss(target)?;
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true&timeoutSeconds=600\
         &fieldSelector=metadata.name%3Dabsent&resourceVersion=0"
    );
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let first = Connection::open(target, Http::Two).await?;
        let uri = first.uri(&path)?;
        let shares = (0..STREAMS).filter_map(|_| first.share());
        let starting = shares.map(|mut share| {
            let uri = uri.clone();
            async move { share.start(&uri).await }
        });
        let heads = within("the heads of the watches", SLOW, join_all(starting)).await?;
        open.push((first, heads.into_iter().collect::<Result<Vec<Incoming>>>()?));
    }
    let count = open.iter().map(|(_, watches)| watches.len()).sum::<usize>();
    let grown = rss(target)?.saturating_sub(before);
    let count = u64::try_from(count).ok().filter(|n| *n > 0);
    Ok(Memory {
        watch: count.map(|count| grown / count),
        ..memory
    })
}

/// A few requests, as a process that serves has had, and what it holds then.
async fn warm(target: &Target) -> Result<u64> {
    for http in [Http::One, Http::Two] {
        let mut connection = Connection::open(target, http).await?;
        let uri = connection.uri(objects::ONE)?;
        for _ in 0..WARM {
            within("a small request", SLOW, connection.get(&uri)).await??;
        }
    }
    rss(target)
}

fn rss(target: &Target) -> Result<u64> {
    Ok(usage(target)?.rss)
}

fn usage(target: &Target) -> Result<Usage> {
    target
        .usage()?
        .context(format!("{} has no process in the middle", target.way))
}

/// Makes the kernel count the peak of resident memory from now on.
fn forget_peak(target: &Target) -> Result<()> {
    let pid = target
        .pid
        .ok_or_else(|| Failure::new("no process in the middle"))?;
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").context("resetting the peak of memory")
}
