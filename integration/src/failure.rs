//! The one error of the harness: a sentence for the person who reads the test's output.
//!
//! Purpose: say what was being done, where, and what to do about it.
//! Invariant: a cause is kept as text behind what was being done when it struck.

use std::fmt::Display;

/// What the fallible functions of this crate return.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why the harness could not do what a test asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// A failure that reads as `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Puts what was being done in front of an error.
pub trait Context<T> {
    /// Turns an error into a [`Failure`] that reads `doing: error`.
    fn context(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{doing}: {error}")))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.ok_or_else(|| Failure::new(doing.to_string()))
    }
}
