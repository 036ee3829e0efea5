//! Serde for fields that must never be printed.

use portcullis_core::Redacted;
use serde::{Deserialize as _, Deserializer};

/// For `#[serde(deserialize_with)]`; `null` is the same as absent.
pub(crate) fn optional<'de, D>(from: D) -> Result<Option<Redacted<String>>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Option::<String>::deserialize(from)?.map(Redacted::new))
}
