//! Path patterns: what they may say, and matching without backtracking over more than a segment.

use std::borrow::Cow;

use portcullis_core::UserInfo;

use super::{Invalid, MAX_PATTERN_BYTES, is_ambiguous, split};

/// A pattern for a whole path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPattern {
    segments: Vec<SegmentPattern>,
    /// Whether one or more further segments follow (`**`).
    rest: bool,
}

/// A pattern for one segment: texts with `*` between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentPattern {
    /// Never empty. One text is an exact match.
    texts: Vec<Text>,
}

/// Text of a pattern, in pieces. Empty only next to a `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Username,
    Group,
}

/// What stands for the placeholders in one attempt to match.
#[derive(Clone, Copy, Default)]
struct Binding<'a> {
    username: Option<&'a str>,
    group: Option<&'a str>,
}

impl PathPattern {
    /// A path without wildcards or placeholders.
    pub(super) fn exact(path: &str) -> Result<Self, Invalid> {
        check_path(path)?;
        if path.contains('*') || path.contains("{{") {
            return Err(Invalid::new(
                format!("the exact path {path:?} has a wildcard or placeholder"),
                "set parametised: true",
            ));
        }
        let segments = split(path)
            .into_iter()
            .map(SegmentPattern::literal)
            .collect();
        Ok(Self {
            segments,
            rest: false,
        })
    }

    /// A path with wildcards and placeholders.
    pub(super) fn glob(path: &str) -> Result<Self, Invalid> {
        check_path(path)?;
        let mut segments = split(path);
        let rest = segments.last() == Some(&"**");
        if rest {
            segments.pop();
        }
        let segments = segments
            .into_iter()
            .map(SegmentPattern::new)
            .collect::<Result<_, _>>()?;
        Ok(Self { segments, rest })
    }

    /// Whether the pattern matches the segments of a path.
    pub(super) fn matches(&self, path: &[&str], user: Option<&UserInfo>) -> bool {
        let (longest, fixed) = (path.len(), self.segments.len());
        if longest < fixed || (longest > fixed) != self.rest {
            return false;
        }
        with_bindings(
            self.segments.iter().any(SegmentPattern::has_group),
            user,
            |binding| {
                self.segments
                    .iter()
                    .zip(path)
                    .all(|(pattern, segment)| pattern.matches(segment, binding))
            },
        )
    }
}

impl SegmentPattern {
    fn literal(text: &str) -> Self {
        Self {
            texts: vec![Text(vec![Piece::Literal(text.to_owned())])],
        }
    }

    /// A segment with wildcards and placeholders.
    pub(super) fn new(segment: &str) -> Result<Self, Invalid> {
        if segment.is_empty() || segment.contains('/') || segment.len() > MAX_PATTERN_BYTES {
            return Err(Invalid::new(
                format!("the pattern {segment:?} is not one path segment"),
                "write one name with `*`, {{username}} or {{group}} in it",
            ));
        }
        if segment.contains("**") {
            return Err(Invalid::new(
                format!("`**` in {segment:?}"),
                "`**` can only be the whole last segment; use `*` inside a segment",
            ));
        }
        let texts = segment
            .split('*')
            .map(Text::new)
            .collect::<Result<_, _>>()?;
        Ok(Self { texts })
    }

    /// Whether the pattern matches `segment` for this user, whatever other segments bind.
    pub(super) fn matches_alone(&self, segment: &str, user: Option<&UserInfo>) -> bool {
        with_bindings(self.has_group(), user, |binding| {
            self.matches(segment, binding)
        })
    }

    fn has_group(&self) -> bool {
        self.texts.iter().any(|text| text.0.contains(&Piece::Group))
    }

    fn matches(&self, segment: &str, binding: Binding<'_>) -> bool {
        if segment.is_empty() {
            return false;
        }
        let [first, others @ ..] = self.texts.as_slice() else {
            return false;
        };
        let Some(first) = first.render(binding) else {
            return false;
        };
        let Some((last, middle)) = others.split_last() else {
            return segment == first;
        };
        let Some(last) = last.render(binding) else {
            return false;
        };
        let Some(mut rest) = segment
            .strip_prefix(first.as_ref())
            .and_then(|rest| rest.strip_suffix(last.as_ref()))
        else {
            return false;
        };
        // Leftmost finds suffice: every text between two stars may float.
        for text in middle {
            let Some(text) = text.render(binding) else {
                return false;
            };
            let Some((_, after)) = rest.split_once(text.as_ref()) else {
                return false;
            };
            rest = after;
        }
        true
    }
}

impl Text {
    fn new(text: &str) -> Result<Self, Invalid> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((literal, placeholder)) = rest.split_once("{{") {
            let unknown = || {
                Invalid::new(
                    format!("an unknown placeholder in {text:?}"),
                    "only {{username}} and {{group}} exist",
                )
            };
            let (name, after) = placeholder.split_once("}}").ok_or_else(unknown)?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.to_owned()));
            }
            pieces.push(match name.trim() {
                "username" => Piece::Username,
                "group" => Piece::Group,
                _ => return Err(unknown()),
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The text itself, or `None` when a placeholder has no value that may stand in a path.
    fn render<'a>(&'a self, binding: Binding<'a>) -> Option<Cow<'a, str>> {
        match self.0.as_slice() {
            [] => Some(Cow::Borrowed("")),
            [piece] => piece.value(binding).map(Cow::Borrowed),
            pieces => pieces
                .iter()
                .map(|piece| piece.value(binding))
                .collect::<Option<_>>()
                .map(Cow::Owned),
        }
    }
}

impl Piece {
    fn value<'a>(&'a self, binding: Binding<'a>) -> Option<&'a str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Username => binding.username,
            Self::Group => binding.group,
        }
    }
}

/// Tries `matches` with the user's name and, where a group is asked for, with each group in turn:
/// every `{{group}}` of one pattern stands for the same group.
fn with_bindings(
    per_group: bool,
    user: Option<&UserInfo>,
    matches: impl Fn(Binding<'_>) -> bool,
) -> bool {
    let username = user
        .map(|user| user.username.as_str())
        .filter(|name| may_stand_in_path(name));
    if !per_group {
        return matches(Binding {
            username,
            group: None,
        });
    }
    let groups = user.map(|user| user.groups.as_slice()).unwrap_or_default();
    groups
        .iter()
        .filter(|group| may_stand_in_path(group))
        .any(|group| {
            matches(Binding {
                username,
                group: Some(group),
            })
        })
}

/// A name with a separator would reach into the next segment; one with `*` looks like a rule.
fn may_stand_in_path(value: &str) -> bool {
    !value.is_empty() && !value.contains(['*', '/'])
}

fn check_path(path: &str) -> Result<(), Invalid> {
    if !path.starts_with('/') {
        return Err(Invalid::new(
            format!("the path {path:?} does not start with '/'"),
            "write the path as the client sends it behind /clusters/{namespace}/{name}",
        ));
    }
    if path.len() > MAX_PATTERN_BYTES {
        return Err(Invalid::new(
            format!("a path of {} bytes", path.len()),
            format!("write at most {MAX_PATTERN_BYTES} bytes"),
        ));
    }
    if is_ambiguous(path) || split(path).contains(&"") {
        return Err(Invalid::new(
            format!("the path {path:?} has an empty, '.' or '..' segment and would match nothing"),
            "write the resolved path",
        ));
    }
    if path.contains(['?', '#']) {
        return Err(Invalid::new(
            format!("the path {path:?} has a query or fragment"),
            "rules match paths only; remove it",
        ));
    }
    Ok(())
}
