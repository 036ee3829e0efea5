//! `portcullis serve`: from a configuration file to a draining process.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_api::GatewayConfiguration;
use portcullis_core::observer::{Observer, Tracing};
use portcullis_gateway::accept::tls::{TlsFiles, TlsFilesError};
use portcullis_gateway::accept::{Acceptor, ConnectionLimits};
use portcullis_gateway::authenticate::AuthenticationSettings;
use portcullis_gateway::cluster::{ClusterSettings, Registry};
use portcullis_gateway::flow_control::{FlowControl, InFlightLimits};
use portcullis_gateway::forward::Timeouts;
use portcullis_gateway::lifecycle::{Drained, Lifecycle};
use portcullis_gateway::pipeline::{Pipeline, Shared};
use portcullis_gateway::workers::Workers;
use portcullis_telemetry::admin::Server as AdminServer;
use portcullis_telemetry::traces::{TraceError, TraceOptions};
use portcullis_telemetry::{Metrics, Readiness, Tracer, logs};

use crate::commands::ServeArguments;
use crate::tracing_adapter::TracingAdapter;

mod signals;
mod sources;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why the gateway does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("{0}")]
    Configuration(String),
    #[error("{0}")]
    Log(#[from] logs::LogError),
    #[error("{0}")]
    Trace(#[from] TraceError),
    #[error("listen.tls: {0}")]
    Tls(#[from] TlsFilesError),
    #[error("{what} {address} cannot be bound: {source}")]
    Bind { what: &'static str, address: SocketAddr, source: io::Error },
    #[error("{0}")]
    Sources(#[from] portcullis_index::SourceError),
    #[error("ready file {path}: {source}")]
    ReadyFile { path: PathBuf, source: io::Error },
    #[error("the runtime cannot start: {0}")]
    Runtime(io::Error),
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), ServeError> {
    let config = load(&arguments.config)?;
    let format = config.logging.format.parse()?;
    logs::init(format, &config.logging.level)?;
    log_panics_by_place();
    // Configuration, probes and signals; client traffic has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    runtime.block_on(serve(config, arguments.ready_file.as_deref()))
}

fn load(path: &Path) -> Result<GatewayConfiguration, ServeError> {
    portcullis_api::gateway_configuration::load(path).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        ServeError::Configuration(lines.join("\n"))
    })
}

async fn serve(
    config: GatewayConfiguration,
    ready_file: Option<&Path>,
) -> Result<(), ServeError> {
    let metrics = Arc::new(Metrics::new(VERSION));
    let observer: Arc<dyn Observer> = Arc::clone(&metrics) as Arc<dyn Observer>;
    let readiness = Readiness::default();
    let serving = readiness.condition("serving");
    let tracer = start_tracer(&config, &metrics)?;

    let bind_error = |what, address| move |source| ServeError::Bind { what, address, source };
    let admin = AdminServer::bind(config.admin.address, readiness.clone(), Arc::clone(&metrics))
        .await
        .map_err(bind_error("admin.address", config.admin.address))?;
    let admin_address =
        admin.local_addr().map_err(bind_error("admin.address", config.admin.address))?;

    let snapshots = sources::start(&config, &readiness, &metrics).await?;
    let lifecycle = Lifecycle::default();
    let workers =
        Arc::new(Workers::start(Workers::default_count()).map_err(ServeError::Runtime)?);
    let limits = &config.limits;
    let tls = TlsFiles {
        certificate: config.listen.tls.cert_file.clone(),
        key: config.listen.tls.key_file.clone(),
        client_ca: config.listen.tls.client_ca_file.clone(),
        http2: config.listen.offers_http2(),
        http1: config.listen.offers_http1(),
    }
    .watch(Arc::clone(&observer))?;
    let acceptor = Acceptor::bind(
        config.listen.address,
        tls,
        ConnectionLimits {
            connections: limits.max_connections,
            concurrent_streams: limits.max_concurrent_streams,
            header_bytes: limits.max_header_bytes,
            tls_handshake_timeout: limits.tls_handshake_timeout.into(),
            header_read_timeout: limits.header_read_timeout.into(),
        },
        Arc::clone(&observer),
        lifecycle.clone(),
        Arc::clone(&workers),
    )
    .await
    .map_err(bind_error("listen.address", config.listen.address))?;
    let address =
        acceptor.local_address().map_err(bind_error("listen.address", config.listen.address))?;

    let flow_control = FlowControl::new(InFlightLimits {
        read: limits.max_requests_in_flight,
        mutate: limits.max_mutating_requests_in_flight,
        long_running: limits.max_long_running_requests,
    });
    let registry = Registry::follow(
        snapshots,
        ClusterSettings {
            connect_timeout: limits.connect_timeout.into(),
            authentication: AuthenticationSettings {
                token_cache_ttl: config.authentication.token_cache_ttl.into(),
                token_cache_size: config.authentication.token_cache_size,
            },
            observer: Arc::clone(&observer),
            counters: Arc::default(),
            workers: workers.count(),
        },
    );
    let pipeline = Pipeline::new(&Shared {
        registry,
        flow_control: Arc::clone(&flow_control),
        observer,
        tracing: Arc::new(TracingAdapter(tracer.clone())) as Arc<dyn Tracing>,
        timeouts: Timeouts { request: limits.request_timeout.into() },
        lifecycle: lifecycle.clone(),
    });

    let admin_stop = tokio_util::sync::CancellationToken::new();
    let admin_running = tokio::spawn(admin.run(admin_stop.clone().cancelled_owned()));
    tokio::spawn(acceptor.run(pipeline));
    serving.set(Ok(()));
    if let Some(path) = ready_file {
        write_ready_file(path, address, admin_address)?;
    }
    tracing::info!(%address, admin = %admin_address, version = VERSION, "serving");

    signals::wait_for_end().await;
    serving.set(Err("draining".to_owned()));
    tracing::info!("draining: unready, connections are told to go away");
    signals::unless_told_again(tokio::time::sleep(config.drain.delay.into())).await;
    let drain = lifecycle.drain(&flow_control, config.drain.timeout.into());
    match signals::unless_told_again(drain).await {
        Some(Drained::Clean) => tracing::info!("drained"),
        Some(Drained::Cut(open)) => tracing::warn!(open, "drain deadline: connections were cut"),
        None => tracing::warn!("told twice to end: connections were cut"),
    }
    tracer.flush(std::time::Duration::from_secs(2)).await;
    admin_stop.cancel();
    let _ = admin_running.await;
    Ok(())
}

fn start_tracer(config: &GatewayConfiguration, metrics: &Metrics) -> Result<Tracer, TraceError> {
    let Some(tracing) = &config.tracing else { return Ok(Tracer::off()) };
    let options = TraceOptions {
        endpoint: &tracing.endpoint,
        sampling_ratio: tracing.sampling_ratio,
        version: VERSION,
    };
    Tracer::start_exporting(&options, metrics)
}

/// Replaces the panic message by the panic's place: the message may quote what a client sent.
fn log_panics_by_place() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a thread panicked");
    }));
}

/// Written beside and renamed, so that whoever waits for it never reads half of it.
fn write_ready_file(path: &Path, listen: SocketAddr, admin: SocketAddr) -> Result<(), ServeError> {
    let failed = |source| ServeError::ReadyFile { path: path.to_owned(), source };
    let text = serde_json::json!({
        "listen": listen.to_string(), "admin": admin.to_string(), "pid": std::process::id()
    });
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, text.to_string()).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}
