//! The connections that carry the load.
//!
//! Purpose: send a GET as cheaply as can be and read its answer to the end, so that the client
//! takes little from the machine it shares with what it measures.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::target::Target;
use crate::client::SOON;
use crate::wait::within;
use crate::{Context, Failure, Result};

/// The HTTP version that the client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Http {
    /// HTTP/2
    Two,
    /// HTTP/1.1
    One,
}

impl std::fmt::Display for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::One => "1.1",
            Self::Two => "2",
        })
    }
}

/// A connection, or a share of one.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    headers: HeaderMap,
    origin: String,
    prefix: String,
}

#[derive(Debug)]
enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When the peer does not answer or does not speak this version.
    pub async fn open(target: &Target, http: Http) -> Result<Self> {
        let protocol: &[u8] = if http == Http::Two {
            b"h2"
        } else {
            b"http/1.1"
        };
        let stream = target.dial.connect(&[protocol]).await?;
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if agreed.as_deref() != Some(protocol) {
            return Err(Failure::new(format!(
                "{} does not offer HTTP/{http}",
                target.way
            )));
        }
        let io = TokioIo::new(stream);
        let what = format!("an HTTP/{http} connection to {}", target.way);
        let sender = match http {
            Http::One => {
                let (sender, connection) = within(&what, SOON, http1::handshake(io))
                    .await?
                    .context(&what)?;
                tokio::spawn(connection);
                Sender::One(sender)
            }
            Http::Two => {
                let handshake = http2::handshake(TokioExecutor::new(), io);
                let (sender, connection) = within(&what, SOON, handshake).await?.context(&what)?;
                tokio::spawn(connection);
                Sender::Two(sender)
            }
        };
        let authority = target.dial.address.to_string();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, header(&format!("Bearer {}", target.token))?);
        let origin = match http {
            Http::One => {
                headers.insert(HOST, header(&authority)?);
                String::new()
            }
            Http::Two => format!("https://{authority}"),
        };
        Ok(Self {
            sender,
            headers,
            origin,
            prefix: target.prefix.clone(),
        })
    }

    /// Another user of the same connection; `None` for HTTP/1.1, where there is none.
    pub fn share(&self) -> Option<Self> {
        let Sender::Two(sender) = &self.sender else {
            return None;
        };
        Some(Self {
            sender: Sender::Two(sender.clone()),
            headers: self.headers.clone(),
            origin: self.origin.clone(),
            prefix: self.prefix.clone(),
        })
    }

    /// The URI of a path below the way's prefix.
    ///
    /// # Errors
    /// When it is no URI.
    pub fn uri(&self, path: &str) -> Result<Uri> {
        format!("{}{}{path}", self.origin, self.prefix)
            .parse()
            .context(format!("the path {path}"))
    }

    /// Sends a GET and returns its answer once the head, with status 200, is there.
    ///
    /// # Errors
    /// When the connection fails or the status is another.
    pub async fn start(&mut self, uri: &Uri) -> Result<Incoming> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = self.headers.clone();
        let sent = match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await.context("waiting for the connection")?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                sender.ready().await.context("waiting for the connection")?;
                sender.send_request(request).await
            }
        };
        let response = sent.context("sending a request")?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(refused(status, response.into_body()).await),
        }
    }

    /// Sends a GET and reads its answer to the end; returns the size of the body.
    ///
    /// # Errors
    /// When the connection fails, the status is not 200, or the body is cut.
    pub async fn get(&mut self, uri: &Uri) -> Result<usize> {
        let mut body = self.start(uri).await?;
        let mut size = 0;
        while let Some(frame) = body.frame().await {
            size += frame
                .context("reading a body")?
                .data_ref()
                .map_or(0, Bytes::len);
        }
        Ok(size)
    }
}

async fn refused(status: StatusCode, body: Incoming) -> Failure {
    let text = match within("the body of a refusal", SOON, body.collect()).await {
        Ok(Ok(body)) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(late) => late.to_string(),
    };
    Failure::new(format!("{status}: {text}"))
}

fn header(value: &str) -> Result<HeaderValue> {
    value.parse().context("making a header field")
}
