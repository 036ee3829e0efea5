//! Durations as Go writes them: `10s`, `1m30s`, `500ms`.
//!
//! Upstream counterpart: `time.ParseDuration`, without negative values.

use std::time::Duration;

use serde::{Deserialize as _, Deserializer, de};

/// Nanoseconds per unit, longest spelling first.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration.
///
/// # Errors
/// What is wrong with `text`, without repeating it.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    const SHAPE: &str = "is no duration such as 10s, 1m30s or 500ms";
    const RANGE: &str = "is too long a duration";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.starts_with('-') {
        return Err("must not be negative");
    }
    if rest.is_empty() {
        return Err(SHAPE);
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let digits = |s: &str| s.len() - s.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (whole, behind) = rest.split_at_checked(digits(rest)).ok_or(SHAPE)?;
        let (fraction, behind) = match behind.strip_prefix('.') {
            Some(behind) => behind.split_at_checked(digits(behind)).ok_or(SHAPE)?,
            None => ("", behind),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(SHAPE);
        }
        // `m` is also the beginning of `ms`: the longest unit that fits is meant.
        let fits = |(unit, _): &&(&str, u128)| behind.starts_with(unit);
        let (unit, nanos) = UNITS
            .iter()
            .filter(fits)
            .max_by_key(|(unit, _)| unit.len())
            .ok_or(SHAPE)?;
        let whole: u128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| RANGE)?
        };
        total = whole
            .checked_mul(*nanos)
            .and_then(|n| n.checked_add(part(fraction, *nanos)))
            .and_then(|n| total.checked_add(n))
            .ok_or(RANGE)?;
        rest = behind.strip_prefix(unit).unwrap_or_default();
    }
    // Go's durations are 64-bit nanoseconds.
    let nanos = i64::try_from(total).map_err(|_| RANGE)?;
    Ok(Duration::from_nanos(nanos.unsigned_abs()))
}

/// `0.fraction` of `unit`; digits below a nanosecond are dropped.
fn part(fraction: &str, unit: u128) -> u128 {
    let mut scale = unit;
    let mut sum = 0;
    for digit in fraction.bytes() {
        scale /= 10;
        sum += u128::from(digit - b'0') * scale;
    }
    sum
}

/// Writes a duration so that [`parse`] reads it again.
#[must_use]
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let fits = |(_, unit): &&(&str, u128)| nanos.is_multiple_of(*unit);
    match UNITS.iter().rev().find(fits) {
        _ if nanos == 0 => "0s".to_owned(),
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None => format!("{nanos}ns"),
    }
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(|problem| de::Error::custom(format!("the value {problem}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", 0)]
    #[case("0s", 0)]
    #[case("10s", 10_000_000_000)]
    #[case("1m30s", 90_000_000_000)]
    #[case("500ms", 500_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.s", 1_000_000_000)]
    #[case("+2us3µs4μs5ns", 9_005)]
    #[case("2562047h47m16.854775807s", i64::MAX)]
    fn reads_what_go_reads(#[case] text: &str, #[case] nanos: i64) {
        assert_eq!(parse(text), Ok(Duration::from_nanos(nanos.unsigned_abs())));
    }

    #[rstest]
    #[case("", "is no duration")]
    #[case("+", "is no duration")]
    #[case("10", "is no duration")]
    #[case("s", "is no duration")]
    #[case(".s", "is no duration")]
    #[case("1d", "is no duration")]
    #[case("1 s", "is no duration")]
    #[case("-1s", "must not be negative")]
    #[case("2562047h47m16.854775808s", "is too long")]
    #[case("99999999999999999999999999999999999999999s", "is too long")]
    fn refuses_what_go_refuses(#[case] text: &str, #[case] problem: &str) {
        assert!(parse(text).unwrap_err().starts_with(problem));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(nanos in 0..=i64::MAX.unsigned_abs()) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[0-9.+µmsunh -]{0,24}") {
            let _ = parse(&text);
        }
    }
}
