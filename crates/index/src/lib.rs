//! Which clusters are served, and how.
//!
//! Purpose: read `ProxyKubeApi` objects and what they refer to, from a folder of files or from a
//! federating cluster, and publish the result as one immutable [`Snapshot`].
//! Invariant: a snapshot is complete and never changes; a source that turns bad keeps its last
//! good part of it. An object that cannot be served stays visible, with the reason.
//! Upstream counterpart: client-go's shared informers and listers.

pub mod snapshot;
pub mod candidate;
pub mod resolve;
pub mod directory;
#[cfg(feature = "sources")]
pub mod sources;

pub use candidate::Candidate;
pub use snapshot::{
    Authentication, BanSettings, ClusterConfig, ClusterKey, ClusterState, GatewayCredential,
    GroupRateLimit, Review, Security, Snapshot, Trust, Upstream, UpstreamMode,
};
#[cfg(feature = "sources")]
pub use sources::{SourceError, Sources, SourcesSettings};
