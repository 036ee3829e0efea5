//! Checks of this repository that cargo and clippy do not have.
//!
//! `cargo xtask layering` compares the crates' dependencies with the table of allowed edges;
//! `cargo xtask guard` looks at every file: size, reasons, leftovers, paths of somebody's machine.
//! Both end with 1 if something is wrong and 2 if they could not look.

mod layering;
mod guard;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
Checks of this repository that cargo and clippy do not have.

Usage: cargo xtask <COMMAND>

Commands:
  layering  fail on a dependency between crates that the table in xtask/src/layering.rs forbids
  guard     fail on files that are too long, bare #[ignore] and #[allow], leftovers, machine paths
";

/// What a check found.
#[derive(Debug, Default)]
struct Findings {
    /// Each makes the check fail.
    wrong: Vec<String>,
    /// Each is worth a look.
    notes: Vec<String>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (command, rest) = (arguments.next(), arguments.next());
    let findings = match (command.as_deref(), rest) {
        (Some("layering"), None) => layering::run(&root()),
        (Some("guard"), None) => guard::run(&root()),
        (Some("help" | "-h" | "--help"), None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match findings {
        Ok(findings) => report(&command.unwrap_or_default(), &findings),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn report(command: &str, findings: &Findings) -> ExitCode {
    for note in &findings.notes {
        println!("note: {note}");
    }
    for wrong in &findings.wrong {
        eprintln!("error: {wrong}");
    }
    if findings.wrong.is_empty() {
        println!("{command}: ok");
        return ExitCode::SUCCESS;
    }
    eprintln!("{command}: {} wrong", findings.wrong.len());
    ExitCode::FAILURE
}

/// The repository: this package lies directly in it.
///
/// Cargo sets the variable when it runs us; the compiled-in path would be that of another checkout
/// if two share a target folder.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .parent()
        .map_or_else(|| package.clone(), Path::to_owned)
}

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {}", stderr.trim()))
}
