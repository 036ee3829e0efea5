//! The clusters as the pipeline sees them: configuration, connections, caches, counters.
//!
//! A cluster lives as long as its configuration stays the same; a reload that does not touch it
//! keeps its connections and caches. Requests under way keep the cluster they began with.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::{HeaderValue, StatusCode};
use portcullis_authz::AllowedResources;
use portcullis_core::observer::Observer;
use portcullis_core::{Blame, Error, UserInfo};
use portcullis_index::{ClusterConfig, ClusterState, GatewayCredential, Snapshot, UpstreamMode};
use tokio::sync::watch;

use crate::authenticate::{AuthenticationSettings, Authenticator, Caller};
use crate::flow_control::ban::{BanPolicy, Bans, Recorded};
use crate::flow_control::rate::{RateLimiter, limit_of};
use crate::forward::connect::Connector;
use crate::forward::pool::Pool;
use crate::forward::tls::{Identity, TlsSetupError};
use crate::workers::Workers;

mod credential;

use credential::GatewayToken;

/// What all clusters share.
#[derive(Clone)]
pub struct ClusterSettings {
    /// Until a connection to an upstream stands.
    pub connect_timeout: Duration,
    /// Token cache.
    pub authentication: AuthenticationSettings,
    /// Receives metrics.
    pub observer: Arc<dyn Observer>,
    /// Counters that outlive a cluster's configuration.
    pub counters: Arc<Counters>,
    /// Worker threads: each has connections of its own.
    pub workers: usize,
}

/// Failed logins and request rates of all clusters: editing a cluster lifts no ban.
pub struct Counters {
    bans: Bans<Arc<str>>,
    rates: RateLimiter<(Arc<str>, String)>,
}

/// Addresses with failed logins, and users with a request rate, that are remembered at most.
const COUNTERS_MAX: usize = 65_536;

impl Default for Counters {
    fn default() -> Self {
        Self {
            bans: Bans::new(COUNTERS_MAX),
            rates: RateLimiter::new(COUNTERS_MAX),
        }
    }
}

/// One cluster.
pub struct Cluster {
    config: Arc<ClusterConfig>,
    label: Arc<str>,
    counters: Arc<Counters>,
    state: ClusterState,
    /// Present exactly when `state` is `Serving`.
    served: Option<Served>,
}

/// Why a cluster cannot be served as configured.
#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    #[error("the system has no randomness")]
    Random,
}

/// What it takes to serve a cluster.
pub struct Served {
    /// For requests with the caller's own credential. Never has a client certificate: the API
    /// server would prefer it to the caller's token.
    caller_pool: PerWorker,
    /// For requests with the gateway's credential.
    gateway_pool: PerWorker,
    token: GatewayToken,
    authenticator: Authenticator,
}

/// A pool for each worker, so that a request meets no connection of another thread.
#[derive(Clone)]
struct PerWorker {
    first: Arc<Pool>,
    others: Vec<Arc<Pool>>,
}

impl PerWorker {
    fn new(connector: &Arc<Connector>, settings: &ClusterSettings) -> Self {
        let pool = || Pool::new(Arc::clone(connector), Arc::clone(&settings.observer));
        Self {
            first: pool(),
            others: (1..settings.workers).map(|_| pool()).collect(),
        }
    }

    /// The pool of the worker that runs the caller.
    fn here(&self) -> &Arc<Pool> {
        let other = Workers::current()
            .checked_sub(1)
            .and_then(|i| self.others.get(i));
        other.unwrap_or(&self.first)
    }
}

impl Cluster {
    fn new(config: Arc<ClusterConfig>, settings: &ClusterSettings) -> Arc<Self> {
        let label: Arc<str> = config.key.to_string().into();
        let mut state = config.state.clone();
        let served = match &state {
            ClusterState::Serving => match Served::new(&config, &label, settings) {
                Ok(served) => Some(served),
                Err(error) => {
                    state = ClusterState::Refused {
                        reason: error.to_string(),
                    };
                    None
                }
            },
            _ => None,
        };
        let counters = Arc::clone(&settings.counters);
        Arc::new(Self {
            config,
            label,
            counters,
            state,
            served,
        })
    }

    /// `namespace/name`.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether and why not it is served.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// Path prefix at the upstream, without a trailing slash.
    #[must_use]
    pub fn path_prefix(&self) -> &str {
        &self.config.upstream.path_prefix
    }

    /// Whether requests go out with the gateway's credential and `Impersonate-*` headers.
    #[must_use]
    pub fn impersonates(&self) -> bool {
        self.config.mode == UpstreamMode::Impersonate
    }

    /// The group whose members alone may use the cluster.
    #[must_use]
    pub fn proxy_group(&self) -> Option<&str> {
        self.config.proxy_group.as_deref()
    }

    /// The allow-list, if there is one.
    #[must_use]
    pub fn allowed_resources(&self) -> Option<&AllowedResources> {
        self.config.security.allowed_resources.as_ref()
    }

    /// Finds out who callers are.
    ///
    /// # Errors
    /// Only if the cluster is not served, which `request_info` has ruled out.
    pub fn authenticator(&self) -> Result<&Authenticator, Error> {
        Ok(&self.served()?.authenticator)
    }

    /// The connections on which a request of `caller` may go out.
    ///
    /// # Errors
    /// Only if the cluster is not served, which `request_info` has ruled out.
    pub fn pool_for(&self, caller: &Caller) -> Result<&Arc<Pool>, Error> {
        let served = self.served()?;
        Ok(match caller {
            Caller::PassThrough { .. } => served.caller_pool.here(),
            Caller::Impersonate { .. } => served.gateway_pool.here(),
        })
    }

    /// Connections with the caller's credential.
    ///
    /// # Errors
    /// Only if the cluster is not served.
    pub fn caller_pool(&self) -> Result<&Arc<Pool>, Error> {
        Ok(self.served()?.caller_pool.here())
    }

    /// Connections with the gateway's credential.
    ///
    /// # Errors
    /// Only if the cluster is not served.
    pub fn gateway_pool(&self) -> Result<&Arc<Pool>, Error> {
        Ok(self.served()?.gateway_pool.here())
    }

    /// The gateway's own `Authorization`; `None` if it introduces itself by certificate.
    ///
    /// # Errors
    /// If its token cannot be had.
    pub fn gateway_authorization(&self) -> Result<Option<HeaderValue>, Error> {
        self.served()?.token.current(&self.label)
    }

    /// Refuses an address that failed to log in too often.
    ///
    /// # Errors
    /// 429, with the rest of the ban as `Retry-After`.
    pub fn refuse_banned(&self, address: IpAddr, now: Instant) -> Result<(), Error> {
        if self.config.security.ban.is_none() {
            return Ok(());
        }
        match self.counters.bans.check(&self.label, address, now) {
            None => Ok(()),
            Some(banned) => {
                let message = "too many failed logins from this address, please try again later";
                // A ban without an end is reported as a day: clients understand a number only.
                let wait = banned.remaining.unwrap_or(Duration::from_secs(24 * 3600));
                Err(Error::too_many_requests(message, wait))
            }
        }
    }

    /// Counts a failed login of `address`.
    pub fn note_failed_login(&self, address: IpAddr, now: Instant) {
        let Some(ban) = &self.config.security.ban else {
            return;
        };
        let policy = BanPolicy {
            max_failed_logins: ban.max_failed_logins,
            ban_duration: ban.ban_duration,
            exponential_backoff: ban.exponential_backoff,
        };
        match self
            .counters
            .bans
            .failed(&self.label, address, &policy, now)
        {
            Recorded::Counted => {}
            Recorded::Banned(_) => {
                tracing::warn!(cluster = &*self.label, %address, "banned after failed logins");
            }
            Recorded::TableFull => {
                tracing::warn!(cluster = &*self.label, %address, "no room to count a failed login");
            }
        }
    }

    /// Learns from the upstream's answer what only the upstream knows.
    pub fn note_answer(&self, caller: &Caller, address: IpAddr, status: StatusCode) {
        if status != StatusCode::UNAUTHORIZED {
            return;
        }
        match caller {
            // With validation off, the upstream alone judges logins.
            Caller::PassThrough {
                validated: false, ..
            } => {
                self.note_failed_login(address, Instant::now());
            }
            Caller::PassThrough { .. } => {}
            Caller::Impersonate { .. } => {
                if let Some(served) = &self.served {
                    served.token.refresh_soon();
                }
            }
        }
    }

    /// Counts a request against its limit per minute: of the user, or of the address where who
    /// the user is stays the API server's secret.
    ///
    /// # Errors
    /// How long to wait.
    pub fn within_rate(
        &self,
        user: Option<&UserInfo>,
        address: IpAddr,
        now: Instant,
    ) -> Result<(), Duration> {
        let security = &self.config.security;
        let groups = security.group_rate_limits.iter();
        let groups = groups.map(|g| (g.group.as_str(), g.max_requests_per_minute));
        let Some(limit) = limit_of(user, security.rate_limit, groups) else {
            return Ok(());
        };
        let who = user.map_or_else(|| address.to_string(), |u| u.username.clone());
        self.counters
            .rates
            .take((Arc::clone(&self.label), who), limit, now)
    }

    fn served(&self) -> Result<&Served, Error> {
        self.served.as_ref().ok_or_else(|| {
            Error::unavailable(
                Blame::Config,
                format!("cluster {} is not served", self.label),
            )
        })
    }
}

impl Served {
    fn new(
        config: &ClusterConfig,
        label: &str,
        settings: &ClusterSettings,
    ) -> Result<Self, SetupError> {
        let pool = |identity: Option<&Identity>| {
            Connector::new(label, &config.upstream, identity, settings.connect_timeout)
                .map(|connector| PerWorker::new(&Arc::new(connector), settings))
        };
        let caller_pool = pool(None)?;
        let gateway_pool = match &config.credential {
            GatewayCredential::ClientCertificate { cert_pem, key_pem } => {
                pool(Some(&Identity::from_pem(cert_pem, key_pem.reveal())?))?
            }
            _ => caller_pool.clone(),
        };
        Ok(Self {
            caller_pool,
            gateway_pool,
            token: GatewayToken::new(&config.credential),
            authenticator: Authenticator::new(config.authentication, settings.authentication)
                .map_err(|_| SetupError::Random)?,
        })
    }
}

/// The clusters by path and by host; swapped whole.
pub struct Registry {
    table: ArcSwap<Table>,
    settings: ClusterSettings,
}

#[derive(Default)]
struct Table {
    /// Keyed `namespace/name`, as it stands in the path.
    by_key: HashMap<String, Arc<Cluster>>,
    by_host: HashMap<String, Arc<Cluster>>,
}

impl Registry {
    /// Follows `snapshots` for as long as they come; the first is in force on return.
    #[must_use]
    pub fn follow(
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        settings: ClusterSettings,
    ) -> Arc<Self> {
        let registry = Arc::new(Self {
            table: ArcSwap::default(),
            settings,
        });
        let first = Arc::clone(&snapshots.borrow_and_update());
        registry.apply(&first);
        let weak = Arc::downgrade(&registry);
        tokio::spawn(async move {
            while snapshots.changed().await.is_ok() {
                let Some(registry) = weak.upgrade() else {
                    return;
                };
                let snapshot = Arc::clone(&snapshots.borrow_and_update());
                registry.apply(&snapshot);
            }
        });
        registry
    }

    /// The cluster whose key is `namespace/name`.
    #[must_use]
    pub fn by_key(&self, key: &str) -> Option<Arc<Cluster>> {
        self.table.load().by_key.get(key).map(Arc::clone)
    }

    /// The cluster that answers to `host` (no port, any case, an optional root dot).
    #[must_use]
    pub fn by_host(&self, host: &str) -> Option<Arc<Cluster>> {
        let table = self.table.load();
        if table.by_host.is_empty() {
            return None;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        table
            .by_host
            .get(&host.to_ascii_lowercase())
            .map(Arc::clone)
    }

    fn apply(&self, snapshot: &Snapshot) {
        let before = self.table.load_full();
        let mut table = Table::default();
        let (mut serving, mut refused, mut disabled) = (0, 0, 0);
        for (key, config) in &snapshot.clusters {
            let key = key.to_string();
            let cluster = match before.by_key.get(&key) {
                Some(known) if *known.config == **config => Arc::clone(known),
                _ => Cluster::new(Arc::clone(config), &self.settings),
            };
            match cluster.state() {
                ClusterState::Serving => serving += 1,
                ClusterState::Disabled => {
                    // To a caller it does not exist, neither by path nor by host.
                    disabled += 1;
                    continue;
                }
                ClusterState::Refused { reason } => {
                    refused += 1;
                    tracing::warn!(cluster = key, "the cluster is not served: {reason}");
                }
            }
            for host in &config.hosts {
                let held = table
                    .by_host
                    .entry(host.clone())
                    .or_insert_with(|| Arc::clone(&cluster));
                if !Arc::ptr_eq(held, &cluster) {
                    let holder = held.label();
                    tracing::warn!(
                        cluster = key,
                        host,
                        holder,
                        "the host name belongs to another cluster"
                    );
                }
            }
            table.by_key.insert(key, cluster);
        }
        self.settings.observer.clusters(serving, refused, disabled);
        self.table.store(Arc::new(table));
    }
}
