//! Walking through a plan, one question at a time.

use std::collections::VecDeque;

use portcullis_core::{Error, UserInfo};

use super::plan::{Attempt, Mode, Plan, Step};
use crate::access::{AccessCheck, Verdict};

/// Whom the caller became, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    /// The user that all later stages see.
    pub user: UserInfo,
    /// The mode that allowed it; try it first next time for the same caller.
    pub mode: Mode,
}

/// A plan being carried out: ask [`Evaluation::next`], tell [`Evaluation::answer`], and when there
/// is nothing to ask any more take [`Evaluation::outcome`].
///
/// Dropping it half-way is a refusal. A question that could not be asked must end it that way.
#[derive(Debug)]
pub struct Evaluation {
    attempts: VecDeque<Attempt>,
    first_refusal: Option<Error>,
}

impl Plan {
    /// Begins. `preferred` is the mode that last allowed an impersonation by the same caller: it
    /// is tried first, and when all fail its refusal is the one the caller sees, as upstream.
    #[must_use]
    pub fn evaluation(mut self, preferred: Option<Mode>) -> Evaluation {
        // Stable: the others stay in order.
        self.attempts
            .sort_by_key(|attempt| Some(attempt.mode) != preferred);
        let mut evaluation = Evaluation {
            attempts: self.attempts.into(),
            first_refusal: None,
        };
        evaluation.skip_refusals();
        evaluation
    }
}

impl Evaluation {
    /// The next question, or `None` when the outcome is known.
    #[must_use]
    pub fn next(&self) -> Option<&AccessCheck> {
        match self.attempts.front()?.steps.front()? {
            Step::Check(check) | Step::AllOrEach { all: check, .. } => Some(check),
            Step::Refuse(_) => None,
        }
    }

    /// The answer to the question that [`Evaluation::next`] returns.
    pub fn answer(&mut self, verdict: &Verdict) {
        let Some(attempt) = self.attempts.front_mut() else {
            return;
        };
        let Some(step) = attempt.steps.pop_front() else {
            return;
        };
        match step {
            _ if verdict.allowed => {}
            Step::Check(check) => self.refuse(check.forbidden(&verdict.explanation())),
            Step::AllOrEach { each, .. } => {
                for check in each.into_iter().rev() {
                    attempt.steps.push_front(Step::Check(check));
                }
            }
            Step::Refuse(refusal) => self.refuse(refusal),
        }
        self.skip_refusals();
    }

    /// The verdict.
    ///
    /// # Errors
    /// The refusal of the mode that was tried first. An internal error if a question is left.
    pub fn outcome(self) -> Result<Impersonated, Error> {
        let mut attempts = self.attempts;
        match (attempts.pop_front(), self.first_refusal) {
            (Some(Attempt { steps, user, mode }), _) if steps.is_empty() => {
                Ok(Impersonated { user, mode })
            }
            (None, Some(refusal)) => Err(refusal),
            _ => Err(Error::internal(
                "an impersonation was decided before all was asked",
            )),
        }
    }

    fn skip_refusals(&mut self) {
        while let Some(Step::Refuse(refusal)) = self
            .attempts
            .front()
            .and_then(|attempt| attempt.steps.front())
        {
            let refusal = refusal.clone();
            self.refuse(refusal);
        }
    }

    fn refuse(&mut self, refusal: Error) {
        self.attempts.pop_front();
        self.first_refusal.get_or_insert(refusal);
    }
}

#[cfg(test)]
mod tests;
