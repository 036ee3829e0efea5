//! The reverse proxy: a request's way from the client's connection to the API server and back.
//!
//! Start at [`pipeline`]: it lists the stages in order, each with its why. The `mod` list below
//! is in the order in which a request meets them. Invariants: no stage can be gone around (each
//! hands on a type that only it constructs); a refused request is never forwarded; every request
//! has exactly one answer; bodies are streamed, never collected.

pub mod pipeline;
pub mod accept;
pub mod metrics;
pub mod audit_init;
pub mod respond;
pub mod request_info;
pub mod authenticate;
pub mod flow_control;
pub mod authorize;
pub mod forward;

mod body;
pub mod cluster;
pub mod exchange;
pub mod lifecycle;
pub mod workers;

#[cfg(test)]
mod testing;

pub use body::{Body, BodyError};
