//! The allow-list of one cluster: `security_config.allowed_resources`.
//!
//! Purpose: compile the written rules once, then decide per request without allocating for rules
//! that have no placeholder.
//! Invariant: rules only add. An empty list allows everything; a list allows what at least one of
//! its rules matches; a path with a traversal segment, in any spelling, is matched by none.

use portcullis_core::{RequestInfo, UserInfo};

use pattern::{PathPattern, SegmentPattern};

mod pattern;
mod plural;

/// Most rules that one cluster may have.
pub const MAX_RULES: usize = 1024;
/// Longest path, name or pattern in a rule, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// One written rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A request path without the cluster prefix.
    Path {
        /// Absolute path. A trailing slash makes no difference.
        path: String,
        /// Without it the path is exact. With it `*` stands for any text inside one segment, a
        /// last segment `**` for one or more further segments, and `{{username}}` and `{{group}}`
        /// for the caller's name and for any one of the caller's groups.
        parametised: bool,
    },
    /// All paths of one resource, its objects and their subresources, legacy watches included.
    Crd {
        /// API group; empty for the core group.
        group: String,
        /// API version.
        version: String,
        /// Kind; the plural is guessed from it when absent.
        kind: String,
        /// Resource name in paths.
        plural: Option<String>,
        /// Whether objects live in namespaces.
        namespaced: bool,
        /// Which namespaces. While set, the path across all namespaces is not matched.
        namespace: Option<NamespaceRule>,
    },
}

/// Which namespaces a [`Rule::Crd`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceRule {
    /// These and no other.
    AllowedNamespaces(Vec<String>),
    /// Every namespace but these.
    DeniedNamespaces(Vec<String>),
    /// One pattern with `*`, `{{username}}` and `{{group}}` as in a parametised path.
    ParametisedRule(String),
}

/// A rule that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allowed_resources[{index}]: {problem}; {remedy}")]
pub struct RuleError {
    /// Position in the list, from 0.
    pub index: usize,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

/// Why one rule does not compile; [`RuleError`] adds the position.
#[derive(Debug)]
struct Invalid {
    problem: String,
    remedy: String,
}

impl Invalid {
    fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// A compiled allow-list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedResources {
    rules: Vec<Compiled>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Compiled {
    Path(PathPattern),
    Resource {
        group: String,
        version: String,
        plural: String,
        namespaced: bool,
        namespaces: Namespaces,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Namespaces {
    All,
    Only(Vec<String>),
    AllBut(Vec<String>),
    Matching(SegmentPattern),
}

impl AllowedResources {
    /// Compiles `rules`.
    ///
    /// # Errors
    /// The first rule that could never match, or not mean what it seems to say.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        if rules.len() > MAX_RULES {
            return Err(RuleError {
                index: MAX_RULES,
                problem: format!("more than {MAX_RULES} rules"),
                remedy: "merge rules with `*` or `**` and parametised: true".to_owned(),
            });
        }
        let compile = |(index, rule)| {
            Compiled::new(rule).map_err(|Invalid { problem, remedy }| RuleError {
                index,
                problem,
                remedy,
            })
        };
        Ok(Self {
            rules: rules
                .into_iter()
                .enumerate()
                .map(compile)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether the request may go on.
    ///
    /// `path` is percent-decoded once, absolute and without the cluster prefix; `info` is the
    /// reading of the same path. `user` is `None` when nobody checked who the caller is: rules
    /// with placeholders then match nothing.
    #[must_use]
    pub fn allows(&self, path: &str, info: &RequestInfo, user: Option<&UserInfo>) -> bool {
        if self.rules.is_empty() {
            return true;
        }
        if is_ambiguous(path) || is_ambiguous(&info.path) {
            return false;
        }
        let segments = split(path);
        self.rules
            .iter()
            .any(|rule| rule.matches(&segments, info, user))
    }
}

impl Compiled {
    fn new(rule: Rule) -> Result<Self, Invalid> {
        match rule {
            Rule::Path {
                path,
                parametised: false,
            } => Ok(Self::Path(PathPattern::exact(&path)?)),
            Rule::Path {
                path,
                parametised: true,
            } => Ok(Self::Path(PathPattern::glob(&path)?)),
            Rule::Crd {
                group,
                version,
                kind,
                plural,
                namespaced,
                namespace,
            } => {
                let plural = match plural {
                    Some(plural) => plural,
                    None => plural::of_kind(&kind)?,
                };
                check_name("version", &version)?;
                check_name("plural", &plural)?;
                if !group.is_empty() {
                    check_name("group", &group)?;
                }
                if !namespaced && namespace.is_some() {
                    return Err(Invalid::new(
                        format!("a namespace rule on {plural}, which is cluster-scoped"),
                        "remove namespace, or set namespaced: true",
                    ));
                }
                let namespaces = namespace.map_or(Ok(Namespaces::All), Namespaces::new)?;
                Ok(Self::Resource {
                    group,
                    version,
                    plural,
                    namespaced,
                    namespaces,
                })
            }
        }
    }

    fn matches(&self, path: &[&str], info: &RequestInfo, user: Option<&UserInfo>) -> bool {
        match self {
            Self::Path(pattern) => pattern.matches(path, user),
            Self::Resource {
                group,
                version,
                plural,
                namespaced,
                namespaces,
            } => {
                info.is_resource_request
                    && info.api_group == *group
                    && info.api_version == *version
                    && info.resource == *plural
                    // An empty segment is dropped by some hops, which shifts all that follow.
                    && !path.contains(&"")
                    && namespace_matches(*namespaced, namespaces, info, user)
            }
        }
    }
}

fn namespace_matches(
    namespaced: bool,
    namespaces: &Namespaces,
    info: &RequestInfo,
    user: Option<&UserInfo>,
) -> bool {
    // The object `namespaces/x` is read with namespace `x` although it is cluster-scoped.
    let is_namespace_object = info.api_group.is_empty() && info.resource == "namespaces";
    match (info.namespace.as_str(), namespaces) {
        ("", Namespaces::All) => true,
        ("", _) => false,
        (_, _) if !namespaced && !is_namespace_object => false,
        (namespace, namespaces) => namespaces.contain(namespace, user),
    }
}

impl Namespaces {
    fn new(rule: NamespaceRule) -> Result<Self, Invalid> {
        match rule {
            NamespaceRule::AllowedNamespaces(names) if names.is_empty() => Err(Invalid::new(
                "AllowedNamespaces is empty and so would match nothing",
                "name at least one namespace, or remove the rule",
            )),
            NamespaceRule::AllowedNamespaces(names) => Ok(Self::Only(literal(names)?)),
            NamespaceRule::DeniedNamespaces(names) => Ok(Self::AllBut(literal(names)?)),
            NamespaceRule::ParametisedRule(pattern) => {
                Ok(Self::Matching(SegmentPattern::new(&pattern)?))
            }
        }
    }

    fn contain(&self, namespace: &str, user: Option<&UserInfo>) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|name| name == namespace),
            Self::AllBut(names) => names.iter().all(|name| name != namespace),
            Self::Matching(pattern) => pattern.matches_alone(namespace, user),
        }
    }
}

/// Namespace lists hold names, not patterns.
fn literal(names: Vec<String>) -> Result<Vec<String>, Invalid> {
    for name in &names {
        if name.contains('*') || name.contains("{{") {
            return Err(Invalid::new(
                format!("the namespace {name:?} is a pattern"),
                "use ParametisedRule for patterns",
            ));
        }
        check_name("namespace", name)?;
    }
    Ok(names)
}

/// Groups, versions, plurals and namespaces: lower-case DNS names.
fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if name.is_empty() || name.len() > 253 || !name.bytes().all(allowed) {
        return Err(Invalid::new(
            format!("{what} {name:?} is not a lower-case DNS name"),
            "write it as it stands in the API's paths",
        ));
    }
    Ok(())
}

/// Segments as kube-apiserver splits them: slashes at both ends make no difference.
fn split(path: &str) -> Vec<&str> {
    let trimmed = path.trim_matches('/');
    if trimmed.is_empty() {
        Vec::new()
    } else {
        trimmed.split('/').collect()
    }
}

/// Whether some hop may resolve `path` (decoded once) to another path.
///
/// Dot segments, also before a path parameter or behind a backslash; and escapes that a second
/// decoding would turn into a dot or a separator.
fn is_ambiguous(path: &str) -> bool {
    let dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    let hidden = |escape: &[u8]| {
        let [b'%', hex @ ..] = escape else {
            return false;
        };
        ["2e", "2f", "5c"]
            .iter()
            .any(|h| hex.eq_ignore_ascii_case(h.as_bytes()))
    };
    path.chars().any(char::is_control)
        || path.split(['/', '\\']).any(dots)
        || path.as_bytes().windows(3).any(hidden)
}

#[cfg(test)]
mod tests;
