//! Starts control planes and the gateway, prints one line of JSON, holds until stdin closes.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use integration::rig::{Options, Rig};
use integration::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Starts control planes and the gateway as a test rig.
///
/// Prints one line of JSON: addresses, users, pids, logs, configuration. Holds until its standard
/// input closes, or until SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(
    name = "rig",
    after_help = "Example: make rig ARGS='--kubelet --upstream-mode impersonate'"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse().options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("rig: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening to SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening to SIGTERM")?;
    let rig = tokio::select! {
        started = Rig::start(options) => started?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", rig.report())
        .and_then(|()| stdout.flush())
        .context("printing")?;
    tokio::select! {
        () = stdin_closes() => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    rig.stop().await
}

/// Reads in a thread of its own: tokio's standard input would keep the runtime from ending.
async fn stdin_closes() {
    let (sender, closed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = sender.send(());
    });
    let _ = closed.await;
}
