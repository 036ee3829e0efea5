//! Secrets that would be of use to whoever reads logs, metrics or traces.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use integration::client::raw::request;
use integration::client::{RawClient, SOON};
use integration::fakeup::{self, Fault};
use integration::reviewer::{Answer, Asked};
use integration::wait::until;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::site::{ReviewedSite, Site};

const CLIENT_TOKEN: &str = "canary-of-the-client";
const BAD_TOKEN: &str = "canary-of-a-refused-client";
const ECHOED: &str = "canary-in-a-broken-review";
const GATEWAY_TOKEN: &str = "canary-of-the-gateway";
const BODY: &str = "canary-in-a-body";
const SECRET: &str = "canary-in-a-secret";

fn canaries() -> [&'static str; 6] {
    [CLIENT_TOKEN, BAD_TOKEN, ECHOED, GATEWAY_TOKEN, BODY, SECRET]
}

fn assert_silent(place: &str, text: &str) {
    use std::fmt::Write as _;
    for canary in canaries() {
        let hex = canary.bytes().fold(String::new(), |mut out, b| {
            let _ = write!(out, "{b:02x}");
            out
        });
        let octets = format!("{:?}", canary.as_bytes());
        for form in [canary, &hex, octets.trim_matches(['[', ']'])] {
            assert!(
                !text.contains(form),
                "{canary} in {place} as {form:?}: {}",
                around(text, form)
            );
        }
    }
}

fn around(text: &str, found: &str) -> String {
    text.lines()
        .find(|l| l.contains(found))
        .unwrap_or_default()
        .to_owned()
}

/// Knows the client's token; quotes a token in a review that cannot be read; keeps a Secret.
fn indiscreet(asked: &Asked) -> Option<Answer> {
    let text = String::from_utf8_lossy(&asked.body).into_owned();
    let token = format!("{text}{}", asked.all("authorization").concat());
    if asked.reviews("tokenreviews") || asked.reviews("selfsubjectreviews") {
        let user = json!({"username": "alice", "groups": ["developers"]});
        return Some(match () {
            () if token.contains(ECHOED) => Answer::bytes(
                201,
                format!(
                    r#"{{"kind":"TokenReview","apiVersion":"{ECHOED}","status":{{"authenticated":"{ECHOED}"}}}}"#
                ),
            ),
            () if !token.contains(CLIENT_TOKEN) => Answer::token_review(
                &json!({"authenticated": false, "error": format!("{BAD_TOKEN} is unknown")}),
            ),
            () if asked.reviews("tokenreviews") => {
                Answer::token_review(&json!({"authenticated": true, "user": user}))
            }
            () => Answer::self_subject_review(&user),
        });
    }
    if asked.reviews("subjectaccessreviews") {
        return Some(Answer::access(false));
    }
    asked
        .uri
        .contains("/secrets")
        .then(|| Answer::json(200, &json!({"kind": "Secret", "data": {"k": SECRET}})))
}

/// Everything a caller may do, well or badly.
async fn exercise(site: &ReviewedSite) {
    let h2 = site.h2().await;
    let secrets = site.path("/api/v1/namespaces/n/secrets/s");
    for token in [CLIENT_TOKEN, CLIENT_TOKEN, BAD_TOKEN, ECHOED] {
        let authorization = format!("Bearer {token}");
        let auth = ("authorization", authorization.as_str());
        h2.get(&secrets, token).await.unwrap();
        h2.call(Method::POST, &secrets, &[auth], BODY)
            .await
            .unwrap();
        h2.call(Method::PUT, &site.path("/../x"), &[auth], BODY)
            .await
            .unwrap();
        h2.call(
            Method::GET,
            &secrets,
            &[auth, ("impersonate-user", "bob")],
            "",
        )
        .await
        .unwrap();
        h2.call(
            Method::GET,
            &secrets,
            &[auth, ("impersonate-group", "g")],
            "",
        )
        .await
        .unwrap();
        let mut raw = RawClient::connect(&site.target).await.unwrap();
        raw.send(request(
            "POST",
            &secrets,
            &[auth, ("Content-Length", "9999")],
            BODY.as_bytes(),
        ))
        .await
        .unwrap();
        raw.reset().unwrap();
        // Malformed, so that a parser may want to quote it.
        let mut raw = RawClient::connect(&site.target).await.unwrap();
        raw.send(format!(
            "GET {secrets} HTTP/1.1\r\nHost: g\r\nAuthorization : {authorization}\r\n\r\n"
        ))
        .await
        .unwrap();
        let _ = raw.closed(SOON).await;
        let protocol =
            "base64url.bearer.authorization.k8s.io.Y2FuYXJ5LW9mLXRoZS1jbGllbnQ, v5.channel.k8s.io";
        let upgrade = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Protocol", protocol),
        ];
        site.get("/api/v1/namespaces/n/pods/p/exec", &upgrade).await;
    }
    let two = [
        ("Authorization", "Basic Y2FuYXJ5"),
        ("Authorization", "Bearer canary-of-the-client"),
    ];
    site.get("/api", &two).await;
}

#[tokio::test]
async fn no_secret_reaches_logs_metrics_or_traces() {
    let collector = Collector::start().await;
    for format in ["text", "json"] {
        let endpoint = format!("http://{}", collector.address);
        let settings = json!({
            "logging": {"level": "trace", "format": format},
            "tracing": {"endpoint": endpoint, "samplingRatio": 1.0},
        });
        let review = |scratch: &integration::scratch::Scratch| {
            let token = scratch.write("token", GATEWAY_TOKEN).unwrap();
            json!({
                "upstream_mode": "Impersonate",
                "gateway_credential": {"TokenFile": {"path": token}},
                "auth_config": {"review": "TokenReview"},
            })
        };
        let with = settings.clone();
        for site in [
            ReviewedSite::made(indiscreet, |g| g.with(settings), |_| json!({})).await,
            ReviewedSite::made(indiscreet, |g| g.with(with), review).await,
        ] {
            exercise(&site).await;
            assert!(
                !site.upstream.forwarded().is_empty(),
                "something was let through"
            );
            let spans = collector.received();
            until("spans", Duration::from_secs(15), || {
                collector.received() > spans
            })
            .await
            .unwrap();
            let (_, metrics) = site.gateway.admin("/metrics").await.unwrap();
            let (_, ready) = site.gateway.admin("/readyz?verbose").await.unwrap();
            let log = site.gateway.process().log_text();
            assert!(log.lines().count() > 3, "the log says something: {log}");
            for (place, text) in [("metrics", &metrics), ("readyz", &ready), ("log", &log)] {
                assert_silent(place, text);
            }
            assert_silent("traces", &collector.text());
            // The last lines come while it ends.
            let path = site.gateway.process().log().to_owned();
            let kept = std::fs::File::open(path).unwrap();
            site.gateway.stop(SOON).await.unwrap();
            assert_silent("log", &std::io::read_to_string(kept).unwrap());
        }
    }
}

/// As above where the upstream breaks in the middle of it.
#[tokio::test]
async fn no_secret_reaches_the_log_when_the_upstream_breaks() {
    let site = Site::made(
        fakeup::Options::new().http1_only(),
        |g| g.log_level("trace"),
        |c| c,
    )
    .await;
    let answers = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{SECRET}"),
        format!("HTTP/1.1 200 {SECRET}\r\n{SECRET}\r\n\r\n"),
        format!("{SECRET} {CLIENT_TOKEN}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}"),
        format!("HTTP/1.1 101 {SECRET}\r\nUpgrade: {SECRET}\r\n\r\n{SECRET}"),
        format!("HTTP/1.1 401 no\r\nWWW-Authenticate: {SECRET}\r\nContent-Length: 0\r\n\r\n"),
    ];
    let faults = answers.map(|a| Fault::Answer(a.into_bytes()));
    for fault in faults.into_iter().chain([
        Fault::Down,
        Fault::CloseAfterRequest,
        Fault::UnknownAuthority,
    ]) {
        site.upstream.set_fault(fault).await.unwrap();
        for headers in [
            vec![],
            vec![("Connection", "Upgrade"), ("Upgrade", "websocket")],
        ] {
            let authorization = format!("Bearer {CLIENT_TOKEN}");
            let mut headers = headers;
            headers.push(("Authorization", authorization.as_str()));
            let mut client = site.raw().await;
            let path = site.path("/api/v1/namespaces/n/pods/p/exec");
            // An answer that breaks at once may leave the client without a head.
            let _ = client.get(&path, &headers).await;
            let mut client = site.raw().await;
            headers.retain(|(name, _)| *name == "Authorization");
            client
                .send(request("POST", &site.path("/x"), &headers, BODY.as_bytes()))
                .await
                .unwrap();
            let _ = client.response("POST").await;
        }
    }
    assert!(!site.upstream.seen().is_empty());
    let log = site.gateway.process().log_text();
    assert!(log.lines().count() > 3, "the log says something: {log}");
    assert_silent("log", &log);
}

/// Takes what an OTLP exporter posts.
struct Collector {
    address: std::net::SocketAddr,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let all = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                let all = Arc::clone(&all);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = tcp.read(&mut buffer).await {
                        all.lock().unwrap().extend(&buffer[..count]);
                        let _ = tcp
                            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                            .await;
                    }
                });
            }
        });
        Self { address, bytes }
    }

    fn received(&self) -> usize {
        self.bytes.lock().unwrap().len()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}
