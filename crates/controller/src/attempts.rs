//! When a status may be written: at once when it is new, then ever more rarely.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

const FIRST_WAIT: Duration = Duration::from_secs(5);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Most writes of the same status before a long rest.
const MAX_TRIES: u32 = 6;
const REST: Duration = Duration::from_secs(1800);

/// Writes of one object's status so far.
pub(crate) struct Attempts {
    desired: Map<String, Value>,
    tries: u32,
    next: Instant,
}

impl Attempts {
    /// No write so far: the first may come at once.
    pub(crate) fn new(desired: Map<String, Value>, now: Instant) -> Self {
        Self {
            desired,
            tries: 0,
            next: now,
        }
    }

    /// Starts over if something else is to be written than before.
    ///
    /// A status that somebody else keeps overwriting is still the same one: it does not.
    pub(crate) fn want(&mut self, desired: Map<String, Value>, now: Instant) {
        if self.desired != desired {
            *self = Self::new(desired, now);
        }
    }

    pub(crate) fn desired(&self) -> &Map<String, Value> {
        &self.desired
    }

    /// When the next write may happen.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Counts a write.
    pub(crate) fn wrote(&mut self, now: Instant) {
        let wait = FIRST_WAIT
            .saturating_mul(1 << self.tries.min(16))
            .min(LONGEST_WAIT);
        self.tries += 1;
        if self.tries < MAX_TRIES {
            self.next = now + wait;
        } else {
            self.tries = 0;
            self.next = now + REST;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(exposed: bool) -> Map<String, Value> {
        [("exposed".to_owned(), json!(exposed))]
            .into_iter()
            .collect()
    }

    #[test]
    fn waits_grow_and_end_in_a_rest() {
        let now = Instant::now();
        let mut attempts = Attempts::new(status(true), now);
        let mut waits = vec![attempts.next() - now];
        for _ in 0..7 {
            attempts.wrote(now);
            waits.push(attempts.next() - now);
        }
        let waits: Vec<_> = waits.iter().map(Duration::as_secs).collect();
        assert_eq!(waits, [0, 5, 10, 20, 40, 80, 1800, 5]);
    }

    #[test]
    fn only_another_status_starts_over() {
        let now = Instant::now();
        let mut attempts = Attempts::new(status(true), now);
        attempts.wrote(now);
        attempts.want(status(true), now);
        assert!(attempts.next() > now);
        attempts.want(status(false), now);
        assert_eq!(attempts.next(), now);
    }
}
