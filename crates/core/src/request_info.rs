//! What a request asks for, read from its method, path and query alone.
//!
//! Purpose: every later decision (authorization, limits, deadlines, views) rests on this reading,
//! so it must be the reading that kube-apiserver itself will make of the same bytes.
//! Invariant: no I/O, no failure on odd input: a path that is no resource path is a non-resource
//! request, exactly as upstream. Paths that could mean two things are refused by [`clean_path`].
//! Upstream counterpart: `k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory`.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::observer::VerbClass;

/// The parts of a request that decisions are made on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path names an API resource.
    pub is_resource_request: bool,
    /// Path, percent-decoded once.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, ... or the lower-case method of a non-resource request.
    pub verb: String,
    /// `api` or `apis`.
    pub api_prefix: String,
    /// API group, empty for the core group.
    pub api_group: String,
    /// API version.
    pub api_version: String,
    /// Namespace, empty for cluster-scoped requests. `namespaces/x` itself has namespace `x`.
    pub namespace: String,
    /// Resource (plural).
    pub resource: String,
    /// Subresource, empty if none.
    pub subresource: String,
    /// Object name, also taken from `fieldSelector=metadata.name=X` of a collection read.
    pub name: String,
    /// Raw field selector of list, watch and deletecollection.
    pub field_selector: Option<String>,
    /// Raw label selector of list, watch and deletecollection.
    pub label_selector: Option<String>,
}

/// A path that does not say where the next segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("the path has an invalid percent-encoding")]
    Encoding,
    /// Decodes to something that is not UTF-8.
    #[error("the path is not UTF-8 once decoded")]
    Utf8,
    /// A `.` or `..` segment, raw or encoded: some hops resolve it and some do not.
    #[error("the path has a '.' or '..' segment")]
    DotSegment,
    /// A control character, NUL included.
    #[error("the path has a control character")]
    Control,
    /// Does not start with a slash.
    #[error("the path does not start with '/'")]
    NotAbsolute,
    /// `watch` or `proxy` with nothing behind it.
    #[error("unable to determine kind and namespace from url")]
    Incomplete,
}

/// Decodes `raw` once and refuses what two hops could read in two ways.
///
/// # Errors
/// See [`PathError`]. A backslash counts as a separator when dot segments are looked for.
pub fn clean_path(raw: &str) -> Result<Cow<'_, str>, PathError> {
    if !raw.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    let decoded = if raw.contains('%') {
        check_escapes(raw)?;
        percent_decode_str(raw)
            .decode_utf8()
            .map_err(|_| PathError::Utf8)?
    } else {
        Cow::Borrowed(raw)
    };
    if decoded.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    if decoded.contains('.') && has_dot_segment(&decoded) {
        return Err(PathError::DotSegment);
    }
    // A second layer of encoding is somebody's attempt to hide a segment from the first decoder.
    if decoded.contains('%') {
        let twice = percent_decode_str(&decoded).decode_utf8_lossy();
        if has_dot_segment(&twice) {
            return Err(PathError::DotSegment);
        }
    }
    Ok(decoded)
}

fn has_dot_segment(path: &str) -> bool {
    // Path parameters (`..;x`) are stripped by some servers before they resolve the segment.
    path.split(['/', '\\'])
        .any(|s| matches!(s.split(';').next(), Some("." | "..")))
}

fn check_escapes(raw: &str) -> Result<(), PathError> {
    let mut rest = raw.as_bytes();
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        match rest.get(at + 1..at + 3) {
            Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => {}
            _ => return Err(PathError::Encoding),
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    Ok(())
}

impl RequestInfo {
    /// Reads a request. `path` is decoded (see [`clean_path`]), `query` is raw.
    ///
    /// # Errors
    /// [`PathError::Incomplete`] where upstream fails too.
    pub fn new(method: &str, path: &str, query: Option<&str>) -> Result<Self, PathError> {
        let mut info = Self {
            path: path.to_owned(),
            verb: method.to_ascii_lowercase(),
            ..Self::default()
        };
        let trimmed = path.trim_matches('/');
        let mut parts = trimmed.split('/').peekable();
        let count = trimmed.split('/').count();
        let prefix = match parts.next() {
            Some(prefix @ ("api" | "apis")) if count >= 3 => prefix,
            _ => return Ok(info),
        };
        if prefix == "apis" {
            if count < 4 {
                info.api_prefix = prefix.to_owned();
                return Ok(info);
            }
            info.api_group = parts.next().unwrap_or_default().to_owned();
        }
        info.api_prefix = prefix.to_owned();
        info.is_resource_request = true;
        info.api_version = parts.next().unwrap_or_default().to_owned();

        let verb_in_path = matches!(parts.peek(), Some(&("proxy" | "watch")));
        info.verb = if verb_in_path {
            let verb = parts.next().unwrap_or_default();
            if parts.peek().is_none() {
                return Err(PathError::Incomplete);
            }
            verb.to_owned()
        } else {
            resource_verb(method).to_owned()
        };
        info.read_resource(&parts.collect::<Vec<_>>());
        info.read_options(query.unwrap_or_default(), verb_in_path);
        Ok(info)
    }

    /// `namespaces/{namespace}/{resource}/{name}/{subresource}`, each part optional from the right.
    fn read_resource(&mut self, mut parts: &[&str]) {
        if let ["namespaces", namespace, rest @ ..] = parts {
            self.namespace = (*namespace).to_owned();
            // `namespaces/x/status` and `.../finalize` are the namespace's own subresources.
            if !matches!(rest, [] | ["status" | "finalize", ..]) {
                parts = rest;
            }
        }
        let part = |i: usize| parts.get(i).map(|s| (*s).to_owned()).unwrap_or_default();
        self.resource = part(0);
        self.name = part(1);
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
    }

    fn read_options(&mut self, query: &str, verb_in_path: bool) {
        if self.name.is_empty() && self.verb == "get" {
            let watch = query_value(query, "watch").is_some_and(|v| is_true(&v));
            self.verb = if watch { "watch" } else { "list" }.to_owned();
            if let Some(name) =
                query_value(query, "fieldSelector").and_then(|s| exact_metadata_name(&s))
            {
                self.name = name;
            }
        }
        if self.name.is_empty() && self.verb == "delete" {
            self.verb = "deletecollection".to_owned();
        }
        if !verb_in_path && matches!(self.verb.as_str(), "list" | "watch" | "deletecollection") {
            self.field_selector = query_value(query, "fieldSelector").map(Cow::into_owned);
            self.label_selector = query_value(query, "labelSelector").map(Cow::into_owned);
        }
    }

    /// Whether the request stays open for as long as the client likes.
    #[must_use]
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || (self.is_resource_request
                && matches!(
                    self.subresource.as_str(),
                    "attach" | "exec" | "proxy" | "log" | "portforward"
                ))
            || (!self.is_resource_request && self.path.starts_with("/debug/pprof/"))
    }

    /// The class under which limits and metrics count the request.
    #[must_use]
    pub fn verb_class(&self) -> VerbClass {
        match self.verb.as_str() {
            "watch" => VerbClass::Watch,
            _ if self.is_long_running() => VerbClass::Connect,
            "get" | "list" | "head" | "options" => VerbClass::Read,
            _ => VerbClass::Mutate,
        }
    }
}

fn resource_verb(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// Everything but `false` and `0` is true, a missing value included.
fn is_true(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// First value of `key` as Go's `url.ParseQuery` reads it: pairs with a `;` or a broken escape
/// are dropped, `+` is a space.
fn query_value<'q>(query: &'q str, key: &str) -> Option<Cow<'q, str>> {
    query
        .split('&')
        .filter(|pair| !pair.contains(';'))
        .find_map(|pair| {
            let (k, v) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape_query(k)? == key).then(|| unescape_query(v))?
        })
}

fn unescape_query(text: &str) -> Option<Cow<'_, str>> {
    check_escapes(text).ok()?;
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return percent_decode_str(&spaced)
            .decode_utf8()
            .ok()
            .map(|s| Cow::Owned(s.into_owned()));
    }
    percent_decode_str(text).decode_utf8().ok()
}

/// The value that `selector` demands of `metadata.name`, if it demands exactly one.
fn exact_metadata_name(selector: &str) -> Option<String> {
    let name = split_terms(selector).into_iter().find_map(|term| {
        let (field, value) = term.split_once('=')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        (field == "metadata.name").then(|| unescape_selector(value))?
    })?;
    // `ValidatePathSegmentName`: such a value cannot be an object's name.
    let invalid = name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']);
    (!invalid).then_some(name)
}

/// Splits at commas that no backslash escapes.
fn split_terms(selector: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in selector.char_indices() {
        if c == ',' && !escaped {
            terms.push(selector.get(start..i).unwrap_or_default());
            start = i + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(selector.get(start..).unwrap_or_default());
    terms
}

fn unescape_selector(value: &str) -> Option<String> {
    let (mut out, mut chars) = (String::with_capacity(value.len()), value.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('\\' | ',' | '=') => out.push(c),
                _ => return None,
            },
            ',' | '=' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
