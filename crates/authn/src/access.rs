//! A question to the API server's authorizer, and its answer.
//!
//! Purpose: say in one value who wants to do what, so that it can be sent as a
//! SubjectAccessReview, be a cache key, and be the text of the refusal.
//! Invariant: [`AccessCheck::forbidden`] writes what kube-apiserver writes for the same attributes.
//! Upstream counterpart: `authorizer.AttributesRecord` and `responsewriters.ForbiddenStatusError`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use portcullis_core::status::StatusDetails;
use portcullis_core::{Error, RequestInfo, UserInfo};

use crate::go_text::quote;

/// May `user` do `verb` to `target`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessCheck {
    /// Who wants it.
    pub user: Arc<UserInfo>,
    /// API verb, or the lower-case method for a path.
    pub verb: String,
    /// What it is done to.
    pub target: Target,
}

/// What an [`AccessCheck`] is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Objects of the API.
    Resource(ResourceAttributes),
    /// Any other path.
    NonResource {
        /// Absolute path.
        path: String,
    },
}

/// Counterpart: `authorization.k8s.io/v1 ResourceAttributes`. Empty means none, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each field is the one of that name in the API")]
pub struct ResourceAttributes {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// As the client wrote it.
    pub field_selector: Option<String>,
    /// As the client wrote it.
    pub label_selector: Option<String>,
}

/// The authorizer's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The only field that decides.
    pub allowed: bool,
    /// Why, as the authorizer puts it. Often empty.
    pub reason: String,
    /// What went wrong while deciding. Often empty.
    pub evaluation_error: String,
}

impl AccessCheck {
    /// The question whether `user` may do what `info` says.
    #[must_use]
    pub fn of_request(user: Arc<UserInfo>, info: &RequestInfo) -> Self {
        Self {
            user,
            verb: info.verb.clone(),
            target: Target::of_request(info),
        }
    }

    /// 403 with the text, and the details, that kube-apiserver gives.
    #[must_use]
    pub fn forbidden(&self, reason: &str) -> Error {
        let mut text = html_safe(&self.sentence());
        if !reason.is_empty() {
            text = format!("{text}: {reason}");
        }
        let mut details = StatusDetails::default();
        let mut subject = String::new();
        if let Target::Resource(attributes) = &self.target {
            let ResourceAttributes {
                group,
                resource,
                name,
                ..
            } = attributes;
            if !group.is_empty() || !resource.is_empty() {
                let dot = if group.is_empty() { "" } else { "." };
                subject = format!("{resource}{dot}{group} ");
                if !name.is_empty() {
                    subject = format!("{subject}{} is ", quote(name));
                } else {
                    subject.push_str("is ");
                }
            }
            details.group.clone_from(group);
            details.kind.clone_from(resource);
            details.name.clone_from(name);
        }
        let mut error = Error::forbidden(format!("{subject}forbidden: {text}"));
        error.status.details = Some(details);
        error
    }

    fn sentence(&self) -> String {
        let (user, verb) = (quote(&self.user.username), &self.verb);
        let attributes = match &self.target {
            Target::NonResource { path } => {
                return format!("User {user} cannot {verb} path {}", quote(path));
            }
            Target::Resource(attributes) => attributes,
        };
        let ResourceAttributes {
            group,
            resource,
            subresource,
            namespace,
            ..
        } = attributes;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let resource = quote(&format!("{resource}{slash}{subresource}"));
        let group = quote(group);
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quote(namespace))
        };
        format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
    }
}

impl Target {
    /// What the request is about.
    #[must_use]
    pub fn of_request(info: &RequestInfo) -> Self {
        if !info.is_resource_request {
            return Self::NonResource {
                path: info.path.clone(),
            };
        }
        Self::Resource(ResourceAttributes {
            group: info.api_group.clone(),
            version: info.api_version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            field_selector: info
                .field_selector
                .clone()
                .filter(|selector| !selector.is_empty()),
            label_selector: info
                .label_selector
                .clone()
                .filter(|selector| !selector.is_empty()),
        })
    }
}

impl Verdict {
    /// What a refusal says after its colon.
    #[must_use]
    pub fn explanation(&self) -> String {
        match (self.evaluation_error.as_str(), self.reason.as_str()) {
            ("", reason) => reason.to_owned(),
            (error, "") => error.to_owned(),
            (error, reason) => format!("{error}: {reason}"),
        }
    }
}

/// By hand, because `UserInfo` has no `Hash`; consistent with the derived `Eq`.
impl Hash for AccessCheck {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let UserInfo {
            username,
            uid,
            groups,
            extra,
        } = self.user.as_ref();
        (username, uid, groups, extra, &self.verb, &self.target).hash(state);
    }
}

/// The text must not look like HTML to a browser that sniffs.
fn html_safe(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn message(user: &str, method: &str, path: &str, reason: &str) -> String {
        let user = UserInfo {
            username: user.to_owned(),
            ..UserInfo::default()
        };
        let info = RequestInfo::new(method, path, None).unwrap();
        AccessCheck::of_request(Arc::new(user), &info)
            .forbidden(reason)
            .status
            .message
    }

    #[rstest]
    #[case(
        "alice",
        "GET",
        "/api/v1/namespaces/demo/pods",
        "",
        "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"demo\""
    )]
    #[case(
        "alice",
        "DELETE",
        "/apis/apps/v1/namespaces/demo/deployments/x",
        "no",
        "deployments.apps \"x\" is forbidden: User \"alice\" cannot delete resource \"deployments\" in API group \"apps\" in the namespace \"demo\": no"
    )]
    #[case(
        "alice",
        "GET",
        "/api/v1/nodes/n/status",
        "",
        "nodes \"n\" is forbidden: User \"alice\" cannot get resource \"nodes/status\" in API group \"\" at the cluster scope"
    )]
    #[case(
        "a<b>&\"c",
        "GET",
        "/version",
        "<why>",
        "forbidden: User \"a&lt;b&gt;&amp;\\\"c\" cannot get path \"/version\": <why>"
    )]
    fn the_text_is_the_api_servers(
        #[case] user: &str,
        #[case] method: &str,
        #[case] path: &str,
        #[case] reason: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(message(user, method, path, reason), expected);
    }

    #[test]
    fn the_details_name_the_object() {
        let info =
            RequestInfo::new("GET", "/apis/apps/v1/namespaces/demo/deployments/x", None).unwrap();
        let error = AccessCheck::of_request(Arc::default(), &info).forbidden("");
        let details = serde_json::to_value(error.status.details).unwrap();
        assert_eq!(
            details,
            serde_json::json!({"name": "x", "group": "apps", "kind": "deployments"})
        );
    }

    #[rstest]
    #[case("", "", "")]
    #[case("r", "", "r")]
    #[case("", "e", "e")]
    #[case("r", "e", "e: r")]
    fn an_explanation_has_the_error_first(
        #[case] reason: &str,
        #[case] error: &str,
        #[case] expected: &str,
    ) {
        let verdict = Verdict {
            allowed: false,
            reason: reason.to_owned(),
            evaluation_error: error.to_owned(),
        };
        assert_eq!(verdict.explanation(), expected);
    }
}
