//! How the session looks on a terminal.
//!
//! Invariant: colour only on a terminal, and never when `NO_COLOR` is set; without colour the
//! text says the same.

use std::io::{IsTerminal as _, Write as _};

use crate::kubectl::Output;

const RESET: &str = "\u{1b}[0m";
const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const CYAN: &str = "\u{1b}[36m";
const GREEN: &str = "\u{1b}[32m";
const RED: &str = "\u{1b}[31m";

/// Where the session is shown.
#[derive(Debug, Clone)]
pub struct Screen {
    colour: bool,
}

impl Screen {
    /// Standard output.
    pub fn stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Self {
            colour: !unwanted && std::io::stdout().is_terminal(),
        }
    }

    /// A heading.
    pub fn title(&self, text: &str) {
        self.print(&format!("\n{}\n", self.painted(BOLD, text)));
    }

    /// A remark.
    pub fn say(&self, text: &str) {
        self.print(&format!("{}\n", self.painted(DIM, text)));
    }

    /// What comes next, and why.
    pub fn narrate(&self, text: &str) {
        let commented = text
            .lines()
            .map(|line| format!("# {line}"))
            .collect::<Vec<_>>()
            .join("\n");
        self.print(&format!("\n{}\n", self.painted(CYAN, &commented)));
    }

    /// A command, as typed.
    pub fn command(&self, text: &str) {
        self.print(&format!(
            "{} {}\n",
            self.painted(GREEN, "$"),
            self.painted(BOLD, text)
        ));
    }

    /// What a command printed.
    pub fn output(&self, output: &Output) {
        let open = !output.stdout.is_empty() && !output.stdout.ends_with('\n');
        self.text(&output.stdout);
        self.text(if open { "\n" } else { "" });
        self.text(&output.stderr);
    }

    /// Text as it is.
    pub fn text(&self, text: &str) {
        self.print(text);
    }

    /// A missed expectation.
    pub fn miss(&self, text: &str) {
        self.print(&format!("{}\n", self.painted(RED, &format!("✗ {text}"))));
    }

    /// The end of the session.
    pub fn verdict(&self, steps: usize, missed: usize) {
        let text = match missed {
            0 => self.painted(GREEN, &format!("✓ all {steps} steps as they should be")),
            _ => self.painted(
                RED,
                &format!("✗ {missed} of {steps} steps not as they should be"),
            ),
        };
        self.print(&format!("\n{text}\n"));
    }

    fn painted(&self, style: &str, text: &str) -> String {
        if self.colour {
            format!("{style}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }

    #[allow(
        clippy::unused_self,
        reason = "everything shown goes through the screen"
    )]
    fn print(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        // Whoever piped us into `head` has seen enough.
        let _ = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
    }
}
