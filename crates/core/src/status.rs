//! `metav1.Status`, the one form in which an error reaches a client.

use serde::{Deserialize, Serialize};

/// Machine-readable cause. Counterpart: `metav1.StatusReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// 400.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 409.
    Conflict,
    /// 413.
    RequestEntityTooLarge,
    /// 422.
    Invalid,
    /// 429.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    ServiceUnavailable,
    /// 504.
    Timeout,
}

/// An answer that is not an object. Counterpart: `metav1.Status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: StatusKind,
    /// Always `v1`.
    pub api_version: CoreV1,
    /// Always empty, always present: kubectl and client-go expect the key.
    pub metadata: EmptyObject,
    /// `Success` or `Failure`.
    pub status: Outcome,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub message: String,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// Further facts for programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub details: Option<StatusDetails>,
    /// The HTTP code.
    pub code: u16,
}

/// The literal `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatusKind {
    /// `Status`.
    Status,
}

/// The literal `v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoreV1 {
    /// `v1`.
    #[serde(rename = "v1")]
    V1,
}

/// `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyObject {}

/// Whether the request did what it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It did.
    Success,
    /// It did not.
    Failure,
}

/// Counterpart: `metav1.StatusDetails`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The object's resource (kubectl's habit: resource, not kind).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before a further try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// Counterpart: `metav1.StatusCause`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// Machine-readable cause.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field at fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    /// A failure with the given HTTP code, cause and text.
    #[must_use]
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: StatusKind::Status,
            api_version: CoreV1::V1,
            metadata: EmptyObject {},
            status: Outcome::Failure,
            message: message.into(),
            reason: Some(reason),
            details: None,
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_has_the_keys_client_go_reads() {
        let wire = serde_json::to_value(Status::failure(401, Reason::Unauthorized, "Unauthorized"))
            .unwrap();
        let expected = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401
        });
        assert_eq!(wire, expected);
    }
}
