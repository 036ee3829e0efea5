//! The harness that runs Portcullis between real clients and real control planes.
//!
//! Purpose: start what a test needs (a control plane, the gateway, an upstream that misbehaves),
//! speak to it as `kubectl`, as an HTTP/2 client or byte by byte, and take it all down again.
//! Invariants: no fixed port, no fixed sleep, every wait has a deadline and says what it waited
//! for; whatever was started ends with the handle, or with the process at the latest.
//! Upstream counterpart: `k8s.io/kubernetes/test/integration/framework`.
//!
//! | Module | Gives |
//! |---|---|
//! | [`control_plane`] | etcd, kube-apiserver and friends from `target/testcluster` |
//! | [`gateway`] | `portcullis serve` with a configuration made from options |
//! | [`fixture`] | the namespaces, pods and role bindings tests look at |
//! | [`kubectl`], [`kubeconfig`] | runs of the real kubectl |
//! | [`client`] | raw HTTP/1.1 bytes, and HTTP/2, over TLS |
//! | [`fakeup`] | an upstream that misbehaves on request and remembers what it saw |
//! | [`reviewer`] | an upstream that answers reviews as a script says |
//! | [`wait`], [`process`], [`pki`] | the tools these are made of |

pub mod control_plane;
pub mod gateway;
pub mod fixture;
pub mod kubectl;
pub mod kubeconfig;
pub mod client;
pub mod fakeup;
pub mod reviewer;
pub mod rig;
pub mod demo;
pub mod bench;
pub mod pki;
pub mod process;
pub mod locate;
pub mod scratch;
pub mod wait;
mod yaml;
pub mod failure;

pub use failure::{Context, Failure, Result};
