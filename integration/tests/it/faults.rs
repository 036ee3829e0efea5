//! Upstreams that fail: the client gets a Status with the right code and reason, or a stream that
//! is visibly broken; nothing unsafe is sent twice; nothing leaks.
//!
//! And the other half of it: what an upstream answers well arrives as it was sent.

mod broken;
mod endurance;
mod fields;
mod stale;
mod unreachable;
mod untouched;
