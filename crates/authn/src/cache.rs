//! Answers of the API server, kept for a short while.
//!
//! Purpose: a caller's second request costs no review. Nothing here asks; the gateway does, once
//! per key at a time.
//! Invariant: bounded in number and age; only definite answers enter; a token is kept as a salted
//! hash; a key is a structure or a digest of length-prefixed parts, never a joined string.
//! Upstream counterpart: `authentication/token/cache` and `authorizer/webhook`'s caches.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portcullis_core::{Redacted, UserInfo};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::access::{AccessCheck, Verdict};

pub use expiring::Expiring;

mod expiring;

/// How long a definite 401 is remembered: a revoked token in a loop costs one review per second,
/// and a token that becomes valid is refused for no longer than that.
pub const REJECTED_TTL: Duration = Duration::from_secs(1);

/// Who the tokens belong to.
#[derive(Debug)]
pub struct TokenCache {
    salt: Redacted<[u8; 32]>,
    ttl: Duration,
    known: Expiring<TokenKey, Arc<UserInfo>>,
    // Apart, so that a flood of made-up tokens cannot push out real ones.
    rejected: Expiring<TokenKey, ()>,
}

/// A token at one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenKey([u8; 32]);

/// What is remembered of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It was this user's.
    User(Arc<UserInfo>),
    /// It was nobody's.
    Rejected,
}

impl TokenCache {
    /// A cache of at most `capacity` users (and as many rejections), each for `ttl` at most.
    /// `salt` must be random and of this process alone.
    #[must_use]
    pub fn new(capacity: usize, ttl: Duration, salt: [u8; 32]) -> Self {
        Self {
            salt: Redacted::new(salt),
            ttl,
            known: Expiring::new(capacity),
            rejected: Expiring::new(capacity),
        }
    }

    /// The key of a token. `cluster` must change whenever the answers of the cluster may change:
    /// put a generation of its configuration into it.
    #[must_use]
    pub fn key(&self, cluster: &str, token: &Redacted<String>) -> TokenKey {
        let mut hash = Sha256::new();
        hash.update(self.salt.reveal());
        for part in [cluster, token.reveal()] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        TokenKey(hash.finalize().into())
    }

    /// What is known of a token, if anything.
    #[must_use]
    pub fn get(&self, key: &TokenKey, now: Instant) -> Option<Remembered> {
        if let Some(user) = self.known.get(key, now) {
            return Some(Remembered::User(user));
        }
        self.rejected.get(key, now).map(|()| Remembered::Rejected)
    }

    /// Remembers whose token it is: for the cache's time, or until the token says it expires.
    pub fn accept(
        &self,
        key: TokenKey,
        token: &Redacted<String>,
        user: Arc<UserInfo>,
        now: Instant,
        wall: SystemTime,
    ) {
        let left = expiry(token.reveal()).map_or(Duration::MAX, |at| {
            at.duration_since(wall).unwrap_or_default()
        });
        self.rejected.expire(&key, now);
        self.known.insert(key, user, self.ttl.min(left), now);
    }

    /// Remembers a definite 401. Errors and timeouts are none.
    pub fn reject(&self, key: TokenKey, now: Instant) {
        self.known.expire(&key, now);
        self.rejected
            .insert(key, (), REJECTED_TTL.min(self.ttl), now);
    }
}

/// When a JWT says it expires. The signature is not looked at: the API server did, and a wrong
/// time can only shorten what is remembered.
fn expiry(token: &str) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(exp).ok()?)
}

/// A question at one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionKey {
    /// As in [`TokenCache::key`].
    pub cluster: String,
    /// The question.
    pub check: AccessCheck,
}

/// Answers to SubjectAccessReviews.
#[derive(Debug)]
pub struct DecisionCache {
    allowed_ttl: Duration,
    denied_ttl: Duration,
    verdicts: Expiring<DecisionKey, Arc<Verdict>>,
}

impl DecisionCache {
    /// A cache of at most `capacity` answers.
    #[must_use]
    pub fn new(capacity: usize, allowed_ttl: Duration, denied_ttl: Duration) -> Self {
        Self {
            allowed_ttl,
            denied_ttl,
            verdicts: Expiring::new(capacity),
        }
    }

    /// The answer to a question, if it is remembered.
    #[must_use]
    pub fn get(&self, key: &DecisionKey, now: Instant) -> Option<Arc<Verdict>> {
        self.verdicts.get(key, now)
    }

    /// Remembers an answer, unless the authorizer said no because it failed.
    pub fn insert(&self, key: DecisionKey, verdict: Arc<Verdict>, now: Instant) {
        if !verdict.allowed && !verdict.evaluation_error.is_empty() {
            return;
        }
        let ttl = if verdict.allowed {
            self.allowed_ttl
        } else {
            self.denied_ttl
        };
        self.verdicts.insert(key, verdict, ttl, now);
    }
}

#[cfg(test)]
mod tests;
