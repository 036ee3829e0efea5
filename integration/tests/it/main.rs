//! Integration tests: everything that runs on a real control plane or against a scripted upstream.
//!
//! One binary, so that the tests share one control plane. A test that changes cluster-scoped
//! objects starts a control plane of its own; all others keep to namespaces of their own.
//! Run it with `cargo test`: a runner with a process per test starts a control plane for each.

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod control_plane;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod federation;
#[cfg(test)]
mod gateway_smoke;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod kubectl_parity;
#[cfg(test)]
mod programs;
