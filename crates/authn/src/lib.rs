//! Who is asking.
//!
//! Purpose: read credentials and identity headers exactly as kube-apiserver does, decide what has
//! to be asked of it, and judge its answers. The gateway does the asking.
//! Invariant: no I/O, no clock (`Instant` and `SystemTime` are passed in); every failure to
//! understand an input is a refusal; no type here prints a token.
//! Upstream counterpart: `k8s.io/apiserver/pkg/authentication` and
//! `k8s.io/apiserver/pkg/endpoints/filters/impersonation`.

pub mod x509;
pub mod bearer;
pub mod review;
pub mod cache;
pub mod impersonation;
pub mod access;
pub mod identity_headers;
mod go_text;

use portcullis_core::UserInfo;
use portcullis_core::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS};

/// Adds `system:authenticated` where kube-apiserver adds it to whoever an authenticator vouched
/// for: not to `system:anonymous`, and not beside either of the two groups.
///
/// Counterpart: `group.AuthenticatedGroupAdder`.
pub fn add_authenticated_group(user: &mut UserInfo) {
    let decided = user.in_group(ALL_AUTHENTICATED) || user.in_group(ALL_UNAUTHENTICATED);
    if user.username != ANONYMOUS && !decided {
        user.groups.push(ALL_AUTHENTICATED.to_owned());
    }
}
