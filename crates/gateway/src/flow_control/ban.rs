//! Ban after failed logins: `security_config.fail2login_equal_ban`.
//!
//! Purpose: a client address that keeps sending wrong credentials to a cluster is refused there
//! before the cluster is asked about the next one.
//! Invariant: bounded, and an active ban is never evicted: whoever fills the table from many
//! addresses gains no address back. A success does not reset the count, or one valid credential
//! would buy endless guesses.
//! Upstream counterpart: none; kube-apiserver has no such limit.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Failures further apart than this are not added up, counted from the first.
pub const WINDOW: Duration = Duration::from_secs(3600);
/// What exponential backoff does not exceed, unless the first ban is longer.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(24 * 3600);
/// How many records an insertion into a full table looks at.
const PROBES: usize = 8;

/// When a client is banned, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanPolicy {
    /// The failure with this number, within [`WINDOW`], begins the ban. 0 counts as 1.
    pub max_failed_logins: u32,
    /// Length of the first ban; `None` is forever, that is until the gateway restarts.
    pub ban_duration: Option<Duration>,
    /// Whether each further ban of the same client is twice as long.
    pub exponential_backoff: bool,
}

/// The client is banned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Banned {
    /// For how much longer; `None` is forever.
    pub remaining: Option<Duration>,
}

/// What became of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was counted.
    Counted,
    /// It was the last one that was tolerated, or a ban was active already.
    Banned(Banned),
    /// There was no room to remember it; worth a warning.
    TableFull,
}

/// Failed logins and bans of all clusters. `C` identifies a cluster.
pub struct Bans<C> {
    capacity: usize,
    table: RwLock<Table<C>>,
}

type Client<C> = (C, IpAddr);

struct Table<C> {
    records: HashMap<Arc<Client<C>>, Record>,
    /// Each key of `records` once, oldest first.
    order: VecDeque<Arc<Client<C>>>,
}

struct Record {
    failures: u32,
    first_failure: Instant,
    ban: Ban,
    bans: u32,
    /// When earlier bans no longer lengthen the next one.
    forget_bans: Instant,
}

#[derive(Clone, Copy)]
enum Ban {
    None,
    Until(Instant),
    Forever,
}

impl<C: Clone + Eq + Hash> Bans<C> {
    /// Room for `capacity` clients.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let table = Table {
            records: HashMap::new(),
            order: VecDeque::new(),
        };
        Self {
            capacity,
            table: RwLock::new(table),
        }
    }

    /// Whether the client is banned at the cluster.
    #[must_use]
    pub fn check(&self, cluster: &C, address: IpAddr, now: Instant) -> Option<Banned> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        if table.records.is_empty() {
            return None;
        }
        table
            .records
            .get(&(cluster.clone(), source(address)))?
            .ban
            .active(now)
    }

    /// Counts a definite 401. Errors of the cluster are no failures of the client.
    pub fn failed(
        &self,
        cluster: &C,
        address: IpAddr,
        policy: &BanPolicy,
        now: Instant,
    ) -> Recorded {
        let key = (cluster.clone(), source(address));
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if !table.records.contains_key(&key) {
            if table.records.len() >= self.capacity && !table.evict(now) {
                return Recorded::TableFull;
            }
            let key = Arc::new(key.clone());
            table.order.push_back(Arc::clone(&key));
            table.records.insert(key, Record::new(now));
        }
        match table.records.get_mut(&key) {
            Some(record) => record
                .fail(policy, now)
                .map_or(Recorded::Counted, Recorded::Banned),
            None => Recorded::TableFull,
        }
    }
}

impl<C: Eq + Hash> Table<C> {
    /// Removes the oldest record that is no active ban, looking at a few.
    fn evict(&mut self, now: Instant) -> bool {
        for _ in 0..PROBES.min(self.order.len()) {
            let Some(key) = self.order.pop_front() else {
                return false;
            };
            if self
                .records
                .get(&key)
                .is_none_or(|record| record.ban.active(now).is_none())
            {
                self.records.remove(&key);
                return true;
            }
            self.order.push_back(key);
        }
        false
    }
}

impl Record {
    const fn new(now: Instant) -> Self {
        Self {
            failures: 0,
            first_failure: now,
            ban: Ban::None,
            bans: 0,
            forget_bans: now,
        }
    }

    fn fail(&mut self, policy: &BanPolicy, now: Instant) -> Option<Banned> {
        // Requests that were under way when the ban began do not lengthen it.
        if let Some(banned) = self.ban.active(now) {
            return Some(banned);
        }
        if now.saturating_duration_since(self.first_failure) > WINDOW {
            self.failures = 0;
        }
        if self.failures == 0 {
            self.first_failure = now;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < policy.max_failed_logins {
            return None;
        }
        if now >= self.forget_bans {
            self.bans = 0;
        }
        self.failures = 0;
        self.ban = Ban::Forever;
        let Some(first) = policy.ban_duration else {
            return self.ban.active(now);
        };
        let doublings = if policy.exponential_backoff {
            self.bans
        } else {
            0
        };
        let factor = 2_u32.saturating_pow(doublings);
        let length = first.saturating_mul(factor).min(LONGEST_BACKOFF.max(first));
        self.bans = self.bans.saturating_add(1);
        // A time that cannot be represented is as good as never.
        if let Some(until) = now.checked_add(length) {
            self.ban = Ban::Until(until);
            self.forget_bans = until.checked_add(length.max(WINDOW)).unwrap_or(until);
        }
        self.ban.active(now)
    }
}

impl Ban {
    fn active(self, now: Instant) -> Option<Banned> {
        match self {
            Self::None => None,
            Self::Forever => Some(Banned { remaining: None }),
            Self::Until(until) => {
                let remaining = until
                    .checked_duration_since(now)
                    .filter(|left| !left.is_zero())?;
                Some(Banned {
                    remaining: Some(remaining),
                })
            }
        }
    }
}

/// Whoever has one IPv6 address has the 2^64 of its network.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 => v4,
    }
}

impl<C> fmt::Debug for Bans<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bans")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
