//! Stage 5: who is asking, and on whose behalf.
//!
//! In: `Resolved`. Out: [`Authenticated`], which only this stage constructs. Credentials: client
//! certificate, bearer token (also in a WebSocket subprotocol), then `Impersonate-*` headers.
//! In `PassThrough` mode the caller's own token goes on and the API server checks impersonation
//! with it; in `Impersonate` mode the gateway makes the same checks itself first.
//! Fails closed: an answer that is not a clear yes is no login. 401 without a credential or with
//! a bad one, so that exec plugins and token refresh get their turn.
//! Upstream counterparts: `WithAuthentication`, `WithImpersonation`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderValue, Request, Response};
use portcullis_authn::impersonation::{self, Impersonation, Mode};
use portcullis_authn::{bearer, identity_headers};
use portcullis_core::observer::Stage;
use portcullis_core::{Error, Redacted, RequestInfo, UserInfo};
use tower::{Layer, Service};

use crate::Body;
use crate::cluster::Cluster;
use crate::exchange::Exchange;
use crate::pipeline::StageFuture;
use crate::request_info::{Resolved, UpgradeProtocol};

mod authenticator;
mod review;
mod single_flight;

pub use authenticator::{AuthenticationSettings, Authenticator};

/// A request whose sender is known, or whose upstream will judge the sender.
pub struct Authenticated {
    resolved: Resolved,
    caller: Caller,
}

/// Who the request goes out as.
pub enum Caller {
    /// The caller's own credential goes on.
    PassThrough {
        /// `Authorization` as it goes on; `None` only where validation is off.
        authorization: Option<Redacted<HeaderValue>>,
        /// Whether the gateway has checked the credential.
        validated: bool,
        /// The caller, if the gateway has checked.
        user: Option<Arc<UserInfo>>,
        /// Whom the caller asks to act as; the API server decides whether it may.
        impersonation: Option<Box<Impersonation>>,
        /// The user as whom the request will run, if it may.
        effective: Option<Arc<UserInfo>>,
    },
    /// The gateway's credential goes on, with `Impersonate-*` for `user`.
    Impersonate {
        /// The caller.
        caller: Arc<UserInfo>,
        /// As whom the request runs: the caller, or whom it may act as.
        user: Arc<UserInfo>,
    },
}

impl Authenticated {
    /// The request.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The caller itself, whomever it acts as. `None` where validation is off.
    #[must_use]
    pub fn caller_identity(&self) -> Option<&UserInfo> {
        match &self.caller {
            Caller::PassThrough { user, .. } => user.as_deref(),
            Caller::Impersonate { caller, .. } => Some(caller),
        }
    }

    /// The user as whom the request will run. `None` where validation is off.
    #[must_use]
    pub fn effective_identity(&self) -> Option<&UserInfo> {
        match &self.caller {
            Caller::PassThrough { effective, .. } => effective.as_deref(),
            Caller::Impersonate { user, .. } => Some(user),
        }
    }

    /// The request and who sends it.
    #[must_use]
    pub fn into_parts(self) -> (Resolved, Caller) {
        (self.resolved, self.caller)
    }
}

/// Builds [`Authenticate`].
#[derive(Clone, Copy)]
pub struct AuthenticateLayer;

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Authenticate<S>;

    fn layer(&self, inner: S) -> Authenticate<S> {
        Authenticate { inner }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Authenticate<S> {
    inner: S,
}

impl<S> Service<Resolved> for Authenticate<S>
where
    S: Service<Authenticated, Response = Response<Body>, Error = Error, Future = StageFuture>
        + Clone
        + Send
        + 'static,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = StageFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, resolved: Resolved) -> StageFuture {
        // The clone stays; what was polled ready goes with the request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let began = Instant::now();
            let exchange = Arc::clone(resolved.exchange());
            let authenticated = authenticate(resolved).await;
            exchange.stage_finished(Stage::Authenticate, began);
            inner.call(authenticated?).await
        })
    }
}

async fn authenticate(mut resolved: Resolved) -> Result<Authenticated, Error> {
    let cluster = Arc::clone(resolved.cluster());
    let exchange = Arc::clone(resolved.exchange());
    let address = exchange.peer.address.ip();
    cluster
        .refuse_banned(address, Instant::now())
        .inspect_err(|_| {
            exchange
                .observer
                .limited(cluster.label(), "fail2login_equal_ban");
        })?;
    if identity_headers::spoofed(resolved.request().headers()) {
        // Some hops fold `_` into `-`; a client that writes it so has nothing good in mind.
        return Err(Error::bad_request(
            "an identity header is spelled with an underscore",
        ));
    }

    let websocket = resolved.upgrade() == Some(UpgradeProtocol::WebSocket);
    let token = take_bearer(resolved.request_mut(), websocket)?;
    let login = log_in(&cluster, &exchange, token.as_ref()).await;
    if let Err(error) = &login
        && error.status.code == 401
    {
        cluster.note_failed_login(address, Instant::now());
    }
    let user = login?;
    let impersonation = impersonation::parse(resolved.request().headers())?;
    let caller = if cluster.impersonates() {
        act_as(&cluster, resolved.info(), user, impersonation).await?
    } else {
        pass_through(token, user, impersonation)
    };
    Ok(Authenticated { resolved, caller })
}

/// Takes the bearer token out of the request; what is left of the WebSocket subprotocols stays.
fn take_bearer(
    request: &mut Request<Body>,
    websocket: bool,
) -> Result<Option<Redacted<String>>, Error> {
    let Some(bearer) = bearer::extract(request.headers(), websocket)? else {
        return Ok(None);
    };
    if let Some(protocols) = bearer.websocket_protocols_left {
        request
            .headers_mut()
            .insert(SEC_WEBSOCKET_PROTOCOL, protocols);
    }
    request.headers_mut().remove(AUTHORIZATION);
    Ok(Some(bearer.token))
}

/// Establishes who the caller is. `Ok(None)` only where validation is off.
async fn log_in(
    cluster: &Cluster,
    exchange: &Exchange,
    token: Option<&Redacted<String>>,
) -> Result<Option<Arc<UserInfo>>, Error> {
    let authenticator = cluster.authenticator()?;
    // A certificate says nothing to the API server in pass-through mode: TLS ends here.
    let certificate = exchange
        .peer
        .certificate
        .as_ref()
        .filter(|_| cluster.impersonates());
    if let Some(user) = certificate {
        exchange
            .observer
            .authentication(cluster.label(), "x509", "success", false);
        return Ok(Some(Arc::clone(user)));
    }
    if authenticator.validation_is_off() {
        return Ok(None);
    }
    match token {
        Some(token) => authenticator
            .user_of(cluster, exchange, token)
            .await
            .map(Some),
        None => {
            exchange
                .observer
                .authentication(cluster.label(), "none", "failure", false);
            Err(Error::unauthorized())
        }
    }
}

fn pass_through(
    token: Option<Redacted<String>>,
    user: Option<Arc<UserInfo>>,
    impersonation: Option<Impersonation>,
) -> Caller {
    let authorization = token.and_then(|token| {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal())).ok()?;
        value.set_sensitive(true);
        Some(Redacted::new(value))
    });
    let effective = match (&user, &impersonation) {
        (Some(_), Some(impersonation)) => Some(Arc::new(impersonation::effective_user(
            impersonation,
            Mode::Legacy,
        ))),
        (user, _) => user.clone(),
    };
    Caller::PassThrough {
        authorization,
        validated: user.is_some(),
        user,
        impersonation: impersonation.map(Box::new),
        effective,
    }
}

async fn act_as(
    cluster: &Cluster,
    info: &RequestInfo,
    user: Option<Arc<UserInfo>>,
    impersonation: Option<Impersonation>,
) -> Result<Caller, Error> {
    // Never reached without a user: `index` refuses this mode with validation off.
    let caller = user.ok_or_else(Error::unauthorized)?;
    let user = match impersonation {
        None => Arc::clone(&caller),
        Some(impersonation) => {
            let authenticator = cluster.authenticator()?;
            Box::pin(authenticator.authorize_impersonation(cluster, info, &caller, &impersonation))
                .await?
        }
    };
    Ok(Caller::Impersonate { caller, user })
}
