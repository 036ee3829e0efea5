//! `ProxyKubeApi` objects of a federating cluster, and what they refer to.
//!
//! Purpose: follow the objects of all namespaces or one. Of Secrets, ConfigMaps and Services only
//! those are watched that an object names, each by its own watch, so that the gateway's account
//! needs `list` and `watch` on named objects only.
//! Invariant: one object cannot harm another: what is wrong with it refuses it alone. A value
//! that was read stays when its watch breaks, and goes when the object is deleted.
//! Upstream counterpart: kube-apiserver's reflectors, kubelet's watching secret manager.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use portcullis_api::gateway_configuration::Resources;
use portcullis_api::proxy_kube_api::{API_VERSION, GROUP, KIND, MAX_HOSTS, PLURAL, VERSION};
use portcullis_api::{ProxyKubeApi, names};
use portcullis_core::observer::Observer;
use portcullis_core::yaml::{Fault, decode_value};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, interval, sleep_until};

use super::directory::Pace;
use super::{SourceHealth, SourceState};
use crate::candidate::Candidate;
use crate::resolve::{Files, Policy};
use crate::snapshot::ClusterKey;

pub(super) mod client;
mod needed;
mod references;

use references::{References, Update};

/// Name of the source in metrics and health.
pub(super) const NAME: &str = "federation";
/// How long a value may keep all others waiting.
const REFERENCE_PATIENCE: Duration = Duration::from_secs(10);
/// Faults that a status shows.
const SHOWN: usize = 5;

/// The resource that is watched.
#[must_use]
pub(super) fn api_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, KIND), PLURAL)
}

/// Goes on watching until nobody reads any more.
pub(super) fn start(
    client: Client,
    settings: &Resources,
    observer: Arc<dyn Observer>,
    pace: Pace,
) -> watch::Receiver<SourceState> {
    let (state, receiver) = watch::channel(SourceState {
        candidates: Arc::default(),
        observed: Arc::default(),
        health: SourceHealth {
            name: NAME,
            synced: false,
            problem: Some("the objects have not been read yet".to_owned()),
        },
    });
    let resource = api_resource();
    let api: Api<DynamicObject> = match settings.namespace.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let follower = Follower {
        cross_namespace: settings.allow_cross_namespace_references,
        file_references: settings.allow_file_references,
        pace,
        observer,
        objects: BTreeMap::new(),
        listed: BTreeMap::new(),
        synced: false,
        changed: None,
        references: References::new(client),
        state,
    };
    tokio::spawn(follower.run(events));
    receiver
}

struct Follower {
    cross_namespace: bool,
    file_references: bool,
    pace: Pace,
    observer: Arc<dyn Observer>,
    objects: BTreeMap<ClusterKey, Object>,
    /// Objects of a list that is not complete yet.
    listed: BTreeMap<ClusterKey, Object>,
    synced: bool,
    /// Since when there is something to publish.
    changed: Option<Instant>,
    references: References,
    state: watch::Sender<SourceState>,
}

/// One object, read as far as possible.
struct Object {
    decoded: Result<ProxyKubeApi, String>,
    /// Its host names, even if the rest cannot be read.
    hosts: Vec<String>,
    created: i64,
    status: Value,
}

impl Follower {
    async fn run(
        mut self,
        events: impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>>,
    ) {
        let mut events = pin!(events);
        let overdue = Instant::now() + self.pace.sync;
        let mut poll = interval(self.pace.poll);
        let state = self.state.clone();
        loop {
            let due = self.due();
            tokio::select! {
                () = state.closed() => return,
                event = events.next() => match event {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => self.watch_failed(&error),
                    None => return,
                },
                update = self.references.next() => self.refer(update),
                () = at(due) => self.publish(),
                () = at(Some(overdue)), if !self.synced && Instant::now() < overdue => {
                    self.overdue();
                }
                // Files have no watch of their own.
                _ = poll.tick(), if self.file_references => self.touch(),
            }
        }
    }

    fn take(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                if let Some((key, object)) = read(object) {
                    self.listed.insert(key, object);
                }
                return;
            }
            watcher::Event::InitDone => {
                self.objects = std::mem::take(&mut self.listed);
                self.synced = true;
            }
            watcher::Event::Apply(object) => {
                let key = key_of(&object);
                match read(object) {
                    Some((key, object)) => _ = self.objects.insert(key, object),
                    None => _ = key.and_then(|key| self.objects.remove(&key)),
                }
            }
            watcher::Event::Delete(object) => {
                key_of(&object).and_then(|key| self.objects.remove(&key));
            }
        }
        self.watch_what_is_needed();
        self.touch();
    }

    fn watch_what_is_needed(&mut self) {
        let mut needed = BTreeSet::new();
        for object in self.objects.values() {
            if let Ok(object) = &object.decoded {
                needed.extend(needed::references(object, self.cross_namespace));
            }
        }
        self.references.watch(needed);
    }

    fn refer(&mut self, update: Update) {
        if self.references.apply(update) {
            self.touch();
        }
    }

    fn touch(&mut self) {
        self.changed.get_or_insert_with(Instant::now);
    }

    /// When to publish: after a short quiet, and not before all values are known.
    fn due(&self) -> Option<Instant> {
        let changed = self.changed.filter(|_| self.synced)?;
        let quiet = changed + self.pace.quiet;
        let known = self
            .references
            .oldest_pending()
            .map(|since| since + REFERENCE_PATIENCE);
        Some(known.map_or(quiet, |known| known.max(quiet)))
    }

    fn publish(&mut self) {
        self.changed = None;
        let policy = Policy {
            cross_namespace: self.cross_namespace,
            files: if self.file_references {
                Files::Absolute
            } else {
                Files::Refused
            },
        };
        let candidate = |(key, object): (&ClusterKey, &Object)| {
            let made = object.decoded.clone().and_then(|decoded| {
                Candidate::new(&decoded, &policy, &self.references).map_err(|f| shown(&f))
            });
            let made = made.unwrap_or_else(|reason| {
                Candidate::refused(key.clone(), object.hosts.clone(), reason)
            });
            Candidate {
                created: object.created,
                ..made
            }
        };
        let candidates: Vec<_> = self.objects.iter().map(candidate).collect();
        let status = |(key, object): (&ClusterKey, &Object)| (key.clone(), object.status.clone());
        let observed = self.objects.iter().map(status).collect();
        let news = {
            let state = self.state.borrow();
            *state.candidates != candidates
                || !state.health.synced
                || state.health.problem.is_some()
        };
        if news {
            self.observer.reloaded(NAME, true);
            tracing::info!(source = NAME, clusters = candidates.len(), "reloaded");
        }
        self.state.send_modify(|state| {
            state.candidates = Arc::new(candidates);
            state.observed = Arc::new(observed);
            state.health = SourceHealth {
                name: NAME,
                synced: true,
                problem: None,
            };
        });
    }

    fn watch_failed(&mut self, error: &watcher::Error) {
        tracing::debug!(source = NAME, "watch of {PLURAL}: {error}");
        let problem = match client::brief(error) {
            brief if self.synced => format!("what was read is kept: watch of {PLURAL}: {brief}"),
            brief => format!("{PLURAL} cannot be read: {brief}"),
        };
        if self.state.borrow().health.problem.as_ref() != Some(&problem) {
            self.observer.reloaded(NAME, false);
            tracing::error!(source = NAME, "{problem}");
            self.state
                .send_modify(|state| state.health.problem = Some(problem));
        }
    }

    fn overdue(&self) {
        let seconds = self.pace.sync.as_secs();
        tracing::error!(
            source = NAME,
            "the objects were not read within {seconds} s; still trying"
        );
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

fn key_of(object: &DynamicObject) -> Option<ClusterKey> {
    Some(ClusterKey::new(object.namespace()?, object.name_any()))
}

/// `None` for an object that is being deleted.
fn read(object: DynamicObject) -> Option<(ClusterKey, Object)> {
    let key = key_of(&object)?;
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let created = object
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |t| t.0.as_millisecond());
    let mut data = object.data;
    let status = data.get_mut("status").map(Value::take).unwrap_or_default();
    let spec = data.get_mut("spec").map(Value::take).unwrap_or_default();
    let written = spec
        .get("hosts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let hosts = written
        .filter_map(Value::as_str)
        .filter(|host| names::is_host(host));
    let hosts = hosts.take(MAX_HOSTS).map(str::to_owned).collect();
    let whole = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": { "namespace": key.namespace, "name": key.name },
        "spec": spec,
    });
    let decoded = decode_value(&whole).map_err(|faults| shown(&faults));
    Some((
        key,
        Object {
            decoded,
            hosts,
            created,
            status,
        },
    ))
}

/// Faults as one line of text.
fn shown(faults: &[Fault]) -> String {
    let mut text: Vec<String> = faults.iter().take(SHOWN).map(ToString::to_string).collect();
    if faults.len() > SHOWN {
        text.push(format!("and {} more", faults.len() - SHOWN));
    }
    text.join("; ")
}
