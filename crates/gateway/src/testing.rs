//! What stage tests start from.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::Request;
use portcullis_index::{
    Authentication, ClusterConfig, ClusterKey, ClusterState, GatewayCredential, Security, Snapshot,
    Trust, Upstream, UpstreamMode,
};
use tokio::sync::watch;

use crate::Body;
use crate::authenticate::AuthenticationSettings;
use crate::cluster::{ClusterSettings, Registry};
use crate::exchange::{Exchange, Peer, Received};

/// A request as the bracketing layers hand it on.
pub(crate) fn received(method: &str, uri: &str) -> Received {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .body(Body::empty())
        .unwrap();
    let exchange = Exchange {
        received: Instant::now(),
        audit_id: OnceLock::new(),
        peer: Arc::new(Peer {
            address: ([192, 0, 2, 7], 4711).into(),
            certificate: None,
        }),
        facts: OnceLock::new(),
        observer: Arc::new(()),
        stages: Default::default(),
    };
    Received {
        exchange: Arc::new(exchange),
        request,
    }
}

/// A cluster that is served, at an address where nobody listens.
pub(crate) fn cluster(namespace: &str, name: &str) -> ClusterConfig {
    ClusterConfig {
        key: ClusterKey::new(namespace, name),
        hosts: Vec::new(),
        state: ClusterState::Serving,
        upstream: Upstream {
            host: "192.0.2.1".to_owned(),
            port: 6443,
            path_prefix: String::new(),
            connect_host: None,
            trust: Trust::Insecure,
        },
        mode: UpstreamMode::PassThrough,
        credential: GatewayCredential::None,
        authentication: Authentication {
            disable_validation: true,
            ..Authentication::default()
        },
        security: Security::default(),
        proxy_group: None,
    }
}

/// A registry of `clusters`, and the sender that replaces them.
pub(crate) fn registry(
    clusters: Vec<ClusterConfig>,
) -> (Arc<Registry>, watch::Sender<Arc<Snapshot>>) {
    let (sender, receiver) = watch::channel(snapshot(clusters));
    let settings = ClusterSettings {
        connect_timeout: Duration::from_secs(1),
        authentication: AuthenticationSettings {
            token_cache_ttl: Duration::from_secs(1),
            token_cache_size: 16,
        },
        observer: Arc::new(()),
        counters: Arc::default(),
        workers: 1,
    };
    (Registry::follow(receiver, settings), sender)
}

/// A snapshot of `clusters`.
pub(crate) fn snapshot(clusters: Vec<ClusterConfig>) -> Arc<Snapshot> {
    let clusters = clusters
        .into_iter()
        .map(|c| (c.key.clone(), Arc::new(c)))
        .collect();
    Arc::new(Snapshot { clusters })
}
