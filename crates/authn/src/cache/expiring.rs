//! A bounded map whose entries expire.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SHARDS: usize = 16;
/// How many entries an insertion into a full shard looks at for an expired one.
const PROBES: usize = 8;

/// A map of at most `capacity` entries, split into shards so that requests rarely wait for each
/// other. The oldest entries go first, expired ones before others.
pub struct Expiring<K, V> {
    shards: Vec<Mutex<Shard<K, V>>>,
    per_shard: usize,
    hasher: RandomState,
}

struct Shard<K, V> {
    entries: HashMap<Arc<K>, Entry<V>>,
    /// Each key of `entries` once, in the order of insertion or of its last reprieve.
    order: VecDeque<Arc<K>>,
}

struct Entry<V> {
    value: V,
    expires: Instant,
}

impl<K: Hash + Eq, V: Clone> Expiring<K, V> {
    /// A map of at most `capacity` entries; 0 keeps nothing.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let shards = capacity.clamp(1, SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::default())).collect(),
            per_shard: capacity / shards,
            hasher: RandomState::new(),
        }
    }

    /// The value of `key` unless it has expired.
    #[must_use]
    pub fn get(&self, key: &K, now: Instant) -> Option<V> {
        let shard = self.shard(key)?;
        shard
            .entries
            .get(key)
            .filter(|entry| entry.expires > now)
            .map(|entry| entry.value.clone())
    }

    /// Keeps `value` for `ttl`. Zero keeps nothing, and forgets what was there.
    pub fn insert(&self, key: K, value: V, ttl: Duration, now: Instant) {
        let Some(expires) = now.checked_add(ttl).filter(|expires| *expires > now) else {
            return self.expire(&key, now);
        };
        let Some(mut shard) = self.shard(&key) else {
            return;
        };
        if let Some(entry) = shard.entries.get_mut(&key) {
            *entry = Entry { value, expires };
            return;
        }
        if shard.entries.len() >= self.per_shard {
            shard.evict(now);
        }
        if shard.entries.len() < self.per_shard {
            let key = Arc::new(key);
            shard.order.push_back(Arc::clone(&key));
            shard.entries.insert(key, Entry { value, expires });
        }
    }

    /// Forgets `key`. Its place is reused like that of any expired entry.
    pub fn expire(&self, key: &K, now: Instant) {
        if let Some(entry) = self
            .shard(key)
            .as_mut()
            .and_then(|shard| shard.entries.get_mut(key))
        {
            entry.expires = now;
        }
    }

    fn shard(&self, key: &K) -> Option<MutexGuard<'_, Shard<K, V>>> {
        let hash = self.hasher.hash_one(key);
        let index = usize::try_from(hash % self.shards.len() as u64).ok()?;
        // A panic while the lock was held cannot leave a half-made entry.
        self.shards
            .get(index)
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Removes an expired entry if one is among the oldest few, else the oldest.
    fn evict(&mut self, now: Instant) {
        for _ in 0..PROBES.min(self.order.len()) {
            let Some(key) = self.order.pop_front() else {
                return;
            };
            if self
                .entries
                .get(&key)
                .is_none_or(|entry| entry.expires <= now)
            {
                self.entries.remove(&key);
                return;
            }
            self.order.push_back(key);
        }
        if let Some(key) = self.order.pop_front() {
            self.entries.remove(&key);
        }
    }
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K, V> fmt::Debug for Expiring<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiring")
            .field("per_shard", &self.per_shard)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn len<K, V>(map: &Expiring<K, V>) -> usize {
        map.shards
            .iter()
            .map(|shard| shard.lock().unwrap().entries.len())
            .sum()
    }

    #[test]
    fn an_entry_lives_until_its_time_and_not_longer() {
        let (map, now) = (Expiring::new(4), Instant::now());
        map.insert("k", 1, TTL, now);
        assert_eq!(map.get(&"k", now + TTL - Duration::from_nanos(1)), Some(1));
        assert_eq!(map.get(&"k", now + TTL), None);
        map.insert("k", 2, TTL, now + TTL);
        assert_eq!(map.get(&"k", now + TTL), Some(2));
    }

    #[test]
    fn no_time_and_no_room_keep_nothing() {
        let now = Instant::now();
        let map = Expiring::new(0);
        map.insert("k", 1, TTL, now);
        assert_eq!(map.get(&"k", now), None);
        let map = Expiring::new(1);
        map.insert("k", 1, TTL, now);
        map.insert("k", 2, Duration::ZERO, now);
        assert_eq!(map.get(&"k", now), None);
        map.insert("k", 1, Duration::MAX, now);
        assert_eq!(map.get(&"k", now), None);
    }

    #[test]
    fn the_oldest_makes_room_unless_an_expired_one_can() {
        let (map, now) = (Expiring::new(1), Instant::now());
        map.insert("a", 1, TTL, now);
        map.insert("b", 2, TTL, now);
        assert_eq!((map.get(&"a", now), map.get(&"b", now)), (None, Some(2)));
        let mut shard = Shard::default();
        for (key, ttl) in [("old", 3 * TTL), ("expired", TTL), ("new", 3 * TTL)] {
            shard.order.push_back(Arc::new(key));
            shard.entries.insert(
                Arc::new(key),
                Entry {
                    value: (),
                    expires: now + ttl,
                },
            );
        }
        shard.evict(now + 2 * TTL);
        assert!(!shard.entries.contains_key(&"expired") && shard.entries.len() == 2);
        shard.evict(now);
        assert_eq!((shard.entries.len(), shard.order.len()), (1, 1));
    }

    proptest! {
        #[test]
        fn the_number_of_entries_is_bounded(
            capacity in 0_usize..40,
            keys in prop::collection::vec((0_u8..100, 0_u64..20), 0..300),
        ) {
            let (map, start) = (Expiring::new(capacity), Instant::now());
            for (step, (key, ttl)) in keys.into_iter().enumerate() {
                let now = start + Duration::from_secs(step as u64);
                map.insert(key, step, Duration::from_secs(ttl), now);
                if ttl > 0 && capacity > 0 {
                    prop_assert_eq!(map.get(&key, now), Some(step));
                }
                prop_assert!(len(&map) <= capacity);
                for shard in &map.shards {
                    let shard = shard.lock().unwrap();
                    prop_assert_eq!(shard.order.len(), shard.entries.len());
                }
            }
        }
    }
}
