//! The sources of clusters, joined to metrics and readiness.

use std::sync::Arc;

use portcullis_api::GatewayConfiguration;
use portcullis_core::observer::Observer;
use portcullis_index::sources::Health;
use portcullis_index::{Snapshot, SourceError, Sources};
use portcullis_telemetry::{ConditionHandle, Metrics, Readiness};
use tokio::sync::watch;

/// Starts what the configuration names. The receiver sees a snapshot only after the metrics know
/// its clusters, so that no request is counted under an unknown name.
pub(super) async fn start(
    config: &GatewayConfiguration,
    readiness: &Readiness,
    metrics: &Arc<Metrics>,
) -> Result<watch::Receiver<Arc<Snapshot>>, SourceError> {
    let observer = Arc::clone(metrics) as Arc<dyn Observer>;
    let Sources {
        mut snapshots,
        health,
        federation,
    } = Sources::start(&config.resources, observer).await?;
    tokio::spawn(report_health(health, readiness.clone()));
    if let Some(federation) = federation {
        tokio::spawn(portcullis_controller::write_back(federation));
    }
    let first = Arc::clone(&snapshots.borrow_and_update());
    name_clusters(metrics, &first);
    let (publish, published) = watch::channel(first);
    let metrics = Arc::clone(metrics);
    tokio::spawn(async move {
        while snapshots.changed().await.is_ok() {
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            name_clusters(&metrics, &snapshot);
            if publish.send(snapshot).is_err() {
                return;
            }
        }
    });
    Ok(published)
}

fn name_clusters(metrics: &Metrics, snapshot: &Snapshot) {
    metrics.set_clusters(snapshot.clusters.keys().map(ToString::to_string));
}

/// Each source has two lines in `/readyz?verbose`: it must have been read once, and whether it
/// can be read now is shown.
async fn report_health(mut health: watch::Receiver<Health>, readiness: Readiness) {
    let mut lines: Vec<(ConditionHandle, ConditionHandle)> = Vec::new();
    loop {
        let now = health.borrow_and_update().clone();
        for (index, source) in now.sources.iter().enumerate() {
            if lines.len() <= index {
                let (synced, current) = names(source.name);
                lines.push((
                    readiness.condition(synced),
                    readiness.informational(current),
                ));
            }
            let Some((synced, current)) = lines.get(index) else {
                continue;
            };
            let problem = source.problem.clone();
            let waiting = || problem.clone().unwrap_or_else(|| "not read yet".to_owned());
            synced.set(if source.synced {
                Ok(())
            } else {
                Err(waiting())
            });
            current.set(problem.clone().map_or(Ok(()), Err));
        }
        if health.changed().await.is_err() {
            return;
        }
    }
}

fn names(source: &str) -> (&'static str, &'static str) {
    match source {
        "directory" => ("directory-synced", "directory-reload"),
        _ => ("federation-synced", "federation-reload"),
    }
}
