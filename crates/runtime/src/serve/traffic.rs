//! The data plane: listener, workers, pipeline, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::GatewayConfiguration;
use portcullis_core::observer::{Observer, Tracing};
use portcullis_gateway::accept::tls::TlsFiles;
use portcullis_gateway::accept::{Acceptor, ConnectionLimits};
use portcullis_gateway::authenticate::AuthenticationSettings;
use portcullis_gateway::cluster::{ClusterSettings, Registry};
use portcullis_gateway::flow_control::{FlowControl, InFlightLimits};
use portcullis_gateway::forward::Timeouts;
use portcullis_gateway::lifecycle::{Drained, Lifecycle};
use portcullis_gateway::pipeline::{Pipeline, Shared};
use portcullis_gateway::workers::Workers;
use portcullis_index::Snapshot;
use tokio::sync::watch;

use super::{ServeError, bind_error};

/// Everything that serves clients.
pub(super) struct Traffic {
    address: SocketAddr,
    lifecycle: Lifecycle,
    flow_control: Arc<FlowControl>,
    /// The threads end with this: open connections need them until the drain is over.
    _workers: Arc<Workers>,
}

impl Traffic {
    /// Binds the listener and serves the clusters of `snapshots` on it.
    pub(super) async fn start(
        config: &GatewayConfiguration,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        observer: Arc<dyn Observer>,
        tracing: Arc<dyn Tracing>,
    ) -> Result<Self, ServeError> {
        let lifecycle = Lifecycle::default();
        let workers = Workers::start(Workers::default_count()).map_err(ServeError::Runtime)?;
        let workers = Arc::new(workers);
        let bind = |source| bind_error("listen.address", config.listen.address, source);
        let acceptor = Acceptor::bind(
            config.listen.address,
            tls_files(config).watch(Arc::clone(&observer))?,
            connection_limits(config),
            Arc::clone(&observer),
            lifecycle.clone(),
            Arc::clone(&workers),
        )
        .await
        .map_err(bind)?;
        let address = acceptor.local_address().map_err(bind)?;
        let flow_control = FlowControl::new(in_flight_limits(config));
        let clusters = cluster_settings(config, Arc::clone(&observer), workers.count());
        let pipeline = Pipeline::new(&Shared {
            registry: Registry::follow(snapshots, clusters),
            flow_control: Arc::clone(&flow_control),
            observer,
            tracing,
            timeouts: Timeouts {
                request: config.limits.request_timeout,
            },
            lifecycle: lifecycle.clone(),
        });
        tokio::spawn(acceptor.run(pipeline));
        Ok(Self {
            address,
            lifecycle,
            flow_control,
            _workers: workers,
        })
    }

    /// The address really bound.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends within `timeout`.
    pub(super) async fn drain(&self, timeout: Duration) -> Drained {
        self.lifecycle.drain(&self.flow_control, timeout).await
    }
}

fn tls_files(config: &GatewayConfiguration) -> TlsFiles {
    let listen = &config.listen;
    TlsFiles {
        certificate: listen.tls.cert_file.clone(),
        key: listen.tls.key_file.clone(),
        client_ca: listen.tls.client_ca_file.clone(),
        http2: listen.offers_http2(),
        http1: listen.offers_http1(),
    }
}

fn connection_limits(config: &GatewayConfiguration) -> ConnectionLimits {
    let limits = &config.limits;
    ConnectionLimits {
        connections: limits.max_connections,
        concurrent_streams: limits.max_concurrent_streams,
        header_bytes: limits.max_header_bytes,
        tls_handshake_timeout: limits.tls_handshake_timeout,
        header_read_timeout: limits.header_read_timeout,
    }
}

fn in_flight_limits(config: &GatewayConfiguration) -> InFlightLimits {
    let limits = &config.limits;
    InFlightLimits {
        read: limits.max_requests_in_flight,
        mutate: limits.max_mutating_requests_in_flight,
        long_running: limits.max_long_running_requests,
    }
}

fn cluster_settings(
    config: &GatewayConfiguration,
    observer: Arc<dyn Observer>,
    workers: usize,
) -> ClusterSettings {
    ClusterSettings {
        connect_timeout: config.limits.connect_timeout,
        authentication: AuthenticationSettings {
            token_cache_ttl: config.authentication.token_cache_ttl,
            token_cache_size: config.authentication.token_cache_size,
        },
        observer,
        counters: Arc::default(),
        workers,
    }
}
