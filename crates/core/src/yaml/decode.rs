//! From a document to a type, with every unknown field named.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::{Diagnostic, Document, Fault, MAX_DIAGNOSTICS};

/// Reads `document` as a `T`.
///
/// # Errors
/// All unknown fields up to [`MAX_DIAGNOSTICS`], and the first value of a wrong type.
pub fn decode<T: DeserializeOwned>(document: &Document) -> Result<T, Vec<Diagnostic>> {
    decode_value(&document.value).map_err(|faults| {
        faults
            .into_iter()
            .map(|fault| document.diagnose(fault))
            .collect()
    })
}

/// Reads a value that came from elsewhere than a file as a `T`.
///
/// # Errors
/// As [`decode`].
pub fn decode_value<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Fault>> {
    if !value.is_object() {
        let message = "the document is not a mapping";
        return Err(vec![Fault::new("", message, "write `key: value` lines")]);
    }
    let mut faults = Vec::new();
    let mut pruned: Option<Value> = None;
    while faults.len() < MAX_DIAGNOSTICS {
        let error = match serde_path_to_error::deserialize(pruned.as_ref().unwrap_or(value)) {
            Ok(decoded) if faults.is_empty() => return Ok(decoded),
            Ok(_) => break,
            Err(error) => error,
        };
        let message = error.inner().to_string();
        faults.push(fault(error.path(), &message));
        // An unknown field hides what comes behind it: look again without it.
        if !(message.starts_with("unknown field ")
            && remove(pruned.get_or_insert_with(|| value.clone()), error.path()))
        {
            break;
        }
    }
    Err(faults)
}

fn fault(path: &Path, message: &str) -> Fault {
    let field = if path.iter().len() == 0 {
        String::new()
    } else {
        path.to_string()
    };
    if let Some(missing) = quoted(message, "missing field `") {
        let field = if field.is_empty() {
            missing.to_owned()
        } else {
            format!("{field}.{missing}")
        };
        return Fault::new(field, "is required", "add it");
    }
    if message.starts_with("unknown field ") {
        let remedy = match message.split_once(", expected ") {
            Some((_, known)) => format!("known here: {}", known.trim_start_matches("one of ")),
            None => "no field is known here".to_owned(),
        };
        return Fault::new(field, "unknown field", remedy);
    }
    if message.starts_with("unknown variant ") {
        let remedy = match message.split_once(", expected ") {
            Some((_, known)) => format!("write {known}"),
            None => String::new(),
        };
        return Fault::new(field, "unknown value", remedy);
    }
    let (problem, remedy) = match message.rsplit_once(", expected ") {
        Some((problem, "a string")) => (problem, "put the value in quotes".to_owned()),
        Some((problem, expected)) => (problem, format!("expected {expected}")),
        None => (message, String::new()),
    };
    Fault::new(field, without_text(problem), remedy)
}

/// The part of `message` between `prefix` and the next backquote.
fn quoted<'m>(message: &'m str, prefix: &str) -> Option<&'m str> {
    message.strip_prefix(prefix)?.split('`').next()
}

/// Drops a string value from a type error: it may be a secret in the wrong field.
fn without_text(problem: &str) -> &str {
    match problem.find("string \"") {
        Some(at) => problem.get(..at + "string".len()).unwrap_or_default(),
        None => problem,
    }
}

/// Removes the value at `path`; false if there is none.
fn remove(value: &mut Value, path: &Path) -> bool {
    let mut at = value;
    let mut segments = path.iter().peekable();
    while let Some(segment) = segments.next() {
        let next = match (at, segment) {
            (Value::Array(items), Segment::Seq { index }) => items.get_mut(*index),
            (Value::Object(entries), Segment::Map { key } | Segment::Enum { variant: key }) => {
                if segments.peek().is_none() {
                    return entries.shift_remove(key).is_some();
                }
                entries.get_mut(key)
            }
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return false,
        }
    }
    false
}
