//! Failures, sorted by who has to act on them.

use std::time::Duration;

use crate::status::{Reason, Status, StatusDetails};

/// Who has to act for the request to succeed. Also a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The caller: malformed request, missing credential.
    Client,
    /// A rule that the operator set: allow-list, limit, group.
    Policy,
    /// The API server behind the gateway: down, hanging, wrong certificate.
    Upstream,
    /// The gateway's configuration: an object that cannot be served as written.
    Config,
    /// A fault of ours.
    Internal,
}

impl Blame {
    /// The label value used in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Policy => "policy",
            Self::Upstream => "upstream",
            Self::Config => "config",
            Self::Internal => "internal",
        }
    }
}

/// Why a request was not served: what to tell the caller and what to tell the operator.
///
/// `status` goes to the caller; `detail` goes to the log only, because it may name addresses of
/// the inside.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {}{}", blame.as_str(), status.message, detail.as_deref().map(|d| format!(" ({d})")).unwrap_or_default())]
pub struct Error {
    /// Who has to act.
    pub blame: Blame,
    /// The answer the caller gets.
    pub status: Box<Status>,
    /// What only the operator may see.
    pub detail: Option<String>,
    /// Value of `Retry-After`, if trying again later makes sense.
    pub retry_after: Option<Duration>,
    /// Whether the answer must carry `WWW-Authenticate`.
    pub challenge: bool,
}

impl Error {
    /// An error with an explicit code and reason.
    #[must_use]
    pub fn new(blame: Blame, code: u16, reason: Reason, message: impl Into<String>) -> Self {
        let status = Box::new(Status::failure(code, reason, message));
        Self {
            blame,
            status,
            detail: None,
            retry_after: None,
            challenge: false,
        }
    }

    /// 400: the request cannot be understood.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Blame::Client, 400, Reason::BadRequest, message)
    }

    /// 401: who the caller is could not be established.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self {
            challenge: true,
            ..Self::new(Blame::Client, 401, Reason::Unauthorized, "Unauthorized")
        }
    }

    /// 403: the caller is known and may not do this.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Blame::Policy, 403, Reason::Forbidden, message)
    }

    /// 404: nothing is served under this path.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Blame::Client, 404, Reason::NotFound, message)
    }

    /// 429: a limit was reached; `retry_after` is rounded up to whole seconds on the wire.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after: Duration) -> Self {
        let mut error = Self::new(Blame::Policy, 429, Reason::TooManyRequests, message);
        error.retry_after = Some(retry_after);
        error.status.details = Some(StatusDetails {
            retry_after_seconds: Some(
                u32::try_from(whole_seconds(retry_after)).unwrap_or(u32::MAX),
            ),
            ..StatusDetails::default()
        });
        error
    }

    /// 503: the cluster cannot be served right now.
    #[must_use]
    pub fn unavailable(blame: Blame, message: impl Into<String>) -> Self {
        Self::new(blame, 503, Reason::ServiceUnavailable, message)
    }

    /// 504: the upstream did not answer in time.
    #[must_use]
    pub fn upstream_timeout(message: impl Into<String>) -> Self {
        Self::new(Blame::Upstream, 504, Reason::Timeout, message)
    }

    /// 500: a fault of ours. The caller learns nothing but the Audit-ID it already has.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> Self {
        let message = "Internal error occurred: the gateway could not complete the request";
        Self::new(Blame::Internal, 500, Reason::InternalError, message).with_detail(detail)
    }

    /// Adds what only the operator may see.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// Rounds a wait up to whole seconds, at least one: the unit of `Retry-After`.
#[must_use]
pub const fn whole_seconds(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + (wait.subsec_nanos() > 0) as u64;
    if seconds == 0 { 1 } else { seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_and_never_zero() {
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
    }

    #[test]
    fn the_detail_is_for_the_operator_only() {
        let error = Error::unavailable(Blame::Upstream, "cluster is unreachable")
            .with_detail("10.0.0.1 refused");
        assert!(
            !serde_json::to_string(&error.status)
                .unwrap()
                .contains("10.0.0.1")
        );
        assert!(error.to_string().contains("10.0.0.1"));
    }
}
