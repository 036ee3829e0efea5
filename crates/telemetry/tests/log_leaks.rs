//! A token must not reach the log, at the highest level an operator can set.
//!
//! `logs::init` is for a whole process and writes to its standard error, so the test starts itself
//! again as a child, lets that carry a token over real HTTP/1.1 and HTTP/2 connections, and reads
//! what it logged.

#![allow(
    clippy::unwrap_used,
    reason = "a test; clippy knows only those of the usual harness"
)]

use std::process::{Command, ExitCode};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use portcullis_telemetry::logs;

const CANARY: &str = "canary-5f1c7e";
const CHILD: &str = "PORTCULLIS_LOG_LEAKS_CHILD";

fn main() -> ExitCode {
    if let Ok(child) = std::env::var(CHILD) {
        let (format, level) = child.split_once(' ').unwrap();
        return log_a_lot(format, level);
    }
    for child in [
        "text trace",
        "json trace",
        "text trace,hyper=trace,h2=trace,rustls=trace,log=trace",
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .env(CHILD, child)
            .env("RUST_LOG", "trace")
            .output()
            .unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{child}: {log}");
        assert!(
            log.contains("ours at trace"),
            "{child} does not log at trace:\n{log}"
        );
        assert!(
            log.contains("theirs at warn"),
            "{child} does not log the log crate:\n{log}"
        );
        assert!(!log.contains(CANARY), "{child} leaks the token:\n{log}");
        assert!(!log.contains('\u{1b}'), "{child} writes colours to a pipe");
    }
    println!("test result: ok. a token stays out of the log at trace; 3 passed; 0 failed");
    ExitCode::SUCCESS
}

fn log_a_lot(format: &str, level: &str) -> ExitCode {
    logs::init(format.parse().unwrap(), level).unwrap();
    assert!(
        logs::init(logs::Format::Text, "info").is_err(),
        "a second start is refused"
    );
    tracing::trace!(target: "portcullis_gateway", "ours at trace");
    log::warn!(target: "rustls::client", "theirs at warn");
    log::debug!(target: "rustls::client", "Authorization: Bearer {CANARY}");
    tracing::debug!(target: "tower::buffer", token = CANARY, "a request");
    let span = tracing::debug_span!(target: "kube_client::client", "HTTP", token = CANARY);
    span.in_scope(|| tracing::info!(target: "portcullis_index", "in a dependency's span"));
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            exchange_http1().await;
            exchange_http2().await;
        });
    ExitCode::SUCCESS
}

fn request() -> Request<Full<Bytes>> {
    Request::post("http://x/api")
        .header("authorization", format!("Bearer {CANARY}"))
        .body(Full::new(Bytes::from(CANARY)))
        .unwrap()
}

async fn echo(request: Request<Incoming>) -> Result<Response<Incoming>, hyper::Error> {
    let mut response = Response::new(());
    response.headers_mut().clone_from(request.headers());
    Ok(response.map(|()| request.into_body()))
}

async fn exchange_http1() {
    let (client, server) = tokio::io::duplex(4096);
    let server = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(server), service_fn(echo));
    tokio::spawn(server);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
}

async fn exchange_http2() {
    let (client, server) = tokio::io::duplex(4096);
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(server), service_fn(echo));
    tokio::spawn(server);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
    tokio::spawn(connection);
    assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
}
