//! HTTP/2 through hyper, one connection per client.
//!
//! Purpose: many streams on one connection, bodies that stop half-way, streams that are reset.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;

use super::{SOON, Target};
use crate::wait::within;
use crate::{Context, Result};

/// An HTTP/2 connection.
#[derive(Debug, Clone)]
pub struct H2Client {
    sender: http2::SendRequest<RequestBody>,
    authority: String,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The trailer fields.
    pub trailers: Option<HeaderMap>,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).context(format!(
            "{}: no JSON: {}",
            self.status,
            self.text()
        ))
    }

    /// All values of a header field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .get_all(name)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .collect()
    }
}

impl H2Client {
    /// Connects.
    ///
    /// # Errors
    /// When there is no TLS connection with ALPN `h2`.
    pub async fn connect(target: &Target) -> Result<Self> {
        let stream = target.connect(&[b"h2"]).await?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = within("the HTTP/2 handshake", SOON, handshake)
            .await?
            .context("the HTTP/2 handshake")?;
        tokio::spawn(connection);
        let host = match target.server_name.parse::<std::net::IpAddr>() {
            Ok(_) => target.address.to_string(),
            Err(_) => format!("{}:{}", target.server_name, target.address.port()),
        };
        Ok(Self {
            sender,
            authority: host,
        })
    }

    /// Sends a request and reads the answer whole.
    ///
    /// # Errors
    /// When the stream is reset, or nothing comes for ten seconds.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Reply> {
        let what = format!("{method} {path}");
        let response = self
            .send(method, path, headers, RequestBody::whole(body))
            .await?;
        let (head, body) = response.into_parts();
        let collected = within(&what, SOON, body.collect()).await?.context(&what)?;
        let trailers = collected.trailers().cloned();
        let (status, headers) = (head.status, head.headers);
        Ok(Reply {
            status,
            headers,
            body: collected.to_bytes(),
            trailers,
        })
    }

    /// GET with a bearer token.
    ///
    /// # Errors
    /// As [`H2Client::call`].
    pub async fn get(&self, path: &str, token: &str) -> Result<Reply> {
        let authorization = format!("Bearer {token}");
        self.call(
            Method::GET,
            path,
            &[("authorization", &authorization)],
            Bytes::new(),
        )
        .await
    }

    /// Sends a request and returns its answer as soon as the head is there. Dropping the answer
    /// resets the stream.
    ///
    /// # Errors
    /// When the stream is reset, or no head comes for ten seconds.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: RequestBody,
    ) -> Result<http::Response<Incoming>> {
        let what = format!("{method} {path}");
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).context(&what)?;
        let mut sender = self.sender.clone();
        within(&what, SOON, async {
            sender.ready().await?;
            sender.send_request(request).await
        })
        .await?
        .context(&what)
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// A request body: whole, or fed piece by piece.
#[derive(Debug)]
pub enum RequestBody {
    /// All there is.
    Whole(Full<Bytes>),
    /// What comes through the channel; an error resets the stream.
    Fed(mpsc::Receiver<Result<Bytes>>),
}

impl RequestBody {
    /// A body known whole.
    pub fn whole(body: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(body.into()))
    }

    /// A body fed through the sender; it ends when the sender is dropped.
    pub fn fed() -> (mpsc::Sender<Result<Bytes>>, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Self::Fed(receiver))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = crate::Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(full) => Pin::new(full)
                .poll_frame(cx)
                .map(|frame| frame.map(|f| f.map_err(|never| match never {}))),
            Self::Fed(pieces) => pieces
                .poll_recv(cx)
                .map(|piece| piece.map(|p| p.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(full) if full.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(full) => full.size_hint(),
            Self::Fed(_) => SizeHint::default(),
        }
    }
}
