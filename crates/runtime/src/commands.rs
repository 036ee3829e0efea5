//! The command line. Exit codes: 0 = pass, 1 = violation, 2 = usage or load error.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use portcullis_cli::check::{self, Output};

use crate::serve;

const USAGE_OR_LOAD_ERROR: u8 = 2;

/// A Kubernetes API gateway: many clusters, unchanged clients, honest views.
#[derive(Parser)]
#[command(name = "portcullis", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clusters to Kubernetes clients
    #[command(after_help = "Examples:\n  portcullis serve --config gateway.yaml\n\n\
        SIGTERM and SIGINT drain: unready, GOAWAY, short requests finish, watches end, deadline.")]
    Serve(ServeArguments),
    /// Validate configuration as a server would load it
    #[command(
        after_help = "Examples:\n  portcullis check gateway.yaml\n  portcullis check -o json clusters/"
    )]
    Check {
        /// Files, or folders whose YAML and JSON files are read
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// How to print what was found
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  source <(portcullis completion bash)")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Examples:\n  portcullis man | man -l -")]
    Man,
}

/// What `portcullis serve` is told on the command line.
#[derive(clap::Args)]
pub(crate) struct ServeArguments {
    /// GatewayConfiguration file (YAML or JSON)
    #[arg(short, long, env = "PORTCULLIS_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Write the bound addresses and the process ID to FILE, as JSON, once requests are served
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}

pub(crate) fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let failed = error.use_stderr();
            let _ = error.print();
            return if failed {
                ExitCode::from(USAGE_OR_LOAD_ERROR)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match arguments.command {
        Command::Serve(arguments) => match serve::run(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(USAGE_OR_LOAD_ERROR)
            }
        },
        Command::Check { paths, output } => {
            ExitCode::from(check::check(&paths, output, &mut std::io::stdout().lock()))
        }
        Command::Completion { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "portcullis", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
        Command::Man => print_manual(),
    }
}

fn print_manual() -> ExitCode {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
    match rendered.and_then(|()| std::io::stdout().write_all(&page)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the manual page could not be written: {error}");
            ExitCode::from(USAGE_OR_LOAD_ERROR)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_each_command_has_an_example() {
        let mut command = Arguments::command();
        command.build();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
            assert!(
                sub.get_after_help()
                    .is_some_and(|h| h.to_string().contains("Examples:")),
                "{}",
                sub.get_name()
            );
        }
    }
}
