//! Bodies as they pass through: never collected, with what must happen at their end attached.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio_util::sync::WaitForCancellationFutureOwned;

/// The error of a body that was cut short. It breaks the stream it is passed on to, so that a
/// truncated message never looks complete on the other side.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A request or response body on its way through the gateway.
pub struct Body {
    kind: Kind,
    /// Dropped when the body ends, is cut or is dropped: permits, stream counters, connections.
    guards: Vec<Box<dyn Send>>,
    /// Ends the body cleanly when the gateway drains; set on watches only.
    until: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

enum Kind {
    Empty,
    Full(Bytes),
    Incoming(Incoming),
}

impl Body {
    /// No body.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            kind: Kind::Empty,
            guards: Vec::new(),
            until: None,
        }
    }

    /// A body that is known whole.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self {
            kind: Kind::Full(bytes.into()),
            guards: Vec::new(),
            until: None,
        }
    }

    /// A body that arrives from the network.
    #[must_use]
    pub const fn incoming(incoming: Incoming) -> Self {
        Self {
            kind: Kind::Incoming(incoming),
            guards: Vec::new(),
            until: None,
        }
    }

    /// Keeps `guard` alive until the body has ended.
    pub fn hold(&mut self, guard: impl Send + 'static) {
        self.guards.push(Box::new(guard));
    }

    /// Ends the body cleanly, between two frames, once `signal` fires.
    pub fn end_at(&mut self, signal: WaitForCancellationFutureOwned) {
        self.until = Some(Box::pin(signal));
    }

    fn finish(&mut self) {
        self.kind = Kind::Empty;
        self.until = None;
        self.guards.clear();
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match &mut self.kind {
            Kind::Empty => None,
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.finish();
                return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
            }
            Kind::Incoming(incoming) => match Pin::new(incoming).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => match self.until.as_mut().map(|u| u.as_mut().poll(cx)) {
                    Some(Poll::Ready(())) => None,
                    _ => return Poll::Pending,
                },
            },
        };
        if !matches!(frame, Some(Ok(_))) {
            self.finish();
        }
        Poll::Ready(frame.map(|f| f.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Incoming(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Incoming(incoming) => incoming.size_hint(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;

    use super::Body;

    #[tokio::test]
    async fn guards_are_released_when_the_body_ends() {
        let guard = Arc::new(());
        let mut body = Body::full("x");
        body.hold(Arc::clone(&guard));
        assert_eq!(Arc::strong_count(&guard), 2);
        let _ = body.frame().await.unwrap().unwrap();
        assert_eq!(
            Arc::strong_count(&guard),
            1,
            "released at the last frame, not at the drop"
        );
    }
}
