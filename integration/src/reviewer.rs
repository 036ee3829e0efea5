//! An upstream that answers reviews as a script says, and remembers every question.
//!
//! Purpose: show what the gateway makes of each thing an API server may say about a caller, and
//! prove what it forwarded afterwards.
//! Invariant: a request is remembered before it is answered; everything that the script leaves
//! open is answered 200 with `{"forwarded": true}`.
//! Upstream counterpart: `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::pki::{self, Authority};
use crate::{Context, Result};

/// A request as the upstream read it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Asked {
    /// Whether it is a POST of this kind of review (`tokenreviews`, `subjectaccessreviews`, ...).
    pub fn reviews(&self, resource: &str) -> bool {
        self.method == Method::POST && self.uri.ends_with(&format!("/v1/{resource}"))
    }

    /// Whether it is a review at all, and not a request that the gateway forwarded.
    pub fn is_review(&self) -> bool {
        self.uri.starts_with("/apis/auth") && self.uri.ends_with("reviews")
    }

    /// All values of a header field, as text.
    pub fn all(&self, name: &str) -> Vec<String> {
        let values = self.headers.get_all(name).iter();
        values
            .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
            .collect()
    }

    /// The `spec` of the review in its body.
    pub fn spec(&self) -> Value {
        let review = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        review.get("spec").cloned().unwrap_or_default()
    }
}

/// An answer: status code, further header fields, body.
#[derive(Debug, Clone)]
pub struct Answer {
    code: u16,
    fields: Vec<(HeaderName, String)>,
    body: Bytes,
}

impl Answer {
    /// JSON with a status code.
    pub fn json(code: u16, body: &Value) -> Self {
        Self::bytes(code, body.to_string())
    }

    /// Any bytes, called JSON.
    pub fn bytes(code: u16, body: impl Into<Bytes>) -> Self {
        Self {
            code,
            fields: Vec::new(),
            body: body.into(),
        }
    }

    /// With one header field more.
    #[must_use]
    pub fn field(mut self, name: HeaderName, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// A TokenReview with this status.
    pub fn token_review(status: &Value) -> Self {
        Self::review("authentication.k8s.io/v1", "TokenReview", status)
    }

    /// A SelfSubjectReview of this user.
    pub fn self_subject_review(user: &Value) -> Self {
        let status = json!({"userInfo": user});
        Self::review("authentication.k8s.io/v1", "SelfSubjectReview", &status)
    }

    /// A SubjectAccessReview with this verdict.
    pub fn access(allowed: bool) -> Self {
        let status = json!({"allowed": allowed});
        Self::review("authorization.k8s.io/v1", "SubjectAccessReview", &status)
    }

    fn review(version: &str, kind: &str, status: &Value) -> Self {
        Self::json(
            201,
            &json!({"apiVersion": version, "kind": kind, "status": status}),
        )
    }

    /// No answer: the stream is reset (HTTP/1.1: the connection closes).
    pub fn abort() -> Self {
        Self::bytes(0, "")
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() =
            StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        for (name, value) in self.fields {
            if let Ok(value) = http::HeaderValue::from_str(&value) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}

type Script = dyn Fn(&Asked) -> Option<Answer> + Send + Sync;

/// A running one; it ends when dropped.
#[derive(Debug)]
pub struct Reviewer {
    address: SocketAddr,
    ca_pem: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

impl Reviewer {
    /// Starts one on the current tokio runtime; `script` answers what it wants to answer.
    ///
    /// # Errors
    /// When it cannot listen or make certificates.
    pub async fn start(
        script: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
    ) -> Result<Self> {
        let authority = Authority::new("reviewer-ca")?;
        let tls = pki::server_config(&authority.serving(&[])?, &[b"h2", b"http/1.1"])?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listening")?;
        let address = listener
            .local_addr()
            .context("reading the address listened on")?;
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (record, script): (_, Arc<Script>) = (Arc::clone(&asked), Arc::new(script));
        let accepting = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let acceptor = TlsAcceptor::from(Arc::clone(&tls));
                tokio::spawn(serve(
                    acceptor,
                    tcp,
                    Arc::clone(&record),
                    Arc::clone(&script),
                ));
            }
        });
        Ok(Self {
            address,
            ca_pem: authority.pem(),
            asked,
            accepting,
        })
    }

    /// Its address, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The authority behind its certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Everything asked so far, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The requests that are no reviews: those that the gateway let through.
    pub fn forwarded(&self) -> Vec<Asked> {
        self.asked()
            .into_iter()
            .filter(|a| !a.is_review())
            .collect()
    }

    /// How many reviews of a kind were asked.
    pub fn count(&self, resource: &str) -> usize {
        self.asked().iter().filter(|a| a.reviews(resource)).count()
    }
}

impl Drop for Reviewer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    record: Arc<Mutex<Vec<Asked>>>,
    script: Arc<Script>,
) {
    let Ok(tls) = acceptor.accept(tcp).await else {
        return;
    };
    let service = service_fn(move |request| {
        let (record, script) = (Arc::clone(&record), Arc::clone(&script));
        async move { answer(request, &record, script.as_ref()).await }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    // How a connection ends is the gateway's business.
    let _ = builder.serve_connection(TokioIo::new(tls), service).await;
}

async fn answer(
    request: Request<Incoming>,
    record: &Mutex<Vec<Asked>>,
    script: &Script,
) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let uri = head
        .uri
        .path_and_query()
        .map(ToString::to_string)
        .unwrap_or_default();
    let asked = Asked {
        method: head.method,
        uri,
        headers: head.headers,
        body,
    };
    record
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(asked.clone());
    let open = || Answer::json(200, &json!({"forwarded": true}));
    let answer = script(&asked).unwrap_or_else(open);
    match answer.code {
        0 => Err(io::Error::other("scripted: no answer")),
        _ => Ok(answer.into_response()),
    }
}
