//! Requests per minute and user: `security_config.rate_limiting` and its per-group variant.
//!
//! Purpose: a bucket per user that holds one minute's worth of requests and refills evenly.
//! Invariant: bounded; a bucket is one instant, and the ones that go first are those that lose
//! nothing by it: full, or the fullest at hand. Whoever has used up a bucket cannot flood it away.
//! Upstream counterpart: none; kube-apiserver shares concurrency, not rates.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_core::UserInfo;

const MINUTE: Duration = Duration::from_secs(60);
const SHARDS: usize = 16;
/// How many buckets an insertion into a full shard looks at.
const PROBES: usize = 8;

/// The limit of one user, or `None` for no limit.
///
/// Of the groups that have a limit and the user as a member, the most permissive decides; the
/// general limit is for everyone else. 0 means no limit.
#[must_use]
pub fn limit_of<'a>(
    user: Option<&UserInfo>,
    general: Option<u32>,
    groups: impl IntoIterator<Item = (&'a str, u32)>,
) -> Option<u32> {
    let member = |group: &str| user.is_some_and(|user| user.in_group(group));
    let of_groups = groups
        .into_iter()
        .filter(|(group, _)| member(group))
        .map(|(_, limit)| if limit == 0 { u32::MAX } else { limit })
        .max();
    match of_groups {
        Some(u32::MAX) => None,
        Some(limit) => Some(limit),
        None => general.filter(|limit| *limit != 0),
    }
}

/// Buckets of all users. `K` identifies a user at a cluster.
pub struct RateLimiter<K> {
    shards: Vec<Mutex<Shard<K>>>,
    per_shard: usize,
    hasher: RandomState,
}

struct Shard<K> {
    /// When the bucket will be full again. What it lacks until then has been used up.
    full_at: HashMap<Arc<K>, Instant>,
    /// Each key of `full_at` once.
    order: VecDeque<Arc<K>>,
}

impl<K: Hash + Eq> RateLimiter<K> {
    /// Room for `capacity` buckets, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let shards = capacity.clamp(1, SHARDS);
        let shard = || {
            Mutex::new(Shard {
                full_at: HashMap::new(),
                order: VecDeque::new(),
            })
        };
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
            per_shard: (capacity / shards).max(1),
            hasher: RandomState::new(),
        }
    }

    /// Takes one request out of the bucket of `key`.
    ///
    /// # Errors
    /// The time until there is one to take.
    pub fn take(&self, key: K, per_minute: u32, now: Instant) -> Result<(), Duration> {
        let interval = MINUTE / per_minute.max(1);
        let Some(mut shard) = self.shard(&key) else {
            return Ok(());
        };
        let full_at = shard
            .full_at
            .get(&key)
            .copied()
            .filter(|at| *at > now)
            .unwrap_or(now);
        let missing = full_at.saturating_duration_since(now);
        // The bucket holds a minute; what is missing plus this request must fit into it.
        let wait = (missing + interval).saturating_sub(MINUTE);
        if !wait.is_zero() {
            return Err(wait);
        }
        let after = full_at + interval;
        if let Some(full_at) = shard.full_at.get_mut(&key) {
            *full_at = after;
            return Ok(());
        }
        if shard.full_at.len() >= self.per_shard {
            shard.evict(now);
        }
        let key = Arc::new(key);
        shard.order.push_back(Arc::clone(&key));
        shard.full_at.insert(key, after);
        Ok(())
    }

    fn shard(&self, key: &K) -> Option<MutexGuard<'_, Shard<K>>> {
        let hash = self.hasher.hash_one(key);
        let index = usize::try_from(hash % self.shards.len() as u64).ok()?;
        self.shards
            .get(index)
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Hash + Eq> Shard<K> {
    /// Removes the first full bucket among a few, or the fullest of them.
    fn evict(&mut self, now: Instant) {
        let mut fullest: Option<(Instant, Arc<K>)> = None;
        for _ in 0..PROBES.min(self.order.len()) {
            let Some(key) = self.order.pop_front() else {
                break;
            };
            let at = self.full_at.get(&key).copied().unwrap_or(now);
            let (out, kept) = match fullest.take() {
                Some((best, best_key)) if best <= at => ((best, best_key), Some(key)),
                Some((_, best_key)) => ((at, key), Some(best_key)),
                None => ((at, key), None),
            };
            self.order.extend(kept);
            let is_full = out.0 <= now;
            fullest = Some(out);
            if is_full {
                break;
            }
        }
        if let Some((_, key)) = fullest {
            self.full_at.remove(&key);
        }
    }
}

impl<K> fmt::Debug for RateLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("per_shard", &self.per_shard)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member_of(groups: &[&str]) -> UserInfo {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        UserInfo {
            username: "alice".to_owned(),
            groups,
            ..UserInfo::default()
        }
    }

    #[test]
    fn the_most_permissive_group_decides_and_the_general_limit_is_for_the_rest() {
        let limits = [("slow", 10), ("fast", 1000), ("free", 0)];
        let of = |groups: &[&str], general| limit_of(Some(&member_of(groups)), general, limits);
        assert_eq!(of(&[], Some(60)), Some(60));
        assert_eq!(of(&["other"], Some(60)), Some(60));
        assert_eq!(of(&["slow"], Some(60)), Some(10));
        assert_eq!(of(&["slow", "fast"], Some(60)), Some(1000));
        assert_eq!(of(&["slow", "free"], Some(60)), None);
        assert_eq!(of(&["slow"], None), Some(10));
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&[], Some(0)), None);
        assert_eq!(limit_of(None, Some(60), limits), Some(60));
    }

    /// Takes until refused; returns how many were taken and the wait.
    fn drain<K: Hash + Eq + Clone>(
        limiter: &RateLimiter<K>,
        key: &K,
        limit: u32,
        now: Instant,
    ) -> (u32, Duration) {
        for taken in 0.. {
            if let Err(wait) = limiter.take(key.clone(), limit, now) {
                return (taken, wait);
            }
        }
        unreachable!()
    }

    #[test]
    fn a_bucket_holds_a_minute_and_refills_evenly() {
        let (limiter, now) = (RateLimiter::new(8), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(drain(&limiter, &"alice", 60, now), (60, second));
        assert_eq!(limiter.take("alice", 60, now + second / 2), Err(second / 2));
        assert_eq!(drain(&limiter, &"alice", 60, now + second), (1, second));
        assert_eq!(
            drain(&limiter, &"alice", 60, now + 11 * second),
            (10, second)
        );
        assert_eq!(
            drain(&limiter, &"alice", 60, now + 1000 * second),
            (60, second)
        );
    }

    #[test]
    fn the_wait_is_exactly_long_enough() {
        for limit in [1, 7, 60, 90, 100_000] {
            let (limiter, now) = (RateLimiter::new(8), Instant::now());
            let (taken, wait) = drain(&limiter, &0, limit, now);
            assert_eq!(taken, limit);
            assert_eq!(
                limiter.take(0, limit, now + wait - Duration::from_nanos(1)),
                Err(Duration::from_nanos(1))
            );
            assert_eq!(limiter.take(0, limit, now + wait), Ok(()));
        }
    }

    #[test]
    fn users_do_not_share_a_bucket() {
        let (limiter, now) = (RateLimiter::new(64), Instant::now());
        drain(&limiter, &("a", "alice"), 5, now);
        assert_eq!(drain(&limiter, &("a", "bob"), 5, now).0, 5);
        assert_eq!(drain(&limiter, &("b", "alice"), 5, now).0, 5);
    }

    #[test]
    fn attack_a_flood_of_other_users_refills_no_used_up_bucket() {
        // A shard with a single place would have no other bucket to evict.
        for capacity in [2 * SHARDS, 64, 1024] {
            let (limiter, now) = (RateLimiter::new(capacity), Instant::now());
            drain(&limiter, &u32::MAX, 5, now);
            for user in 0..10_000_u32 {
                assert_eq!(limiter.take(user, 5, now), Ok(()));
            }
            let held: usize = limiter
                .shards
                .iter()
                .map(|s| s.lock().unwrap().full_at.len())
                .sum();
            assert!(held <= capacity);
            assert_eq!(
                drain(&limiter, &u32::MAX, 5, now).0,
                0,
                "capacity {capacity}"
            );
        }
    }

    #[test]
    fn a_full_bucket_makes_room_first() {
        let (limiter, now) = (RateLimiter::new(1), Instant::now());
        assert_eq!(limiter.take("alice", 60, now), Ok(()));
        assert_eq!(limiter.take("bob", 60, now + MINUTE), Ok(()));
        let mut shard = Shard {
            full_at: HashMap::new(),
            order: VecDeque::new(),
        };
        for (key, at) in [
            ("used", now + MINUTE),
            ("full", now),
            ("half", now + MINUTE / 2),
        ] {
            shard.order.push_back(Arc::new(key));
            shard.full_at.insert(Arc::new(key), at);
        }
        shard.evict(now);
        assert!(!shard.full_at.contains_key(&"full"));
        shard.evict(now);
        assert!(!shard.full_at.contains_key(&"half"));
        assert_eq!(shard.order.len(), 1);
    }
}
