//! Joins all parts into the process.
//!
//! Purpose: command line, configuration, wiring, signals, drain. Everything that decides about a
//! request is elsewhere; this crate only says which part gets which other part.
//! Invariant: the only crate that sees all faces.

use std::process::ExitCode;

mod commands;
mod serve;
mod tracing_adapter;

/// Runs the `portcullis` command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    commands::run()
}
