//! What a caller may ask of a cluster at all.
//!
//! Purpose: decide by the operator's `security_config.allowed_resources` whether a request may go
//! on. This narrows; the API server behind the gateway still authorizes every request.
//! Invariant: no I/O; a path that two hops could read in two ways never matches a rule.
//! Upstream counterpart: none in Kubernetes; the object is `ProxyKubeApi` of `weebo.si.rs/v1`.

pub mod allowed_resources;

pub use allowed_resources::AllowedResources;
