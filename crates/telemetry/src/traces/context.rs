//! The W3C `traceparent` header.
//!
//! Invariant: what we write we also read, and what does not follow the grammar is no context at
//! all: the caller then starts a new trace, as the specification asks.
//! Upstream counterpart: W3C Trace Context, level 1 (version `00`).

use std::fmt;

use http::{HeaderMap, HeaderValue};

/// The header's name.
pub const TRACEPARENT: &str = "traceparent";

/// Length of a version `00` header: `00-` trace id `-` span id `-` flags.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// A position in a distributed trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

impl TraceContext {
    /// The context of a request, if it has exactly one and that is well formed.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (value, None) = (values.next()?, values.next()) else {
            return None;
        };
        Self::parse(value.as_bytes())
    }

    fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_at_checked(LENGTH)?;
        let known: &[u8; LENGTH] = known.try_into().ok()?;
        let [version] = hex(known.get(0..2)?)?;
        // A later version may append fields after another dash; ff is forbidden.
        let complete = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let dashes = [2, 35, 52].iter().all(|at| known.get(*at) == Some(&b'-'));
        if !complete || !dashes {
            return None;
        }
        let trace_id: [u8; 16] = hex(known.get(3..35)?)?;
        let span_id: [u8; 8] = hex(known.get(36..52)?)?;
        let [flags] = hex(known.get(53..55)?)?;
        // All zeros is the grammar's way to say "invalid".
        let valid = trace_id != [0; 16] && span_id != [0; 8];
        valid.then_some(Self {
            trace_id,
            span_id,
            flags,
        })
    }

    /// A new trace.
    pub(super) fn root(sampled: bool) -> Self {
        Self {
            trace_id: non_zero(),
            span_id: non_zero(),
            flags: u8::from(sampled),
        }
    }

    /// A new span in this trace. Flags other than `sampled` are not ours to pass on.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            trace_id: self.trace_id,
            span_id: non_zero(),
            flags: self.flags & SAMPLED,
        }
    }

    /// Whether the one who made this context records it.
    #[must_use]
    pub const fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The trace.
    #[must_use]
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The span in it.
    #[must_use]
    pub const fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// The value of [`TRACEPARENT`] that passes this context on.
    #[must_use]
    pub fn to_header(&self) -> HeaderValue {
        // The text is hexadecimal digits and dashes; the fallback satisfies the type only.
        HeaderValue::from_str(&self.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (
            u128::from_be_bytes(self.trace_id),
            u64::from_be_bytes(self.span_id),
        );
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// Random bytes that are not all zero.
fn non_zero<const N: usize>() -> [u8; N] {
    loop {
        let mut bytes = [0; N];
        rand::Rng::fill(&mut rand::rng(), bytes.as_mut_slice());
        if bytes.iter().any(|byte| *byte != 0) {
            return bytes;
        }
    }
}

/// Lower-case hexadecimal digits, exactly two for each byte.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *byte = (*byte << 4) | value;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn reads_what_it_writes() {
        let context = TraceContext::from_headers(&headers(&[EXAMPLE])).unwrap();
        assert!(context.sampled());
        assert_eq!(context.to_header(), EXAMPLE);
        assert_eq!(context.span_id(), 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    }

    #[rstest]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0")]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x")]
    #[case("00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01")]
    #[case("00-00000000000000000000000000000000-00f067aa0ba902b7-01")]
    #[case("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")]
    #[case("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    #[case("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x")]
    #[case("")]
    fn what_breaks_the_grammar_is_no_context(#[case] value: &str) {
        assert_eq!(TraceContext::from_headers(&headers(&[value])), None);
    }

    #[test]
    fn a_later_version_may_append_fields() {
        let value = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
        assert!(TraceContext::from_headers(&headers(&[value])).is_some());
    }

    #[test]
    fn two_headers_are_no_context() {
        assert_eq!(
            TraceContext::from_headers(&headers(&[EXAMPLE, EXAMPLE])),
            None
        );
    }

    #[test]
    fn a_child_stays_in_the_trace() {
        let parent = TraceContext {
            flags: 0xff,
            ..TraceContext::root(true)
        };
        let child = parent.child();
        assert_eq!(child.trace_id(), parent.trace_id());
        assert_ne!(child.span_id(), parent.span_id());
        assert_eq!(child.flags, SAMPLED);
    }
}
