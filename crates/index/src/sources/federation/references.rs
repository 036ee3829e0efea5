//! Secrets, ConfigMaps and Services that objects name, each watched on its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Client, Resource};
use portcullis_core::Redacted;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::client;
use crate::resolve::{self, ConfigMapValues, SecretValues, ServicePorts};

/// Most objects that are watched at a time.
pub(super) const MAX_WATCHED: usize = 4096;
const QUEUE: usize = 64;

/// What kind of object is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Secret,
    ConfigMap,
    Service,
}

/// An object that is named by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// `Secret team/x`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// News of one watch.
pub(super) struct Update {
    reference: Reference,
    news: News,
}

enum News {
    Found(Content),
    Absent,
    Failed(String),
}

#[derive(Debug, PartialEq)]
enum Content {
    Secret(SecretValues),
    ConfigMap(ConfigMapValues),
    Service(ServicePorts),
}

enum State {
    Pending(Instant),
    Found(Content),
    Absent,
    Failed(String),
}

struct Watched {
    state: State,
    task: JoinHandle<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All objects that are watched.
pub(super) struct References {
    client: Client,
    watched: BTreeMap<Reference, Watched>,
    news: mpsc::Sender<Update>,
    updates: mpsc::Receiver<Update>,
}

impl References {
    pub(super) fn new(client: Client) -> Self {
        let (news, updates) = mpsc::channel(QUEUE);
        Self {
            client,
            watched: BTreeMap::new(),
            news,
            updates,
        }
    }

    /// Watches exactly `needed`.
    pub(super) fn watch(&mut self, needed: BTreeSet<Reference>) {
        self.watched
            .retain(|reference, _| needed.contains(reference));
        for reference in needed {
            if self.watched.len() >= MAX_WATCHED {
                tracing::error!(
                    "more than {MAX_WATCHED} objects are named; {reference} is not read"
                );
                break;
            }
            if !self.watched.contains_key(&reference) {
                let task = self.spawn(reference.clone());
                let state = State::Pending(Instant::now());
                self.watched.insert(reference, Watched { state, task });
            }
        }
    }

    fn spawn(&self, reference: Reference) -> JoinHandle<()> {
        let (client, news) = (self.client.clone(), self.news.clone());
        match reference.kind {
            Kind::Secret => tokio::spawn(follow::<Secret>(client, reference, news, secret)),
            Kind::ConfigMap => {
                tokio::spawn(follow::<ConfigMap>(client, reference, news, config_map))
            }
            Kind::Service => tokio::spawn(follow::<Service>(client, reference, news, service)),
        }
    }

    /// The next news; waits for ever if there are none.
    pub(super) async fn next(&mut self) -> Update {
        match self.updates.recv().await {
            Some(update) => update,
            // Cannot be: `self` holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Remembers the news; false if they change nothing.
    pub(super) fn apply(&mut self, update: Update) -> bool {
        let Update { reference, news } = update;
        // News of a watch that ended meanwhile have no place.
        let Some(watched) = self.watched.get_mut(&reference) else {
            return false;
        };
        let state = match news {
            News::Found(content) => State::Found(content),
            News::Absent => State::Absent,
            News::Failed(problem) => {
                tracing::warn!("{reference} is not followed: {problem}");
                State::Failed(problem)
            }
        };
        let changed = match (&watched.state, &state) {
            // What was read is kept.
            (State::Found(_) | State::Absent, State::Failed(_)) => return false,
            (State::Found(old), State::Found(new)) => old != new,
            (State::Failed(old), State::Failed(new)) => old != new,
            (State::Absent, State::Absent) => false,
            _ => true,
        };
        watched.state = state;
        changed
    }

    /// Since when the longest wait for a first answer lasts.
    pub(super) fn oldest_pending(&self) -> Option<Instant> {
        let since = |watched: &Watched| match watched.state {
            State::Pending(since) => Some(since),
            _ => None,
        };
        self.watched.values().filter_map(since).min()
    }

    fn content(&self, kind: Kind, namespace: &str, name: &str) -> Result<&Content, String> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let reference = Reference {
            kind,
            namespace,
            name,
        };
        match self.watched.get(&reference).map(|watched| &watched.state) {
            Some(State::Found(content)) => Ok(content),
            Some(State::Absent) => Err(format!("the {reference} does not exist")),
            Some(State::Failed(problem)) => {
                Err(format!("the {reference} cannot be read: {problem}"))
            }
            Some(State::Pending(_)) => Err(format!("the {reference} has not been read yet")),
            None => Err(format!(
                "the {reference} is not read: too many objects are named"
            )),
        }
    }
}

impl resolve::References for References {
    fn secret(&self, namespace: &str, name: &str) -> Result<&SecretValues, String> {
        match self.content(Kind::Secret, namespace, name)? {
            Content::Secret(values) => Ok(values),
            Content::ConfigMap(_) | Content::Service(_) => Err("is no Secret".to_owned()),
        }
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<&ConfigMapValues, String> {
        match self.content(Kind::ConfigMap, namespace, name)? {
            Content::ConfigMap(values) => Ok(values),
            Content::Secret(_) | Content::Service(_) => Err("is no ConfigMap".to_owned()),
        }
    }

    fn service(&self, namespace: &str, name: &str) -> Result<Option<&ServicePorts>, String> {
        match self.content(Kind::Service, namespace, name)? {
            Content::Service(ports) => Ok(Some(ports)),
            Content::Secret(_) | Content::ConfigMap(_) => Err("is no Service".to_owned()),
        }
    }
}

/// Follows one object until its task is ended.
async fn follow<K>(
    client: Client,
    reference: Reference,
    updates: mpsc::Sender<Update>,
    content: fn(K) -> Content,
) where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + fmt::Debug
        + Send
        + 'static,
{
    let api = Api::<K>::namespaced(client, &reference.namespace);
    let mut objects = std::pin::pin!(watch_object(api, &reference.name).default_backoff());
    while let Some(object) = objects.next().await {
        let news = match object {
            Ok(Some(object)) => News::Found(content(object)),
            Ok(None) => News::Absent,
            Err(error) => News::Failed(client::brief(&error)),
        };
        let update = Update {
            reference: reference.clone(),
            news,
        };
        if updates.send(update).await.is_err() {
            return;
        }
    }
}

fn secret(secret: Secret) -> Content {
    let values = secret.data.into_iter().flatten();
    Content::Secret(
        values
            .map(|(key, value)| (key, Redacted::new(value.0)))
            .collect(),
    )
}

fn config_map(map: ConfigMap) -> Content {
    let text = map
        .data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.into_bytes()));
    let bytes = map
        .binary_data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.0));
    Content::ConfigMap(text.chain(bytes).collect())
}

fn service(service: Service) -> Content {
    let spec = service.spec.unwrap_or_default();
    let alias = spec.type_.as_deref() == Some("ExternalName");
    let address = |ip: &String| !alias && !ip.is_empty() && ip != "None";
    let port = |port: k8s_openapi::api::core::v1::ServicePort| {
        Some((port.name, u16::try_from(port.port).ok()?))
    };
    Content::Service(ServicePorts {
        cluster_ip: spec.cluster_ip.filter(address),
        ports: spec.ports.into_iter().flatten().filter_map(port).collect(),
    })
}
