//! Questions to the API server about callers, and its answers.
//!
//! Purpose: the bodies of SelfSubjectReview, TokenReview and SubjectAccessReview, and a strict
//! reading of the replies.
//! Invariant: only a complete, well-formed yes is a yes. A reply that is not understood is an
//! error, never a user and never an allowance; errors are not to be cached.
//! Upstream counterpart: `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use portcullis_core::status::Reason;
use portcullis_core::user::{ALL_UNAUTHENTICATED, ANONYMOUS};
use portcullis_core::{Blame, Error, Redacted, UserInfo};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::access::{AccessCheck, Target, Verdict};
use crate::add_authenticated_group;

/// Where a [`self_subject_review`] is POSTed, with the caller's credential.
pub const SELF_SUBJECT_REVIEW_PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Where a [`token_review`] is POSTed, with the gateway's credential.
pub const TOKEN_REVIEW_PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Where a [`subject_access_review`] is POSTed, with the gateway's credential.
pub const SUBJECT_ACCESS_REVIEW_PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Largest reply worth reading: a user with thousands of groups.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;

const AUTHENTICATION: &str = "authentication.k8s.io/v1";
const AUTHORIZATION: &str = "authorization.k8s.io/v1";

/// What the API server says of a credential. Both are definite, and may be cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// It is this user's.
    User(UserInfo),
    /// It is nobody's; the word says why, for the log.
    Rejected(&'static str),
}

/// Who am I?
#[must_use]
pub fn self_subject_review() -> Vec<u8> {
    body(&json!({"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}))
}

/// Whose token is this?
#[must_use]
pub fn token_review(token: &Redacted<String>) -> Redacted<Vec<u8>> {
    Redacted::new(body(&json!({
        "apiVersion": AUTHENTICATION, "kind": "TokenReview", "spec": {"token": token.reveal()}
    })))
}

/// May they do that?
#[must_use]
pub fn subject_access_review(check: &AccessCheck) -> Vec<u8> {
    let UserInfo {
        username,
        uid,
        groups,
        extra,
    } = check.user.as_ref();
    let mut spec = json!({"user": username, "uid": uid, "groups": groups, "extra": extra});
    let (key, attributes) = match &check.target {
        Target::NonResource { path } => (
            "nonResourceAttributes",
            json!({"path": path, "verb": check.verb}),
        ),
        Target::Resource(a) => {
            let mut attributes = json!({
                "verb": check.verb, "group": a.group, "version": a.version, "resource": a.resource,
                "subresource": a.subresource, "namespace": a.namespace, "name": a.name,
            });
            // An empty selector would be refused as incomplete.
            for (key, selector) in [
                ("fieldSelector", &a.field_selector),
                ("labelSelector", &a.label_selector),
            ] {
                if let Some(raw) = selector.as_ref().filter(|raw| !raw.is_empty()) {
                    set(&mut attributes, key, json!({"rawSelector": raw}));
                }
            }
            ("resourceAttributes", attributes)
        }
    };
    set(&mut spec, key, attributes);
    body(&json!({"apiVersion": AUTHORIZATION, "kind": "SubjectAccessReview", "spec": spec}))
}

/// Reads the reply to a [`self_subject_review`].
///
/// # Errors
/// 403 if callers may not ask who they are; 429 and 503 as the API server answers.
pub fn self_subject_review_reply(code: StatusCode, reply: &[u8]) -> Result<Authentication, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ReviewStatus {
        user_info: WireUser,
    }
    match code {
        StatusCode::UNAUTHORIZED => return Ok(Authentication::Rejected("the API server said 401")),
        StatusCode::FORBIDDEN => {
            let message = "the cluster does not let its users create selfsubjectreviews, \
                by which the gateway learns who they are";
            return Err(Error::new(Blame::Config, 403, Reason::Forbidden, message));
        }
        _ => {}
    }
    let status: ReviewStatus = read(code, reply, AUTHENTICATION, "SelfSubjectReview")?;
    Ok(status.user_info.judge())
}

/// Reads the reply to a [`token_review`]. Audiences are the API server's own and not looked at.
///
/// # Errors
/// 503 if the gateway's credential may not ask, or the API server cannot answer; 429 as it says.
pub fn token_review_reply(code: StatusCode, reply: &[u8]) -> Result<Authentication, Error> {
    #[derive(Deserialize)]
    struct ReviewStatus {
        #[serde(default)]
        authenticated: bool,
        #[serde(default)]
        error: String,
        #[serde(default)]
        user: WireUser,
    }
    refuse_gateway(code, "tokenreviews.authentication.k8s.io")?;
    let status: ReviewStatus = read(code, reply, AUTHENTICATION, "TokenReview")?;
    // Each of the three alone has let strangers in somewhere: all must agree.
    if !status.authenticated {
        return Ok(Authentication::Rejected(
            "the TokenReview says not authenticated",
        ));
    }
    if !status.error.is_empty() {
        return Ok(Authentication::Rejected("the TokenReview has an error"));
    }
    Ok(status.user.judge())
}

/// Reads the reply to a [`subject_access_review`].
///
/// # Errors
/// As [`token_review_reply`].
pub fn subject_access_review_reply(code: StatusCode, reply: &[u8]) -> Result<Verdict, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ReviewStatus {
        allowed: bool,
        #[serde(default)]
        denied: bool,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        evaluation_error: String,
    }
    refuse_gateway(code, "subjectaccessreviews.authorization.k8s.io")?;
    let status: ReviewStatus = read(code, reply, AUTHORIZATION, "SubjectAccessReview")?;
    Ok(Verdict {
        allowed: status.allowed && !status.denied,
        reason: status.reason,
        evaluation_error: status.evaluation_error,
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireUser {
    username: String,
    uid: String,
    // Go writes an absent list as null.
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

impl WireUser {
    fn judge(self) -> Authentication {
        let extra = self.extra.unwrap_or_default();
        let mut user = UserInfo {
            username: self.username,
            uid: self.uid,
            groups: self.groups.unwrap_or_default(),
            extra: extra
                .into_iter()
                .map(|(key, v)| (key, v.unwrap_or_default()))
                .collect(),
        };
        if user.username.is_empty() {
            return Authentication::Rejected("the review names no user");
        }
        // A token that the API server overlooked leaves the anonymous user.
        if user.username == ANONYMOUS || user.in_group(ALL_UNAUTHENTICATED) {
            return Authentication::Rejected("the review names the anonymous user");
        }
        add_authenticated_group(&mut user);
        Authentication::User(user)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<S> {
    api_version: String,
    kind: String,
    status: S,
}

fn read<S: DeserializeOwned>(
    code: StatusCode,
    reply: &[u8],
    api_version: &str,
    kind: &str,
) -> Result<S, Error> {
    match code {
        StatusCode::OK | StatusCode::CREATED => {}
        StatusCode::TOO_MANY_REQUESTS => {
            let message = "the cluster has too many requests in flight to say who its callers are";
            return Err(Error::too_many_requests(message, Duration::from_secs(1)));
        }
        code => return Err(unanswered(&format!("a {kind} was answered with {code}"))),
    }
    if reply.len() > MAX_REPLY_BYTES {
        return Err(unanswered(&format!("the reply to a {kind} is too large")));
    }
    // The decoder's message may quote the reply; its position is enough to find the fault.
    let review: Review<S> = serde_json::from_slice(reply).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        unanswered(&format!(
            "the reply to a {kind} is not one (line {line}, column {column})"
        ))
    })?;
    if review.api_version != api_version || review.kind != kind {
        return Err(unanswered(&format!(
            "the reply to a {kind} is another object"
        )));
    }
    Ok(review.status)
}

fn refuse_gateway(code: StatusCode, resource: &str) -> Result<(), Error> {
    if !matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(());
    }
    let message = "the cluster does not accept the gateway's credential for this question";
    let detail =
        format!("{code}: spec.gateway_credential must be valid and allow create on {resource}");
    Err(Error::unavailable(Blame::Config, message).with_detail(detail))
}

fn unanswered(detail: &str) -> Error {
    Error::unavailable(
        Blame::Upstream,
        "the cluster did not say who the caller is or what they may do",
    )
    .with_detail(detail)
}

fn body(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
