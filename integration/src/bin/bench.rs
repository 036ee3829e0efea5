//! Compares the gateway with direct calls and with HAProxy; prints and writes the figures.

use std::process::ExitCode;

use clap::Parser;
use integration::bench::{self, Options};

/// Compares Portcullis with direct calls to kube-apiserver and with HAProxy.
///
/// Needs the control plane (`make testcluster`), the release binary of the gateway and, for the
/// comparison, Debian's package haproxy. Close other programs: the figures share the machine.
#[derive(Debug, Parser)]
#[command(
    name = "bench",
    after_help = "Example: make bench ARGS='--only get,pods --rounds 10'"
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

// One thread: the client competes with what it measures for few cores, and needs little.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match bench::run(&Cli::parse().options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench: {failure}");
            ExitCode::FAILURE
        }
    }
}
