//! What a scalar means: YAML 1.1 as Kubernetes tools read it.
//!
//! Upstream counterpart: the resolver of `go.yaml.in/yaml/v2`. Timestamps stay strings there too.

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

use super::Fault;

/// The value of a scalar as it is written.
pub(super) fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Fault> {
    let plain = || {
        let fault = |problem| Fault::new("", format!("the value {problem}"), "put it in quotes");
        resolve(text).map_err(fault)
    };
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain {
            plain()
        } else {
            Ok(text.into())
        };
    };
    let must = |is: &dyn Fn(&Value) -> bool| {
        let value = plain()?;
        let message = || format!("the value is not what its tag {tag} says");
        if is(&value) {
            Ok(value)
        } else {
            Err(Fault::new("", message(), "remove the tag"))
        }
    };
    if tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty() {
        return Ok(text.into());
    }
    match tag.suffix.as_str() {
        _ if !tag.is_yaml_core_schema() => Err(unknown_tag(tag)),
        "str" => Ok(text.into()),
        "int" => must(&|v| v.is_i64() || v.is_u64()),
        "float" => must(&Value::is_number),
        "bool" => must(&Value::is_boolean),
        "null" => must(&Value::is_null),
        _ => Err(unknown_tag(tag)),
    }
}

pub(super) fn unknown_tag(tag: &Tag) -> Fault {
    Fault::new(
        "",
        format!("the tag {tag} has no meaning here"),
        "remove the tag",
    )
}

/// The value of an unquoted scalar, or why JSON has none.
fn resolve(text: &str) -> Result<Value, &'static str> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => return Err("is no number that JSON can hold"),
        _ => match number(text) {
            Some(number) => Value::Number(number?),
            None => Value::String(text.to_owned()),
        },
    })
}

/// `None` if `text` is no number.
fn number(text: &str) -> Option<Result<Number, &'static str>> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).map(Ok).or_else(|| {
        is_float(&plain).then(|| {
            let float = plain.parse::<f64>().ok().filter(|float| float.is_finite());
            float
                .and_then(from_float)
                .ok_or("is too large for a number")
        })
    })
}

/// Integers with the prefixes 0x, 0o, 0b and plain 0 for octal. Counterpart: `strconv.ParseInt`
/// with base 0.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match prefix.as_deref() {
        Some("0x") => (16, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        Some(i64::try_from(-i128::from(magnitude)).ok()?.into())
    } else {
        Some(magnitude.into())
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let unsigned = |s: &str| !s.is_empty() && digits(s);
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", fraction)) => unsigned(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => unsigned(mantissa),
    };
    let exponent_ok = exponent.is_none_or(|e| unsigned(e.strip_prefix(['-', '+']).unwrap_or(e)));
    mantissa_ok && exponent_ok
}

/// Whole floats become integers, as they do on their way through Go's JSON encoder.
fn from_float(float: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        return Some((float as i64).into());
    }
    Number::from_f64(float)
}
