//! Upgrades: exec, attach, port-forward, proxied WebSockets.
//!
//! Each has an upstream connection of its own. It becomes a tunnel only after the upstream
//! answered 101 with the protocol that was asked for; any other answer is passed on as an
//! ordinary one. Bytes that a client sends ahead wait in its connection until then.

use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use portcullis_core::{Blame, Error, status::Reason};
use tokio::io::copy_bidirectional_with_sizes;
use tokio_util::sync::CancellationToken;

use super::connect::Connector;
use super::headers;
use super::pool::http1_settings;
use crate::Body;
use crate::lifecycle::Lifecycle;
use crate::request_info::UpgradeProtocol;

/// Copy buffer per direction of a tunnel.
const TUNNEL_BUFFER_BYTES: usize = 16 * 1024;

impl UpgradeProtocol {
    fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::WebSocket => "websocket",
            Self::Spdy31 => "SPDY/3.1",
        })
    }
}

/// Sends an upgrade request. On 101 a task of its own carries the tunnel, holding `guard` until
/// it ends, at the latest when the gateway's drain reaches its deadline.
pub(super) async fn send<G: Send + 'static>(
    connector: &Connector,
    protocol: UpgradeProtocol,
    mut request: Request<Body>,
    timeout: Duration,
    lifecycle: &Lifecycle,
    guard: G,
) -> Result<Response<Body>, Error> {
    let label = connector.label().to_owned();
    let client = hyper::upgrade::on(&mut request);
    let stream = connector
        .connect_for_upgrade()
        .await
        .map_err(|e| e.to_error(&label))?;
    let failed = |e: hyper::Error| {
        let message =
            format!("the API server of cluster {label} closed the connection without an answer");
        Error::new(Blame::Upstream, 502, Reason::InternalError, message).with_detail(e.to_string())
    };
    let (mut sender, connection) = http1_settings()
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let driver = tokio::spawn(connection.with_upgrades());

    connector.address(&mut request, false);
    request
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    request.headers_mut().insert(UPGRADE, protocol.header());
    let answer = tokio::time::timeout(timeout, sender.send_request(request));
    let mut response = answer
        .await
        .map_err(|_| {
            Error::upstream_timeout(format!(
                "the API server of cluster {label} did not answer the upgrade in time"
            ))
        })?
        .map_err(failed)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (mut parts, incoming) = response.into_parts();
        headers::clean_response(&mut parts.headers);
        let mut body = Body::incoming(incoming);
        body.hold((sender, guard));
        return Ok(Response::from_parts(parts, body));
    }
    let agreed = response
        .headers()
        .get(UPGRADE)
        .and_then(|v| v.to_str().ok());
    let wanted = protocol.header();
    if !agreed.is_some_and(|a| wanted.to_str().is_ok_and(|w| a.eq_ignore_ascii_case(w))) {
        driver.abort();
        let message = format!(
            "the API server of cluster {label} switched to a protocol that was not asked for"
        );
        return Err(Error::new(
            Blame::Upstream,
            502,
            Reason::InternalError,
            message,
        ));
    }
    let upstream = hyper::upgrade::on(&mut response);
    let abort = lifecycle.abort.clone();
    lifecycle.tasks.spawn(async move {
        tunnel(client, upstream, abort).await;
        drop(guard);
    });
    let (mut parts, _) = response.into_parts();
    headers::clean_response(&mut parts.headers);
    parts
        .headers
        .insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    parts.headers.insert(UPGRADE, wanted);
    Ok(Response::from_parts(parts, Body::empty()))
}

async fn tunnel(client: OnUpgrade, upstream: OnUpgrade, abort: CancellationToken) {
    let both = async { tokio::try_join!(client, upstream) };
    let (client, upstream): (Upgraded, Upgraded) = match both.await {
        Ok(sides) => sides,
        Err(error) => {
            tracing::debug!("an upgrade came to nothing: {error}");
            return;
        }
    };
    let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
    let copy = copy_bidirectional_with_sizes(
        &mut client,
        &mut upstream,
        TUNNEL_BUFFER_BYTES,
        TUNNEL_BUFFER_BYTES,
    );
    tokio::select! {
        ended = copy => if let Err(error) = ended {
            // Either side may vanish at any time; that is how most tunnels end.
            tracing::debug!("a tunnel ended: {error}");
        },
        () = abort.cancelled() => {}
    }
}
