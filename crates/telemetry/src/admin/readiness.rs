//! What must hold before traffic should come here.
//!
//! Invariant: a condition that nobody has reported on has failed, so a part that hangs at start
//! keeps the gateway unready. An informational condition is shown and changes nothing.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

/// The conditions of this process. Cheap to clone; all clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    conditions: Arc<RwLock<Vec<Arc<Condition>>>>,
}

#[derive(Debug)]
struct Condition {
    name: &'static str,
    informational: bool,
    state: RwLock<Result<(), String>>,
}

/// Where a part reports on one condition.
#[derive(Clone, Debug)]
pub struct ConditionHandle(Arc<Condition>);

/// The answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) ok: bool,
    /// One line per condition.
    pub(super) lines: String,
}

impl Readiness {
    /// A condition that makes the process unready while it fails. It fails until it is reported on.
    pub fn condition(&self, name: &'static str) -> ConditionHandle {
        self.add(name, false, Err("not reported yet".to_owned()))
    }

    /// A condition that is only shown, such as a failed reload while the last good set is served.
    pub fn informational(&self, name: &'static str) -> ConditionHandle {
        self.add(name, true, Ok(()))
    }

    /// Whether every condition that counts holds.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.report(&[]).ok
    }

    /// The state of all conditions, in order of creation, leaving out the `excluded` ones.
    pub(super) fn report(&self, excluded: &[&str]) -> Report {
        let mut report = Report {
            ok: true,
            lines: String::new(),
        };
        let conditions = self
            .conditions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for condition in conditions.iter() {
            let name = condition.name;
            let state = condition
                .state
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let _infallible = match (&*state, condition.informational) {
                _ if excluded.contains(&name) => {
                    writeln!(report.lines, "[+]{name} excluded: ok")
                }
                (Ok(()), _) => writeln!(report.lines, "[+]{name} ok"),
                (Err(reason), true) => {
                    writeln!(
                        report.lines,
                        "[!]{name} failed, for information only: {reason}"
                    )
                }
                (Err(reason), false) => {
                    report.ok = false;
                    writeln!(report.lines, "[-]{name} failed: {reason}")
                }
            };
        }
        let unknown = excluded
            .iter()
            .filter(|name| !conditions.iter().any(|c| c.name == **name));
        let unknown: Vec<_> = unknown.map(|name| format!("{name:?}")).collect();
        if !unknown.is_empty() {
            let names = unknown.join(",");
            let _infallible = writeln!(
                report.lines,
                "warn: some health checks cannot be excluded: no matches for {names}"
            );
        }
        report
    }

    fn add(
        &self,
        name: &'static str,
        informational: bool,
        state: Result<(), String>,
    ) -> ConditionHandle {
        let mut conditions = self
            .conditions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = conditions.iter().find(|condition| condition.name == name) {
            return ConditionHandle(Arc::clone(known));
        }
        let condition = Arc::new(Condition {
            name,
            informational,
            state: RwLock::new(state),
        });
        conditions.push(Arc::clone(&condition));
        ConditionHandle(condition)
    }
}

impl ConditionHandle {
    /// Reports the state; the reason is shown to whoever may reach the admin port.
    pub fn set(&self, state: Result<(), String>) {
        // A reason of several lines would look like several conditions.
        let state = state.map_err(|reason| reason.lines().collect::<Vec<_>>().join("; "));
        *self.0.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_fails_until_it_is_reported_on() {
        let readiness = Readiness::default();
        assert!(readiness.is_ready(), "nothing is asked of it");
        let listener = readiness.condition("listener");
        assert!(!readiness.is_ready());
        listener.set(Ok(()));
        assert!(readiness.is_ready());
        listener.set(Err("address in use\nby another".into()));
        let report = readiness.report(&[]);
        assert_eq!(
            report.lines,
            "[-]listener failed: address in use; by another\n"
        );
        assert!(!report.ok);
    }

    #[test]
    fn an_informational_condition_is_shown_and_changes_nothing() {
        let readiness = Readiness::default();
        let reload = readiness.informational("reload");
        assert_eq!(readiness.report(&[]).lines, "[+]reload ok\n");
        reload.set(Err("bad file".into()));
        let report = readiness.report(&[]);
        assert!(report.ok);
        assert_eq!(
            report.lines,
            "[!]reload failed, for information only: bad file\n"
        );
    }

    #[test]
    fn excluded_conditions_do_not_count() {
        let readiness = Readiness::default();
        let _never_reported = readiness.condition("sources");
        let report = readiness.report(&["sources", "nothing"]);
        assert!(report.ok);
        assert_eq!(
            report.lines,
            "[+]sources excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"nothing\"\n"
        );
    }

    #[test]
    fn one_name_is_one_condition() {
        let readiness = Readiness::default();
        let (first, second) = (readiness.condition("x"), readiness.condition("x"));
        first.set(Ok(()));
        assert!(readiness.is_ready());
        second.set(Err("no".into()));
        assert_eq!(readiness.report(&[]).lines, "[-]x failed: no\n");
    }
}
