//! Acting as somebody else: `Impersonate-User`, `-Group`, `-Uid` and `-Extra-*`.
//!
//! Purpose: read a client's wish ([`parse`]), list what kube-apiserver would have to allow for it
//! ([`checks`]), and write identities for the upstream ([`write_headers`], [`forward_headers`]).
//! Invariant: the wish and the headers that go on share nothing but [`Impersonation`]: a header
//! that the parser did not see is not sent.
//! Upstream counterpart: `endpoints/filters/impersonation` with `ConstrainedImpersonation` on, its
//! default since 1.36.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use portcullis_core::{Error, UserInfo};

pub use evaluation::{Evaluation, Impersonated};
pub use headers::{forward_headers, write_headers};
pub use plan::{Attempt, Mode, Plan, Step, checks, effective_user};

use crate::go_text::default_info;

mod evaluation;
mod extra_key;
mod headers;
mod plan;

/// Most groups and extra values in one request. Each may cost a question to the API server.
pub const MAX_VALUES: usize = 1024;

pub(crate) const USER: &str = "impersonate-user";
pub(crate) const GROUP: &str = "impersonate-group";
pub(crate) const UID: &str = "impersonate-uid";
pub(crate) const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Whom a client wants to be, as it wrote it: no implied group is in it. The name is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation(UserInfo);

impl Impersonation {
    /// The wanted user without implied groups.
    #[must_use]
    pub const fn wanted(&self) -> &UserInfo {
        &self.0
    }
}

/// Reads the impersonation headers; `None` if there is no wish.
///
/// Of several names or UIDs the first counts, and an empty one is none, as upstream.
///
/// # Errors
/// 400 for groups, a UID or extra without a name; for values that are not text or that would not
/// survive as a header; for more than [`MAX_VALUES`].
pub fn parse(headers: &HeaderMap) -> Result<Option<Impersonation>, Error> {
    let first = |name| {
        headers
            .get(name)
            .map_or(Ok(String::new()), |value| text(name, value))
    };
    let (username, uid) = (first(USER)?, first(UID)?);
    let groups: Vec<String> = headers
        .get_all(GROUP)
        .iter()
        .map(|value| text(GROUP, value))
        .collect::<Result<_, _>>()?;
    let extra = extra(headers)?;
    if groups.len() + extra.values().map(Vec::len).sum::<usize>() > MAX_VALUES {
        return Err(Error::bad_request(format!(
            "more than {MAX_VALUES} impersonated groups and extra values"
        )));
    }
    let wanted = UserInfo {
        username,
        uid,
        groups,
        extra,
    };
    if wanted == UserInfo::default() {
        return Ok(None);
    }
    if wanted.username.is_empty() {
        let wanted = default_info(&wanted);
        return Err(Error::bad_request(format!(
            "requested {wanted} without impersonating a user name"
        )));
    }
    Ok(Some(Impersonation(wanted)))
}

fn extra(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        // Header names are in lower case here, so only an escape can put upper case into a key.
        let Some(encoded) = name.as_str().strip_prefix(EXTRA_PREFIX) else {
            continue;
        };
        let key = extra_key::unescape(encoded).ok_or_else(|| not_text(name.as_str()))?;
        extra
            .entry(Cow::into_owned(key))
            .or_default()
            .push(text(name.as_str(), value)?);
    }
    Ok(extra)
}

/// A value that means the same after one more hop.
fn text(name: &str, value: &HeaderValue) -> Result<String, Error> {
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| not_text(name))?;
    if headers::value(text).is_none() {
        return Err(Error::bad_request(format!(
            "the header {name} starts or ends with white space"
        )));
    }
    Ok(text.to_owned())
}

fn not_text(name: &str) -> Error {
    Error::bad_request(format!("the header {name} is not UTF-8"))
}

#[cfg(test)]
mod tests;
