//! Strict YAML and JSON documents in which every value knows its place.
//!
//! Purpose: whatever an operator wrote wrong is answered with file, line, column, field and
//! remedy. Scalars mean what `kubectl apply` would make of them.
//! Invariant: a document is either understood whole or refused: duplicate keys, keys that are not
//! strings, unknown tags and unknown fields are errors. Input is bounded in bytes, depth and,
//! with aliases expanded, in weight. No input panics. Diagnostics never repeat a string value,
//! which may be a credential that stands in the wrong field.
//! Upstream counterpart: `sigs.k8s.io/yaml` with `UnmarshalStrict`.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use decode::{decode, decode_value};

mod compose;
mod decode;
mod scalar;
mod spot;

use spot::Spot;

/// Largest file, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Deepest nesting of lists and mappings.
pub const MAX_DEPTH: usize = 64;
/// Largest weight of a file with its aliases expanded: 64 per value plus the bytes of its text.
pub const MAX_WEIGHT: usize = 16 << 20;
/// Most faults that are reported for one document.
pub const MAX_DIAGNOSTICS: usize = 20;

/// Where something stands in a file; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl Place {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// What is wrong with a field, before anybody knows in which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field, as in `spec.hosts[0]`; empty for the whole document.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Fault {
    /// A fault of `field`.
    pub fn new(
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

/// `FIELD: message; remedy`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            message,
            remedy,
        } = self;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        f.write_str(message)?;
        if remedy.is_empty() {
            Ok(())
        } else {
            write!(f, "; {remedy}")
        }
    }
}

/// A fault and where it stands. Prints as `FILE:LINE:COL: FIELD: message; remedy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// File name as the operator gave it.
    pub file: String,
    /// Line and column, unless the fault is about the file as such.
    pub place: Option<Place>,
    /// What is wrong.
    pub fault: Fault,
}

impl Diagnostic {
    /// A fault of the file as such, e.g. that it cannot be read.
    pub fn of_file(
        file: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            file: file.into(),
            place: None,
            fault: Fault::new("", message, remedy),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

/// One document of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its content.
    pub value: Value,
    file: Arc<str>,
    spot: Spot,
}

impl Document {
    /// The file's name as given to [`parse`].
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where `field` stands (its key, if it has one), or else the nearest field around it.
    #[must_use]
    pub fn place(&self, field: &str) -> Place {
        self.spot.find(field)
    }

    /// Adds file and place to `fault`.
    #[must_use]
    pub fn diagnose(&self, fault: Fault) -> Diagnostic {
        Diagnostic {
            file: self.file.to_string(),
            place: Some(self.place(&fault.field)),
            fault,
        }
    }

    /// A string at the top of the document, such as `kind`.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value.get(key).and_then(Value::as_str)
    }
}

/// Reads all documents of a file. Documents without content are left out.
///
/// # Errors
/// Every duplicate or odd key up to the first place that makes the rest unreadable.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Vec<Document>, Vec<Diagnostic>> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, more than {MAX_BYTES}", bytes.len());
        return Err(vec![Diagnostic::of_file(
            file,
            message,
            "split it into several files",
        )]);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        vec![Diagnostic {
            file: file.to_owned(),
            place: Some(end_of(&String::from_utf8_lossy(valid))),
            fault: Fault::new(
                "",
                format!("not UTF-8 at byte offset {}", error.valid_up_to()),
                "save the file as UTF-8",
            ),
        }]
    })?;
    compose::documents(file, text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The place behind the last character of `text`.
fn end_of(text: &str) -> Place {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Place { line, column }
}

#[cfg(test)]
mod tests;
