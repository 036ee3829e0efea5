//! The vocabulary every part of Portcullis shares.
//!
//! Purpose: one definition of a request ([`RequestInfo`]), a caller ([`UserInfo`]), an answer
//! ([`Status`]) and a failure ([`Error`]), so that every face decides on the same words.
//! Invariant: nothing in this crate performs I/O, reads a clock or spawns a task.
//! Upstream counterpart: `k8s.io/apimachinery` and `k8s.io/apiserver/pkg/endpoints/request`.

pub mod error;
pub mod observer;
pub mod redacted;
pub mod request_info;
pub mod status;
pub mod user;
pub mod yaml;

pub use error::{Blame, Error};
pub use redacted::Redacted;
pub use request_info::RequestInfo;
pub use status::Status;
pub use user::UserInfo;
