//! A value that never prints itself.

use std::fmt;

/// Wraps a token, key or password so that `Debug` output, logs and panics cannot leak it.
///
/// The value is reachable only through [`Redacted::reveal`], which makes each use easy to find.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Takes custody of `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that must send or compare it.
    pub const fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<T> From<T> for Redacted<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::Redacted;

    #[test]
    fn debug_hides_the_value() {
        assert_eq!(format!("{:?}", Redacted::new("s3cret")), "[redacted]");
    }
}
