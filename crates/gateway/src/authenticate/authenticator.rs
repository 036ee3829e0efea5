//! One cluster's answers to "who is it" and "may they act as that user", with their caches.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;
use portcullis_authn::access::{AccessCheck, Verdict};
use portcullis_authn::cache::{
    DecisionCache, DecisionKey, Expiring, Remembered, TokenCache, TokenKey,
};
use portcullis_authn::impersonation::{self, Impersonation, Mode};
use portcullis_authn::review::{self as reviews, Authentication};
use portcullis_core::{Error, Redacted, RequestInfo, UserInfo};
use portcullis_index::Review;

use super::review;
use super::single_flight::SingleFlight;
use crate::cluster::Cluster;
use crate::exchange::Exchange;

/// kube-apiserver's defaults for a webhook authorizer are minutes; a revoked right to impersonate
/// should not outlive a coffee.
const ALLOWED_TTL: Duration = Duration::from_secs(10);
const DENIED_TTL: Duration = Duration::from_secs(5);
/// How long the mode of a caller's last impersonation is tried first.
const MODE_TTL: Duration = Duration::from_secs(300);
/// Remembered answers to access reviews per cluster.
const DECISIONS_MAX: usize = 4096;
/// Access reviews that one request may cost: a caller names up to a thousand groups.
const REVIEWS_PER_REQUEST_MAX: usize = 256;

/// Token cache of each cluster; keys of `GatewayConfiguration.authentication`.
#[derive(Clone, Copy, Debug)]
pub struct AuthenticationSettings {
    /// `tokenCacheTTL`.
    pub token_cache_ttl: Duration,
    /// `tokenCacheSize`.
    pub token_cache_size: usize,
}

/// See the module. Lives and dies with its cluster's configuration, so that an answer never
/// outlives the question's terms.
pub struct Authenticator {
    settings: portcullis_index::Authentication,
    tokens: TokenCache,
    logins: SingleFlight<TokenKey, Result<Option<Arc<UserInfo>>, Error>>,
    decisions: DecisionCache,
    questions: SingleFlight<DecisionKey, Result<Arc<Verdict>, Error>>,
    /// How callers were last allowed to impersonate: that mode is asked first, and its refusal is
    /// the one shown, as kube-apiserver does.
    modes: Expiring<(String, String), Mode>,
}

impl Authenticator {
    /// Nothing known yet.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(
        settings: portcullis_index::Authentication,
        cache: AuthenticationSettings,
    ) -> Result<Self, rustls::crypto::GetRandomFailed> {
        let mut salt = [0; 32];
        rustls::crypto::aws_lc_rs::default_provider()
            .secure_random
            .fill(&mut salt)?;
        Ok(Self {
            settings,
            tokens: TokenCache::new(cache.token_cache_size, cache.token_cache_ttl, salt),
            logins: SingleFlight::default(),
            decisions: DecisionCache::new(DECISIONS_MAX, ALLOWED_TTL, DENIED_TTL),
            questions: SingleFlight::default(),
            modes: Expiring::new(DECISIONS_MAX),
        })
    }

    /// Whether the cluster's owner leaves all checking to the API server.
    #[must_use]
    pub fn validation_is_off(&self) -> bool {
        self.settings.disable_validation
    }

    /// Whose `token` it is.
    ///
    /// # Errors
    /// 401 if it is nobody's; 503 or 504 if that cannot be found out.
    pub async fn user_of(
        &self,
        cluster: &Cluster,
        exchange: &Exchange,
        token: &Redacted<String>,
    ) -> Result<Arc<UserInfo>, Error> {
        let key = self.tokens.key(cluster.label(), token);
        let report = |result, cached| {
            exchange
                .observer
                .authentication(cluster.label(), "token", result, cached);
        };
        match self.tokens.get(&key, Instant::now()) {
            Some(Remembered::User(user)) => {
                report("success", true);
                return Ok(user);
            }
            Some(Remembered::Rejected) => {
                report("failure", true);
                return Err(Error::unauthorized());
            }
            None => {}
        }
        match self
            .logins
            .run(&key, Box::pin(self.ask_whose(cluster, key, token)))
            .await
        {
            Ok(Some(user)) => {
                report("success", false);
                Ok(user)
            }
            Ok(None) => {
                report("failure", false);
                Err(Error::unauthorized())
            }
            Err(error) => {
                report("error", false);
                Err(error)
            }
        }
    }

    async fn ask_whose(
        &self,
        cluster: &Cluster,
        key: TokenKey,
        token: &Redacted<String>,
    ) -> Result<Option<Arc<UserInfo>>, Error> {
        let prefix = cluster.path_prefix();
        let answer = match self.settings.review {
            Review::SelfSubject => {
                let mut own = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
                    .map_err(|_| Error::unauthorized())?;
                own.set_sensitive(true);
                let (pool, path) = (cluster.caller_pool()?, reviews::SELF_SUBJECT_REVIEW_PATH);
                let question = reviews::self_subject_review();
                let (code, reply) = review::post(pool, prefix, path, Some(own), question).await?;
                reviews::self_subject_review_reply(code, &reply)?
            }
            Review::Token => {
                let (pool, path) = (cluster.gateway_pool()?, reviews::TOKEN_REVIEW_PATH);
                let own = cluster.gateway_authorization()?;
                let question = reviews::token_review(token).reveal().clone();
                let (code, reply) = review::post(pool, prefix, path, own, question).await?;
                reviews::token_review_reply(code, &reply)?
            }
        };
        match answer {
            Authentication::User(user) => {
                let user = Arc::new(user);
                let (now, wall) = (Instant::now(), SystemTime::now());
                self.tokens.accept(key, token, Arc::clone(&user), now, wall);
                Ok(Some(user))
            }
            Authentication::Rejected(why) => {
                tracing::debug!(cluster = cluster.label(), "a token was rejected: {why}");
                self.tokens.reject(key, Instant::now());
                Ok(None)
            }
        }
    }

    /// The user that `caller` becomes, if it may.
    ///
    /// # Errors
    /// kube-apiserver's own 403 if it may not; 503 or 504 if that cannot be found out.
    pub(super) async fn authorize_impersonation(
        &self,
        cluster: &Cluster,
        info: &RequestInfo,
        caller: &Arc<UserInfo>,
        wish: &Impersonation,
    ) -> Result<Arc<UserInfo>, Error> {
        let plan = impersonation::checks(wish, info, caller);
        let asker = (caller.username.clone(), caller.uid.clone());
        let mut evaluation = plan.evaluation(self.modes.get(&asker, Instant::now()));
        let mut asked = 0;
        while let Some(check) = evaluation.next() {
            asked += 1;
            if asked > REVIEWS_PER_REQUEST_MAX {
                return Err(Error::forbidden(format!(
                    "impersonation would need more than {REVIEWS_PER_REQUEST_MAX} access reviews; name fewer groups"
                )));
            }
            let verdict = self.may(cluster, check).await?;
            evaluation.answer(&verdict);
        }
        let granted = evaluation.outcome()?;
        self.modes
            .insert(asker, granted.mode, MODE_TTL, Instant::now());
        Ok(Arc::new(granted.user))
    }

    async fn may(&self, cluster: &Cluster, check: &AccessCheck) -> Result<Arc<Verdict>, Error> {
        let key = DecisionKey {
            cluster: cluster.label().to_owned(),
            check: check.clone(),
        };
        if let Some(verdict) = self.decisions.get(&key, Instant::now()) {
            return Ok(verdict);
        }
        self.questions
            .run(&key, Box::pin(self.ask_whether(cluster, &key)))
            .await
    }

    async fn ask_whether(
        &self,
        cluster: &Cluster,
        key: &DecisionKey,
    ) -> Result<Arc<Verdict>, Error> {
        let (pool, own) = (cluster.gateway_pool()?, cluster.gateway_authorization()?);
        let question = reviews::subject_access_review(&key.check);
        let path = reviews::SUBJECT_ACCESS_REVIEW_PATH;
        let (code, reply) = review::post(pool, cluster.path_prefix(), path, own, question).await?;
        let verdict = Arc::new(reviews::subject_access_review_reply(code, &reply)?);
        self.decisions
            .insert(key.clone(), Arc::clone(&verdict), Instant::now());
        Ok(verdict)
    }
}
