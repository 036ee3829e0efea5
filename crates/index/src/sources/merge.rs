//! From the sets of all sources to one snapshot.
//!
//! Invariant: the result does not depend on which source spoke first. A file wins over an object
//! of the same name; a host name belongs to a file's cluster, else to the oldest object that
//! names it, so that nobody can take one away by a new object.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use tokio::sync::watch;

use super::{Health, Outcome, Outcomes, SourceState};
use crate::candidate::Candidate;
use crate::snapshot::{ClusterConfig, ClusterKey, ClusterState, Snapshot};

/// What comes out of the merge.
pub(super) struct Merged {
    pub(super) snapshots: watch::Receiver<Arc<Snapshot>>,
    pub(super) health: watch::Receiver<Health>,
    pub(super) outcomes: watch::Receiver<Arc<Outcomes>>,
}

type Source = Option<watch::Receiver<SourceState>>;

/// Merges now and whenever a source changes.
pub(super) fn start(directory: Source, cluster: Source) -> Merged {
    let (snapshots, snapshots_out) = watch::channel(Arc::new(Snapshot::default()));
    let (health, health_out) = watch::channel(Health::default());
    let (outcomes, outcomes_out) = watch::channel(Arc::new(Outcomes::new()));
    let mut merger = Merger {
        directory,
        cluster,
        snapshots,
        health,
        outcomes,
    };
    merger.publish();
    tokio::spawn(async move {
        // Ends with its last reader, and with its sources.
        while merger.changed().await {
            merger.publish();
        }
    });
    Merged {
        snapshots: snapshots_out,
        health: health_out,
        outcomes: outcomes_out,
    }
}

struct Merger {
    directory: Source,
    cluster: Source,
    snapshots: watch::Sender<Arc<Snapshot>>,
    health: watch::Sender<Health>,
    outcomes: watch::Sender<Arc<Outcomes>>,
}

impl Merger {
    async fn changed(&mut self) -> bool {
        async fn next(source: &mut Source) -> bool {
            match source {
                Some(source) => source.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            alive = next(&mut self.directory) => alive,
            alive = next(&mut self.cluster) => alive,
            () = self.snapshots.closed() => false,
        }
    }

    fn publish(&mut self) {
        let read = |source: &mut Source| source.as_mut().map(|s| s.borrow_and_update().clone());
        let (directory, cluster) = (read(&mut self.directory), read(&mut self.cluster));
        let of = |state: &Option<SourceState>| {
            state
                .as_ref()
                .map(|state| Arc::clone(&state.candidates))
                .unwrap_or_default()
        };
        let previous = Arc::clone(&self.snapshots.borrow());
        let (snapshot, outcomes) = merge(&previous, &of(&directory), &of(&cluster), &|key| {
            cluster
                .as_ref()
                .and_then(|c| c.observed.get(key))
                .cloned()
                .unwrap_or_default()
        });
        let sources = directory
            .iter()
            .chain(&cluster)
            .map(|state| state.health.clone());
        let health = Health {
            sources: sources.collect(),
        };
        // Health last: whoever sees that a source is read finds its clusters.
        replace(&self.snapshots, Arc::new(snapshot));
        replace(&self.outcomes, Arc::new(outcomes));
        replace(&self.health, health);
    }
}

fn replace<T: PartialEq>(sender: &watch::Sender<T>, new: T) {
    sender.send_if_modified(|old| {
        let changed = *old != new;
        *old = new;
        changed
    });
}

/// Merges `files` and `objects`; configurations that did not change are taken from `previous`.
fn merge(
    previous: &Snapshot,
    files: &[Candidate],
    objects: &[Candidate],
    observed: &dyn Fn(&ClusterKey) -> serde_json::Value,
) -> (Snapshot, Outcomes) {
    let mut clusters = BTreeMap::new();
    let mut hosts = BTreeMap::new();
    let mut outcomes = Outcomes::new();
    for candidate in files {
        let config = &candidate.config;
        for host in &config.hosts {
            hosts.insert(host.clone(), config.key.clone());
        }
        clusters.insert(config.key.clone(), keep(previous, config));
    }
    let mut objects: Vec<_> = objects.iter().collect();
    objects.sort_by(|a, b| (a.created, &a.config.key).cmp(&(b.created, &b.config.key)));
    for candidate in objects {
        let key = &candidate.config.key;
        let mut outcome = Outcome {
            exposed: false,
            error: None,
            notices: candidate.notices.clone(),
            observed: observed(key),
        };
        match clusters.entry(key.clone()) {
            Entry::Occupied(_) => {
                let text = "a file of the gateway describes the cluster of this name; \
                            this object is not used";
                outcome.error = Some(text.to_owned());
            }
            Entry::Vacant(place) => {
                let config = place.insert(keep(previous, &claim(&mut hosts, &candidate.config)));
                outcome.exposed = config.state == ClusterState::Serving;
                if let ClusterState::Refused { reason } = &config.state {
                    outcome.error = Some(reason.clone());
                }
            }
        }
        outcomes.insert(key.clone(), outcome);
    }
    (Snapshot { clusters }, outcomes)
}

/// Gives `config` its host names, or takes them from it and refuses it if one is taken.
///
/// A cluster that is refused or switched off claims its names too: a newer object must not get
/// them while a Secret is missing for a moment.
fn claim(
    hosts: &mut BTreeMap<String, ClusterKey>,
    config: &Arc<ClusterConfig>,
) -> Arc<ClusterConfig> {
    let Some(taken) = config.hosts.iter().find(|host| hosts.contains_key(*host)) else {
        hosts.extend(
            config
                .hosts
                .iter()
                .map(|host| (host.clone(), config.key.clone())),
        );
        return Arc::clone(config);
    };
    let state = match &config.state {
        ClusterState::Serving => ClusterState::Refused {
            reason: format!("spec.hosts: {taken} is a host name of another cluster; use another"),
        },
        other => other.clone(),
    };
    Arc::new(ClusterConfig::without_upstream(
        config.key.clone(),
        Vec::new(),
        state,
    ))
}

fn keep(previous: &Snapshot, config: &Arc<ClusterConfig>) -> Arc<ClusterConfig> {
    match previous.clusters.get(&config.key) {
        Some(known) if known == config => Arc::clone(known),
        _ => Arc::clone(config),
    }
}

#[cfg(test)]
mod tests;
