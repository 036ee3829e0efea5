//! `portcullis serve`: from a configuration file to a draining process.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::GatewayConfiguration;
use portcullis_gateway::accept::tls::TlsFilesError;
use portcullis_gateway::lifecycle::Drained;
use portcullis_telemetry::admin::Server as AdminServer;
use portcullis_telemetry::traces::{TraceError, TraceOptions};
use portcullis_telemetry::{Metrics, Readiness, Tracer, logs};

use tokio_util::sync::CancellationToken;

use crate::commands::ServeArguments;
use crate::tracing_adapter::TracingAdapter;

mod signals;
mod sources;
mod traffic;

use traffic::Traffic;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest wait for the last spans to be sent.
const TRACE_FLUSH: Duration = Duration::from_secs(2);

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
    Bind {
        what: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
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

async fn serve(config: GatewayConfiguration, ready_file: Option<&Path>) -> Result<(), ServeError> {
    let metrics = Arc::new(Metrics::new(VERSION));
    let readiness = Readiness::default();
    let serving = readiness.condition("serving");
    let tracer = start_tracer(&config, &metrics)?;

    let bind = |source| bind_error("admin.address", config.admin.address, source);
    let admin = AdminServer::bind(
        config.admin.address,
        readiness.clone(),
        Arc::clone(&metrics),
    )
    .await
    .map_err(bind)?;
    let admin_address = admin.local_addr().map_err(bind)?;
    let admin_stop = CancellationToken::new();
    let admin_running = tokio::spawn(admin.run(admin_stop.clone().cancelled_owned()));

    let snapshots = sources::start(&config, &readiness, &metrics).await?;
    let tracing = Arc::new(TracingAdapter(tracer.clone()));
    let traffic = Traffic::start(&config, snapshots, metrics, tracing).await?;
    serving.set(Ok(()));
    if let Some(path) = ready_file {
        write_ready_file(path, traffic.address(), admin_address)?;
    }
    tracing::info!(address = %traffic.address(), admin = %admin_address, version = VERSION, "serving");

    signals::wait_for_end().await;
    serving.set(Err("draining".to_owned()));
    tracing::info!("draining: unready, connections are told to go away");
    signals::unless_told_again(tokio::time::sleep(config.drain.delay)).await;
    match signals::unless_told_again(traffic.drain(config.drain.timeout)).await {
        Some(Drained::Clean) => tracing::info!("drained"),
        Some(Drained::Cut(open)) => tracing::warn!(open, "drain deadline: connections were cut"),
        None => tracing::warn!("told twice to end: connections were cut"),
    }
    tracer.flush(TRACE_FLUSH).await;
    admin_stop.cancel();
    let _ = admin_running.await;
    Ok(())
}

fn bind_error(what: &'static str, address: SocketAddr, source: io::Error) -> ServeError {
    ServeError::Bind {
        what,
        address,
        source,
    }
}

fn start_tracer(config: &GatewayConfiguration, metrics: &Metrics) -> Result<Tracer, TraceError> {
    let Some(tracing) = &config.tracing else {
        return Ok(Tracer::off());
    };
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
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tracing::error!(place, "a thread panicked");
    }));
}

/// Written beside and renamed, so that whoever waits for it never reads half of it.
fn write_ready_file(path: &Path, listen: SocketAddr, admin: SocketAddr) -> Result<(), ServeError> {
    let failed = |source| ServeError::ReadyFile {
        path: path.to_owned(),
        source,
    };
    let text = serde_json::json!({
        "listen": listen.to_string(), "admin": admin.to_string(), "pid": std::process::id()
    });
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, text.to_string()).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}
