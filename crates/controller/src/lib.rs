//! Tells the owners of clusters what became of their objects.
//!
//! Purpose: write `status` of `ProxyKubeApi` objects of the federating cluster: whether the
//! gateway serves them, where, why not, and what has no effect.
//! Invariant: nothing is written that is there already, and no status is written without end,
//! whoever else writes it: tries are counted and spaced out. The gateway serves whether or not
//! a status can be written.
//! Upstream counterpart: the status updaters of controller-runtime.

pub mod status;

mod attempts;
mod writer;

pub use writer::write_back;
