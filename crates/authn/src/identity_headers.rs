//! Headers that say who a request comes from.
//!
//! Purpose: take off everything a client may have written into the place where the gateway speaks,
//! before the gateway writes there.
//! Invariant: after [`strip`] no header of the families below is left in any case, with any
//! separator, and `Connection` names none of them, so that whoever removes hop-by-hop headers
//! later cannot be made to remove the gateway's own.
//! Upstream counterpart: the deletions in the impersonation filter and in
//! `authentication/request/headerrequest`, which know only the canonical spelling.

use http::header::{AUTHORIZATION, CONNECTION, Entry, HeaderName};
use http::{HeaderMap, HeaderValue};

/// Families by prefix, in normal form: lower case, `-` for every separator.
///
/// The longest come first, because [`spoofed`] looks for a wrong separator within the prefix.
const PREFIXES: [&str; 5] = [
    "impersonate-extra-",
    "impersonate-",
    "x-remote-",
    "x-forwarded-",
    "client-cert-",
];

/// Single names, in normal form.
const NAMES: [&str; 4] = ["forwarded", "x-forwarded", "client-cert", "x-real-ip"];

/// Removes every identity header, and the mention of any in `Connection`.
pub fn strip(headers: &mut HeaderMap) {
    let identity: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_identity(name.as_str()))
        .cloned()
        .collect();
    for name in identity {
        headers.remove(name);
    }
    strip_connection(headers);
}

/// Whether a header has the name of an identity header but for its separators (`x_remote_user`,
/// `Impersonate_User`).
///
/// No client sends such a name in good faith, and some servers read it as the real one.
#[must_use]
pub fn spoofed(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        family(name).is_some_and(|known| !name.starts_with(known))
    })
}

/// Whether `name` belongs to one of the families in any spelling.
fn is_identity(name: &str) -> bool {
    family(name).is_some()
}

/// The family's prefix or name in normal form.
fn family(name: &str) -> Option<&'static str> {
    let normal = |known: &&&str| {
        let mut bytes = name.bytes().map(normalized);
        known.bytes().all(|b| bytes.next() == Some(b))
    };
    let whole = |known: &&&str| known.len() == name.len() && normal(known);
    NAMES
        .iter()
        .find(whole)
        .or_else(|| PREFIXES.iter().find(normal))
        .copied()
}

/// Gateways of the CGI tradition turn every other character into `_`.
const fn normalized(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() {
        byte.to_ascii_lowercase()
    } else {
        b'-'
    }
}

/// Keeps of `Connection` only what does not name a credential or identity header.
fn strip_connection(headers: &mut HeaderMap) {
    let Entry::Occupied(entry) = headers.entry(CONNECTION) else {
        return;
    };
    let options = |value: &HeaderValue| {
        value
            .to_str()
            .map(|text| text.split(',').map(str::trim).map(str::to_owned).collect())
    };
    // A value that is not text is dropped: nothing that can be named is in it.
    let all: Vec<String> = entry
        .iter()
        .filter_map(|value| options(value).ok())
        .flat_map(|o: Vec<_>| o)
        .collect();
    let harmful =
        |option: &str| is_identity(option) || option.eq_ignore_ascii_case(AUTHORIZATION.as_str());
    let intact = entry.iter().all(|value| value.to_str().is_ok());
    if intact && !all.iter().any(|option| harmful(option)) {
        return;
    }
    let kept: Vec<String> = all
        .into_iter()
        .filter(|option| !option.is_empty() && !harmful(option))
        .collect();
    headers.remove(CONNECTION);
    if let (false, Ok(value)) = (kept.is_empty(), HeaderValue::from_str(&kept.join(", "))) {
        headers.insert(CONNECTION, value);
    }
}

#[cfg(test)]
mod tests;
