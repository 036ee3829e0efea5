//! The label sets. Each is `Copy` and holds fixed words only, so a key costs nothing to build.

use std::fmt::Write as _;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// Labels of `requests_total` besides the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestKey {
    pub(super) verb_class: &'static str,
    pub(super) code: Code,
    pub(super) blame: &'static str,
}

/// A registered HTTP code, or `other`: an upstream cannot make series by inventing codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Code(Option<u16>);

impl Code {
    pub(super) fn new(code: u16) -> Self {
        let registered =
            http::StatusCode::from_u16(code).is_ok_and(|code| code.canonical_reason().is_some());
        Self(registered.then_some(code))
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self.0 {
            Some(code) => EncodeLabelValue::encode(&code, encoder),
            None => encoder.write_str("other"),
        }
    }
}

/// How an authentication went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Authentication {
    pub(super) method: &'static str,
    pub(super) result: &'static str,
    pub(super) cached: &'static str,
}

macro_rules! single {
    ($($(#[$doc:meta])* $name:ident($label:ident);)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name {
            pub(super) $label: &'static str,
        }
    )+};
}

single! {
    /// The verb class, or empty when the verb was never known.
    ClassLabel(verb_class);
    /// A pool event.
    EventLabel(event);
    /// The configuration key of a limit.
    LimitLabel(limit);
    /// Why a connection was refused.
    ReasonLabel(reason);
    /// What became of something.
    ResultLabel(result);
    /// A source of configuration.
    SourceLabel(source);
    /// A stage of the pipeline.
    StageLabel(stage);
    /// The state of a cluster.
    StateLabel(state);
}

/// A load of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SourceResult {
    pub(super) source: &'static str,
    pub(super) result: &'static str,
}
