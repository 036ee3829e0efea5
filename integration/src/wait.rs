//! Waiting on a condition, never on a guess.
//!
//! Purpose: the only place of this crate where time passes on purpose.
//! Invariant: each wait ends at its deadline with an error that names what did not happen and
//! what was seen last.
//! Upstream counterpart: `k8s.io/apimachinery/pkg/util/wait`.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::{Failure, Result};

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(10);

/// One look at a condition.
#[derive(Debug)]
pub enum Look<T> {
    /// The condition holds; here is what was waited for.
    Ready(T),
    /// Not yet; what was seen instead, for the message at the deadline.
    Not(String),
}

/// Looks every 10 ms until `look` is ready.
///
/// # Errors
/// At `deadline`, with `what` and what the last look saw.
pub async fn eventually<T, F>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Look<T>>,
{
    let end = Instant::now() + deadline;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = "nothing yet".to_owned();
    loop {
        ticks.tick().await;
        match timeout_at(end, look()).await {
            Ok(Look::Ready(value)) => return Ok(value),
            Ok(Look::Not(seen)) if Instant::now() < end => last = seen,
            Ok(Look::Not(seen)) => return Err(late(what, deadline, &seen)),
            Err(_) => return Err(late(what, deadline, &last)),
        }
    }
}

/// Looks every 10 ms until `condition` is true.
///
/// # Errors
/// At `deadline`, with `what`.
pub async fn until(
    what: &str,
    deadline: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    eventually(what, deadline, || {
        let look = if condition() {
            Look::Ready(())
        } else {
            Look::Not("false".to_owned())
        };
        std::future::ready(look)
    })
    .await
}

/// Gives `future` until `deadline`.
///
/// # Errors
/// At the deadline, with `what`.
pub async fn within<T>(
    what: &str,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> Result<T> {
    tokio::time::timeout(deadline, future)
        .await
        .map_err(|_| Failure::new(format!("{what}: not done within {deadline:?}")))
}

/// Checks that `condition` stays true for the whole of `period`, and stops at the first time
/// that it is not.
///
/// # Errors
/// When it became false, with `what` and after how long.
pub async fn throughout(
    what: &str,
    period: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    let start = Instant::now();
    let mut ticks = interval(PERIOD);
    while start.elapsed() < period {
        ticks.tick().await;
        if !condition() {
            return Err(Failure::new(format!(
                "{what}: no longer true after {:?}",
                start.elapsed()
            )));
        }
    }
    Ok(())
}

fn late(what: &str, deadline: Duration, last: &str) -> Failure {
    Failure::new(format!(
        "{what}: did not happen within {deadline:?}; last seen: {last}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_message_at_the_deadline_says_what_was_seen() {
        let failure = eventually("the moon", Duration::from_millis(30), || async {
            Look::<()>::Not("clouds".to_owned())
        })
        .await
        .unwrap_err();
        assert!(
            failure
                .to_string()
                .starts_with("the moon: did not happen within 30ms")
        );
        assert!(failure.to_string().ends_with("clouds"), "{failure}");
    }

    #[tokio::test]
    async fn a_look_that_hangs_ends_at_the_deadline() {
        let hang = || std::future::pending::<Look<()>>();
        assert!(
            eventually("never", Duration::from_millis(30), hang)
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn waits_for_the_third_look() {
        let mut looks = 0;
        until("three looks", Duration::from_secs(5), || {
            looks += 1;
            looks == 3
        })
        .await
        .unwrap();
    }
}
