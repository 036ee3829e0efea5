//! A narrated kubectl session through the gateway, in front of two real clusters.

use std::process::ExitCode;

use clap::Parser;
use integration::demo::{Demo, Screen};
use integration::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Starts two control planes and the gateway, and runs a narrated kubectl session through it.
///
/// Then stays up, so that you can go on by hand, until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "demo", after_help = "Example: make demo ARGS=--once")]
struct Cli {
    /// End after the session: exit 0, or 1 if any step differs from what it should be.
    #[arg(long)]
    once: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("demo: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every step went as it should.
async fn run(cli: &Cli) -> Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening to SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening to SIGTERM")?;
    let screen = Screen::stdout();
    let session = async {
        let demo = Demo::start(&screen).await?;
        let as_expected = demo.session(&screen).await?;
        Ok((demo, as_expected))
    };
    let (demo, as_expected) = tokio::select! {
        done = session => done?,
        _ = interrupt.recv() => return Ok(false),
        _ = terminate.recv() => return Ok(false),
    };
    if !cli.once {
        demo.hint(&screen);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    demo.stop(&screen).await?;
    Ok(as_expected)
}
