//! Offline commands.
//!
//! Purpose: what a server would say of configuration, said before a server reads it.
//! Invariant: no network, no cluster client; the same code reads files here and in the server.

pub mod check;
