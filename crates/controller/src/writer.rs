//! Writes what differs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Client, Error};
use portcullis_api::proxy_kube_api::{API_VERSION, GROUP, KIND, PLURAL, VERSION};
use portcullis_index::ClusterKey;
use portcullis_index::sources::{Federation, Outcomes};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use crate::attempts::Attempts;
use crate::status;

/// Who we are in `managedFields`.
const MANAGER: &str = "portcullis";
/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
const NOT_FOUND: u16 = 404;

/// Keeps the status of all objects up to date, until the sources end.
pub async fn write_back(federation: Federation) {
    let Federation {
        client,
        mut outcomes,
    } = federation;
    let mut writer = Writer {
        client,
        attempts: BTreeMap::new(),
    };
    loop {
        let now = Arc::clone(&outcomes.borrow_and_update());
        let next = writer.write(&now).await;
        tokio::select! {
            changed = outcomes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = at(next) => {}
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

struct Writer {
    client: Client,
    attempts: BTreeMap<ClusterKey, Attempts>,
}

/// What became of a write.
enum Written {
    Done,
    /// The object is gone.
    Gone,
    Failed(String),
}

impl Writer {
    /// Writes what is due; returns when the next write is.
    async fn write(&mut self, outcomes: &Outcomes) -> Option<Instant> {
        self.attempts.retain(|key, _| outcomes.contains_key(key));
        let mut next: Option<Instant> = None;
        for (key, outcome) in outcomes {
            let now = Instant::now();
            let desired = status::desired(key, outcome);
            let attempts = self
                .attempts
                .entry(key.clone())
                .and_modify(|attempts| attempts.want(desired.clone(), now))
                .or_insert_with(|| Attempts::new(desired, now));
            if status::observed(&outcome.observed) == *attempts.desired() {
                continue;
            }
            if attempts.next() <= now {
                match apply(&self.client, key, attempts.desired()).await {
                    Written::Done | Written::Gone => {}
                    Written::Failed(problem) => {
                        tracing::warn!(cluster = %key, "the status is not written: {problem}");
                    }
                }
                attempts.wrote(Instant::now());
            }
            let due = attempts.next();
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        next
    }
}

async fn apply(client: &Client, key: &ClusterKey, desired: &Map<String, Value>) -> Written {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, KIND), PLURAL);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.namespace, &resource);
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": { "name": key.name, "namespace": key.namespace },
        "status": desired,
    });
    let params = PatchParams::apply(MANAGER).force();
    let applied = match send(api.patch_status(&key.name, &params, &Patch::Apply(object))).await {
        Ok(applied) => applied,
        Err(written) => return written,
    };
    // Fields that an earlier controller wrote are its own until somebody removes them.
    let left = status::observed(applied.data.get("status").unwrap_or(&Value::Null));
    let stale: Map<_, _> = left
        .into_iter()
        .filter(|(name, _)| !desired.contains_key(name))
        .map(|(name, _)| (name, Value::Null))
        .collect();
    if stale.is_empty() {
        return Written::Done;
    }
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let removal = Patch::Merge(json!({ "status": stale }));
    match send(api.patch_status(&key.name, &params, &removal)).await {
        Ok(_) => Written::Done,
        Err(written) => written,
    }
}

async fn send<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Written> {
    match timeout(PATIENCE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Error::Api(status))) if status.code == NOT_FOUND => Err(Written::Gone),
        Ok(Err(Error::Api(status))) => Err(Written::Failed(format!(
            "{} {}",
            status.code, status.message
        ))),
        Ok(Err(error)) => Err(Written::Failed(error.to_string())),
        Err(_) => Err(Written::Failed(format!(
            "no answer within {} s",
            PATIENCE.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests;
