//! One metric of one cluster, reachable without allocating.
//!
//! Invariant: once a key was seen, counting it again costs one shared lock, one hash of a small
//! `Copy` key and one atomic operation. The label strings are built only the first time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;

/// The label every per-cluster metric has: `namespace/name`, or empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ClusterLabel {
    pub(super) cluster: Arc<str>,
}

/// A metric family whose labels are the cluster and `K`.
pub(super) type ByCluster<K, M> = Family<(ClusterLabel, K), M>;

/// The part of a [`ByCluster`] family that belongs to one cluster.
pub(super) struct Series<K, M> {
    family: ByCluster<K, M>,
    cluster: ClusterLabel,
    /// `None` once the cluster is gone: a request that still holds the handle counts nothing.
    handles: RwLock<Option<HashMap<K, M>>>,
}

impl<K: Copy + Eq + Hash, M: Clone> Series<K, M> {
    pub(super) fn new(family: &ByCluster<K, M>, cluster: &Arc<str>) -> Self {
        Self {
            family: family.clone(),
            cluster: ClusterLabel {
                cluster: Arc::clone(cluster),
            },
            handles: RwLock::new(Some(HashMap::new())),
        }
    }

    /// Applies `act` to the metric for `key`, creating it at its first use.
    pub(super) fn with(&self, key: K, act: impl FnOnce(&M)) {
        {
            let handles = self.handles.read().unwrap_or_else(PoisonError::into_inner);
            match handles.as_ref() {
                None => return,
                Some(handles) => {
                    if let Some(metric) = handles.get(&key) {
                        return act(metric);
                    }
                }
            }
        }
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(handles) = handles.as_mut() {
            act(handles.entry(key).or_insert_with(|| {
                self.family
                    .get_or_create_owned(&(self.cluster.clone(), key))
            }));
        }
    }

    /// Whether any metric of this cluster fulfils `test`.
    pub(super) fn any(&self, test: impl Fn(&M) -> bool) -> bool {
        let handles = self.handles.read().unwrap_or_else(PoisonError::into_inner);
        handles
            .as_ref()
            .is_some_and(|handles| handles.values().any(test))
    }

    /// Takes this cluster out of the family, for good.
    pub(super) fn retire(&self) {
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        for key in handles.take().unwrap_or_default().into_keys() {
            self.family.remove(&(self.cluster.clone(), key));
        }
    }
}

impl<K, M> fmt::Debug for Series<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("cluster", &self.cluster.cluster)
            .finish_non_exhaustive()
    }
}
