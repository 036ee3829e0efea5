//! The objects people write.
//!
//! Purpose: the types of [`GatewayConfiguration`] and [`ProxyKubeApi`], what they default to, and
//! the rules they must obey, each fault with its field and remedy.
//! Invariant: decoding is strict: what is not understood is refused. `validate` finds every fault
//! of an object, not the first.
//! Upstream counterpart: `k8s.io/api` types with their `validation` packages.

pub mod gateway_configuration;
pub mod proxy_kube_api;
pub mod core_v1;
pub mod metadata;
pub mod duration;
pub mod names;
mod rules;
mod secret_text;

pub use core_v1::{ConfigMap, Secret};
pub use gateway_configuration::GatewayConfiguration;
pub use metadata::ObjectMeta;
pub use proxy_kube_api::ProxyKubeApi;
