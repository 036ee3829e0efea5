//! HTTP/1.1 byte by byte over TLS.
//!
//! Purpose: requests that break the rules, and answers read as they are on the wire.
//! Invariant: header fields keep their order, number and bytes (as Latin-1); how a body ended is
//! reported, never smoothed over.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{SOON, Target};
use crate::wait::within;
use crate::{Context, Failure, Result};

/// A connection that says what it is told and reads what comes.
#[derive(Debug)]
pub struct RawClient {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The first line.
    pub line: String,
    /// Name and value of each header field, as sent.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// All values of a header field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, v)| v.as_str()).collect()
    }

    /// The first value of a header field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }
}

/// How a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing says.
    Complete,
    /// With the connection, before its framing's end.
    Cut,
    /// With the connection, which was its framing.
    Close,
    /// There is none: HEAD, 1xx, 204, 304.
    None,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Its head.
    pub head: Head,
    /// Its body, chunked framing removed.
    pub body: Vec<u8>,
    /// How the body ended.
    pub end: End,
    /// The trailer fields behind a chunked body.
    pub trailers: Vec<(String, String)>,
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).context(format!("no JSON: {}", self.text()))
    }
}

impl RawClient {
    /// Connects without ALPN, as kubectl does for upgrades.
    ///
    /// # Errors
    /// When there is no TLS connection.
    pub async fn connect(target: &Target) -> Result<Self> {
        Self::connect_with(target, &[]).await
    }

    /// Connects and offers these protocols.
    ///
    /// # Errors
    /// When there is no TLS connection.
    pub async fn connect_with(target: &Target, protocols: &[&[u8]]) -> Result<Self> {
        Ok(Self {
            stream: target.connect(protocols).await?,
            buffer: Vec::new(),
        })
    }

    /// The protocol agreed on by ALPN.
    pub fn protocol(&self) -> Option<Vec<u8>> {
        self.stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// When the peer has closed, or takes nothing for ten seconds.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let sending = async {
            self.stream.write_all(bytes.as_ref()).await?;
            self.stream.flush().await
        };
        within("sending", SOON, sending).await?.context("sending")
    }

    /// Sends a request without a body and reads the answer.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        self.send(request("GET", path, headers, b"")).await?;
        self.response("GET").await
    }

    /// Reads the head of the next answer.
    ///
    /// # Errors
    /// When the connection ends first, or nothing comes for ten seconds.
    pub async fn head(&mut self) -> Result<Head> {
        let head = self.until(b"\r\n\r\n").await?;
        parse_head(&head)
    }

    /// Reads the next answer whole.
    ///
    /// # Errors
    /// When its head does not come, or nothing comes for ten seconds.
    pub async fn response(&mut self, method: &str) -> Result<Response> {
        let head = self.head().await?;
        self.body(head, method).await
    }

    /// Reads the body that belongs to `head`.
    ///
    /// # Errors
    /// When nothing comes for ten seconds.
    pub async fn body(&mut self, head: Head, method: &str) -> Result<Response> {
        let none = method == "HEAD" || head.status < 200 || matches!(head.status, 204 | 304);
        let chunked = head
            .all("transfer-encoding")
            .iter()
            .any(|v| v.eq_ignore_ascii_case("chunked"));
        let length = head
            .get("content-length")
            .and_then(|v| v.parse::<usize>().ok());
        let mut response = Response {
            head,
            body: Vec::new(),
            end: End::None,
            trailers: Vec::new(),
        };
        if none {
            return Ok(response);
        }
        if chunked {
            response.end = self
                .chunks(&mut response.body, &mut response.trailers)
                .await?;
        } else if let Some(length) = length {
            let whole = self.fill(length).await?;
            response.end = if whole { End::Complete } else { End::Cut };
            response.body = self.take(length);
        } else {
            while self.more(SOON).await? {}
            response.end = End::Close;
            response.body = std::mem::take(&mut self.buffer);
        }
        Ok(response)
    }

    /// Reads the next chunk of a chunked body; `None` at its end, trailers dropped.
    ///
    /// # Errors
    /// When the connection ends inside the body, or nothing comes for ten seconds.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let line = self.until(b"\r\n").await?;
        let size = chunk_size(&line)?;
        if size == 0 {
            while self.until(b"\r\n").await? != b"\r\n" {}
            return Ok(None);
        }
        if !self.fill(size + 2).await? {
            return Err(Failure::new("the connection ended inside a chunk"));
        }
        let chunk = self.take(size);
        self.take(2);
        Ok(Some(chunk))
    }

    /// Reads at least one byte and returns all that is there; empty when the peer has closed.
    ///
    /// # Errors
    /// When nothing comes before the deadline.
    pub async fn some(&mut self, deadline: Duration) -> Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.more(deadline).await?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads exactly `length` bytes.
    ///
    /// # Errors
    /// When the connection ends first, or nothing comes for ten seconds.
    pub async fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        if self.fill(length).await? {
            return Ok(self.take(length));
        }
        Err(Failure::new(format!(
            "the connection ended after {} of {length} bytes",
            self.buffer.len()
        )))
    }

    /// Waits for the peer to close and returns what came before.
    ///
    /// # Errors
    /// When it has not closed at the deadline.
    pub async fn closed(&mut self, deadline: Duration) -> Result<Vec<u8>> {
        let reading = async {
            while self.more(deadline).await? {}
            Ok::<_, Failure>(())
        };
        within("the peer's close", deadline, reading).await??;
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Sends TLS close_notify and half-closes; reading goes on.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn close_notify(&mut self) -> Result<()> {
        within("closing", SOON, self.stream.shutdown())
            .await?
            .context("closing")
    }

    /// Closes with a TCP reset, as a crashed client does.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn reset(self) -> Result<()> {
        self.stream
            .get_ref()
            .0
            .set_zero_linger()
            .context("asking for a reset")
    }

    /// The stream, with what has been read and not used.
    pub fn into_parts(self) -> (TlsStream<TcpStream>, Vec<u8>) {
        (self.stream, self.buffer)
    }

    async fn chunks(
        &mut self,
        body: &mut Vec<u8>,
        trailers: &mut Vec<(String, String)>,
    ) -> Result<End> {
        loop {
            let Ok(line) = self.until(b"\r\n").await else {
                return Ok(End::Cut);
            };
            let size = chunk_size(&line)?;
            if size == 0 {
                break;
            }
            let whole = self.fill(size + 2).await?;
            body.extend(self.take(size));
            self.take(2);
            if !whole {
                return Ok(End::Cut);
            }
        }
        loop {
            let Ok(line) = self.until(b"\r\n").await else {
                return Ok(End::Cut);
            };
            if line == b"\r\n" {
                return Ok(End::Complete);
            }
            trailers.extend(field(&latin1(&line)));
        }
    }

    /// Reads up to and with `mark`.
    async fn until(&mut self, mark: &[u8]) -> Result<Vec<u8>> {
        loop {
            if let Some(at) = self.buffer.windows(mark.len()).position(|w| w == mark) {
                return Ok(self.take(at + mark.len()));
            }
            if !self.more(SOON).await? {
                let seen = latin1(&self.buffer);
                return Err(Failure::new(format!(
                    "the connection ended; read so far: {seen:?}"
                )));
            }
        }
    }

    async fn fill(&mut self, length: usize) -> Result<bool> {
        while self.buffer.len() < length {
            if !self.more(SOON).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(length.min(self.buffer.len()));
        std::mem::replace(&mut self.buffer, rest)
    }

    /// False when the peer has closed, cleanly or not.
    async fn more(&mut self, deadline: Duration) -> Result<bool> {
        let read = within(
            "bytes from the peer",
            deadline,
            self.stream.read_buf(&mut self.buffer),
        )
        .await?;
        Ok(matches!(read, Ok(count) if count > 0))
    }
}

/// A request as a well-behaved client writes it: `Host` is added when missing, and
/// `Content-Length` when there is a body.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !has("host") {
        text.push_str("Host: gateway.portcullis.test\r\n");
    }
    if !body.is_empty() && !has("content-length") && !has("transfer-encoding") {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn parse_head(bytes: &[u8]) -> Result<Head> {
    let text = latin1(bytes);
    let mut lines = text.split("\r\n").filter(|l| !l.is_empty());
    let line = lines.next().unwrap_or_default().to_owned();
    let status = line.split(' ').nth(1).and_then(|c| c.parse().ok());
    let status = status.context(format!("no status line: {line:?}"))?;
    Ok(Head {
        status,
        headers: lines.filter_map(field).collect(),
        line,
    })
}

fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_owned(), value.trim().to_owned()))
}

fn chunk_size(line: &[u8]) -> Result<usize> {
    let text = latin1(line);
    let digits = text.split(';').next().unwrap_or_default().trim();
    usize::from_str_radix(digits, 16).context(format!("reading the chunk size {text:?}"))
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
