//! What the upstream answers, by the end of the path.
//!
//! | Path ends in | Answer |
//! |---|---|
//! | `/warn` | two `Warning` and two `Set-Cookie` fields |
//! | `/redir` | 302 to the same upstream's `/secret` |
//! | `/stream` | eight chunks, 50 ms apart |
//! | `/gated` | one chunk for each [`FakeUpstream::release`](super::FakeUpstream::release), for ever |
//! | `/forever` | a chunk every 20 ms until the client leaves |
//! | `/flood` | 400 MiB, as fast as the client reads |
//! | `/hang` | nothing; the request's body is not read either |
//! | `/early` | 413 at once; the request's body is not read |
//! | `/trailer` | a body and the trailer field `x-end: 1` |
//! | `/die` | `Content-Length: 1000`, seven bytes, then the stream breaks |
//! | `/notupgrade` | 403 in two chunks, whatever upgrade was asked for |
//! | `/upgrade` | 101 to the protocol asked for, then an echo |
//! | `/upgrade-early` | as `/upgrade`, with bytes right behind the 101 |
//! | `/unmodified` | 304 with an `ETag`, no `Content-Type`, no body |
//! | `/status/NNN` | that status, `Retry-After: 7` and a Status body |
//! | `/gzip` | a body with `Content-Encoding: gzip` (not really compressed) |
//! | anything else | the request as JSON, its body read to the end |

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, UPGRADE};
use http::response::Builder;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::record::{BodyEnd, Entry, Record, ReplyEnd, Seen};

type Pieces = BoxStream<'static, io::Result<Frame<Bytes>>>;

/// Records the request, reads its body where the answer allows, and answers.
pub(super) async fn answer(
    record: Arc<Record>,
    connection: usize,
    hang: bool,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Infallible> {
    let (head, body) = request.into_parts();
    let entry = record.enter(connection, &head);
    let path = head.uri.path().to_owned();
    let last = path.rsplit('/').next().unwrap_or_default().to_owned();
    if hang || last == "hang" {
        // Keeps the body, unread, as a stuck server does.
        let _body = body;
        return std::future::pending().await;
    }
    if last == "early" {
        drop(body);
        let reply = Response::builder().status(StatusCode::PAYLOAD_TOO_LARGE);
        return Ok(finish(reply, text("too large"), entry));
    }
    if last == "upgrade" || last == "upgrade-early" {
        return Ok(upgrade(
            Request::from_parts(head, body),
            last == "upgrade-early",
            entry,
        ));
    }
    read_body(body, &entry).await;
    let (reply, pieces) = match last.as_str() {
        "gated" => (Response::builder(), gated(record)),
        _ => by_name(&last, &path, &entry.snapshot()),
    };
    Ok(finish(reply, pieces, entry))
}

fn by_name(last: &str, path: &str, seen: &Seen) -> (Builder, Pieces) {
    let ok = || Response::builder().header(CONTENT_TYPE, "application/json");
    match last {
        "warn" => {
            let reply = ok()
                .header("warning", "299 - \"first\"")
                .header("warning", "299 - \"second\"")
                .header("set-cookie", "a=1")
                .header("set-cookie", "b=2");
            (
                reply,
                text(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
            )
        }
        "redir" => {
            let target = format!("https://{}/secret", seen.host);
            let reply = Response::builder()
                .status(StatusCode::FOUND)
                .header(LOCATION, target);
            (reply, text("elsewhere"))
        }
        "stream" => (ok(), paced(Duration::from_millis(50)).take(8).boxed()),
        "forever" => (ok(), paced(Duration::from_millis(20))),
        "flood" => (ok(), flood()),
        "trailer" => (ok(), with_trailer()),
        "die" => (ok().header(CONTENT_LENGTH, "1000"), broken()),
        "gzip" => (
            ok().header("content-encoding", "gzip"),
            text("\u{1f}not really"),
        ),
        "notupgrade" => {
            let chunks = [r#"{"kind":"Status","#, r#""code":403}"#];
            let pieces = stream::iter(chunks)
                .map(|c| Ok(Frame::data(Bytes::from(c))))
                .boxed();
            (ok().status(StatusCode::FORBIDDEN), pieces)
        }
        "unmodified" => {
            let reply = Response::builder().status(StatusCode::NOT_MODIFIED);
            (reply.header("etag", "\"v1\""), stream::empty().boxed())
        }
        code if path.ends_with(&format!("/status/{code}")) => {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": format!("scripted {code}"), "code": code.parse::<u16>().ok()});
            (
                ok().status(code).header("retry-after", "7"),
                text(&body.to_string()),
            )
        }
        _ => (ok(), text(&described(seen).to_string())),
    }
}

fn finish(reply: Builder, pieces: Pieces, entry: Entry) -> Response<Reply> {
    let watched = entry.clone();
    let built = reply.body(Reply {
        pieces,
        entry,
        ended: false,
    });
    built.unwrap_or_else(|_| {
        // Only `/status/NNN` can ask for a head that does not exist.
        let mut refused = Response::new(Reply::new(text("no such status code"), watched));
        *refused.status_mut() = StatusCode::BAD_REQUEST;
        refused
    })
}

async fn read_body(mut body: Incoming, entry: &Entry) {
    loop {
        match body.frame().await {
            None => return entry.body_ended(BodyEnd::Complete),
            Some(Ok(frame)) => {
                if let Some(piece) = frame.data_ref() {
                    entry.body_piece(piece);
                }
            }
            Some(Err(error)) => return entry.body_ended(BodyEnd::Broken(error.to_string())),
        }
    }
}

fn upgrade(mut request: Request<Incoming>, early: bool, entry: Entry) -> Response<Reply> {
    let Some(protocol) = request.headers().get(UPGRADE).cloned() else {
        let reply = Response::builder().status(StatusCode::UPGRADE_REQUIRED);
        return finish(reply, text("no upgrade asked for"), entry);
    };
    if request.version() == Version::HTTP_2 {
        let reply = Response::builder().status(StatusCode::BAD_REQUEST);
        return finish(reply, text("no upgrade in HTTP/2"), entry);
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let watched = entry.clone();
    tokio::spawn(async move {
        if let Ok(upgraded) = upgraded.await {
            let ended = echo(TokioIo::new(upgraded), early, &watched).await;
            watched.body_ended(match ended {
                Ok(()) => BodyEnd::Complete,
                Err(error) => BodyEnd::Broken(error.to_string()),
            });
        }
    });
    let reply = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, protocol);
    finish(reply, stream::empty().boxed(), entry)
}

async fn echo(
    mut tunnel: TokioIo<hyper::upgrade::Upgraded>,
    early: bool,
    entry: &Entry,
) -> io::Result<()> {
    if early {
        tunnel.write_all(b"early bytes").await?;
    }
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = tunnel.read(&mut buffer).await?;
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.is_empty() {
            return tunnel.shutdown().await;
        }
        entry.body_piece(&Bytes::copy_from_slice(piece));
        tunnel.write_all(piece).await?;
    }
}

fn described(seen: &Seen) -> serde_json::Value {
    let fields = seen.headers.iter();
    let headers: Vec<_> = fields
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
        .collect();
    json!({
        "method": seen.method.as_str(),
        "uri": seen.uri,
        "host": seen.host,
        "version": format!("{:?}", seen.version),
        "headers": headers,
        "bodyLength": seen.body_length,
        "body": String::from_utf8_lossy(&seen.body),
    })
}

fn text(content: &str) -> Pieces {
    stream::iter([Ok(Frame::data(Bytes::copy_from_slice(content.as_bytes())))]).boxed()
}

fn paced(period: Duration) -> Pieces {
    let ticks = tokio::time::interval(period);
    numbered(stream::unfold(ticks, |mut ticks| async move {
        ticks.tick().await;
        Some(((), ticks))
    }))
}

fn gated(record: Arc<Record>) -> Pieces {
    numbered(stream::unfold(record, |record| async move {
        record.gate().acquire().await.ok()?.forget();
        Some(((), record))
    }))
}

fn numbered(ticks: impl futures_util::Stream<Item = ()> + Send + 'static) -> Pieces {
    let lines = ticks.enumerate().map(|(n, ())| format!("{{\"n\":{n}}}\n"));
    lines.map(|line| Ok(Frame::data(Bytes::from(line)))).boxed()
}

fn flood() -> Pieces {
    let mebibyte = Bytes::from(vec![b'x'; 1 << 20]);
    stream::repeat(mebibyte)
        .take(400)
        .map(|b| Ok(Frame::data(b)))
        .boxed()
}

fn with_trailer() -> Pieces {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", HeaderValue::from_static("1"));
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"body\n"))),
        Ok(Frame::trailers(trailers)),
    ];
    stream::iter(frames).boxed()
}

/// Seven bytes, a moment for them to be sent, and an error.
fn broken() -> Pieces {
    let first = stream::iter([Ok(Frame::data(Bytes::from_static(b"partial")))]);
    let error = || io::Error::other("scripted: dies in mid-body");
    let second = stream::once(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(error())
    });
    first.chain(second).boxed()
}

/// A reply body that notes how far it got and how it ended.
pub(super) struct Reply {
    pieces: Pieces,
    entry: Entry,
    ended: bool,
}

impl Reply {
    fn new(pieces: Pieces, entry: Entry) -> Self {
        Self {
            pieces,
            entry,
            ended: false,
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = self.pieces.as_mut().poll_next(cx);
        match &polled {
            Poll::Ready(None) => {
                self.ended = true;
                self.entry.reply_ended(ReplyEnd::Complete);
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.entry
                    .reply_piece(frame.data_ref().map_or(0, Bytes::len));
            }
            _ => {}
        }
        polled
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.ended {
            self.entry.reply_ended(ReplyEnd::Dropped);
        }
    }
}
