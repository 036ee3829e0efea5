use std::time::Duration;

use http::{Method, Version};

use super::*;
use crate::client::raw::{End, request};
use crate::client::{H2Client, RawClient, SOON, Target};
use crate::scratch::Scratch;
use crate::wait::{throughout, until};

struct Bench {
    upstream: FakeUpstream,
    target: Target,
    _scratch: Scratch,
}

async fn bench(options: Options) -> Bench {
    let upstream = options.start().await.unwrap();
    let scratch = Scratch::new("fakeup").unwrap();
    let ca = scratch.write("ca.crt", upstream.ca_pem()).unwrap();
    let target = Target::new(upstream.address(), ca);
    Bench {
        upstream,
        target,
        _scratch: scratch,
    }
}

#[tokio::test]
async fn repeated_fields_are_sent_one_by_one_and_requests_recorded() {
    let bench = bench(Options::new()).await;
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    let reply = client
        .get("/pfx/a/warn?x=1", &[("X-One", "1"), ("x-one", "2")])
        .await
        .unwrap();
    assert_eq!(
        reply.head.all("warning"),
        ["299 - \"first\"", "299 - \"second\""]
    );
    assert_eq!(reply.head.all("set-cookie"), ["a=1", "b=2"]);
    let seen = bench.upstream.last().unwrap();
    assert_eq!(
        (seen.uri.as_str(), seen.version),
        ("/pfx/a/warn?x=1", Version::HTTP_11)
    );
    assert_eq!(seen.headers.get_all("x-one").iter().count(), 2);
    assert_eq!(seen.body_end, BodyEnd::Complete);
    assert_eq!(
        (
            bench.upstream.tcp_connections(),
            bench.upstream.tls_connections()
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn a_cut_upload_is_told_from_a_whole_one() {
    let bench = bench(Options::new()).await;
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    let body = b"0123456789";
    client
        .send(request("POST", "/echo", &[], body))
        .await
        .unwrap();
    let echoed = client.response("POST").await.unwrap().json().unwrap();
    assert_eq!(
        (&echoed["bodyLength"], &echoed["body"]),
        (&10.into(), &"0123456789".into())
    );
    let partial = request("POST", "/echo", &[("Content-Length", "1000")], body);
    client.send(partial).await.unwrap();
    let arrived = || bench.upstream.last().is_ok_and(|s| s.body_length == 10);
    until("ten bytes upstream", SOON, arrived).await.unwrap();
    client.reset().unwrap();
    let broken = || {
        matches!(
            bench.upstream.last().map(|s| s.body_end),
            Ok(BodyEnd::Broken(_))
        )
    };
    until("a broken body", SOON, broken).await.unwrap();
}

#[tokio::test]
async fn a_reply_that_dies_is_seen_as_cut() {
    let bench = bench(Options::new()).await;
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    let reply = client.get("/die", &[]).await.unwrap();
    assert_eq!((reply.text().as_str(), reply.end), ("partial", End::Cut));
    let client = H2Client::connect(&bench.target).await.unwrap();
    assert!(client.get("/die", "t").await.is_err());
    assert_eq!(bench.upstream.last().unwrap().version, Version::HTTP_2);
}

#[tokio::test]
async fn trailers_and_bodiless_answers_arrive_as_such() {
    let bench = bench(Options::new()).await;
    let client = H2Client::connect(&bench.target).await.unwrap();
    let reply = client.get("/trailer", "t").await.unwrap();
    assert_eq!(reply.trailers.unwrap()["x-end"], "1");
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    let reply = client.get("/trailer", &[("TE", "trailers")]).await.unwrap();
    assert_eq!(
        (reply.text().as_str(), reply.end),
        ("body\n", End::Complete)
    );
    let reply = client.get("/unmodified", &[]).await.unwrap();
    assert_eq!((reply.status(), reply.end), (304, End::None));
    assert_eq!(reply.head.get("content-type"), None);
    let reply = client.get("/status/503", &[]).await.unwrap();
    assert_eq!(
        (reply.status(), reply.head.get("retry-after")),
        (503, Some("7"))
    );
}

#[tokio::test]
async fn gated_chunks_come_one_for_each_release() {
    let bench = bench(Options::new()).await;
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    client
        .send(request("GET", "/gated", &[], b""))
        .await
        .unwrap();
    client.head().await.unwrap();
    for n in 0..3 {
        bench.upstream.release();
        assert_eq!(
            client.chunk().await.unwrap().unwrap(),
            format!("{{\"n\":{n}}}\n").into_bytes()
        );
    }
    assert_eq!(bench.upstream.last().unwrap().reply_end, ReplyEnd::Open);
    drop(client);
    let dropped = || {
        bench
            .upstream
            .last()
            .is_ok_and(|s| s.reply_end == ReplyEnd::Dropped)
    };
    until("the reply to be dropped", SOON, dropped)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_upgrade_is_a_tunnel_with_early_bytes() {
    let bench = bench(Options::new()).await;
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    let asked = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")];
    client
        .send(request("POST", "/upgrade-early", &asked, b""))
        .await
        .unwrap();
    let head = client.head().await.unwrap();
    assert_eq!((head.status, head.get("upgrade")), (101, Some("SPDY/3.1")));
    assert_eq!(client.exactly(11).await.unwrap(), b"early bytes");
    client.send(b"ping").await.unwrap();
    assert_eq!(client.exactly(4).await.unwrap(), b"ping");
}

#[tokio::test]
async fn requests_that_hang_keep_hanging_and_others_go_on() {
    let bench = bench(Options::new()).await;
    let client = H2Client::connect(&bench.target).await.unwrap();
    let hanging = tokio::spawn({
        let client = client.clone();
        async move { client.get("/hang", "t").await }
    });
    until("the request", SOON, || bench.upstream.seen().len() == 1)
        .await
        .unwrap();
    assert_eq!(client.get("/echo", "t").await.unwrap().status, 200);
    let still = || !hanging.is_finished();
    throughout("hanging", Duration::from_millis(50), still)
        .await
        .unwrap();
    hanging.abort();
}

#[tokio::test]
async fn faults_below_http_come_and_go_on_the_same_port() {
    let bench = bench(Options::new()).await;
    let echo = async || {
        RawClient::connect(&bench.target)
            .await?
            .get("/echo", &[])
            .await
    };
    assert_eq!(echo().await.unwrap().status(), 200);
    for fault in [
        Fault::Down,
        Fault::WrongName,
        Fault::UnknownAuthority,
        Fault::CloseAfterRequest,
    ] {
        bench.upstream.set_fault(fault.clone()).await.unwrap();
        until("old connections to go", SOON, || {
            bench.upstream.open_connections() == 0
        })
        .await
        .unwrap();
        assert!(echo().await.is_err(), "{fault:?}");
    }
    // The one whose request was read and not answered.
    assert_eq!(bench.upstream.seen().len(), 2);
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab".to_vec();
    bench
        .upstream
        .set_fault(Fault::Answer(answer))
        .await
        .unwrap();
    let reply = echo().await.unwrap();
    assert_eq!((reply.text().as_str(), reply.end), ("ab", End::Cut));
    bench.upstream.set_fault(Fault::None).await.unwrap();
    assert_eq!(echo().await.unwrap().status(), 200);
}

#[tokio::test]
async fn draining_says_goaway_and_cutting_cuts() {
    let bench = bench(Options::new()).await;
    let client = H2Client::connect(&bench.target).await.unwrap();
    client.get("/echo", "t").await.unwrap();
    bench.upstream.drain();
    until("the drained connection to close", SOON, || {
        client.is_closed()
    })
    .await
    .unwrap();
    let mut client = RawClient::connect(&bench.target).await.unwrap();
    client
        .send(request("GET", "/forever", &[], b""))
        .await
        .unwrap();
    client.head().await.unwrap();
    bench.upstream.cut();
    let reply = client.closed(SOON).await.unwrap();
    assert!(
        !reply.ends_with(b"0\r\n\r\n"),
        "a cut stream must not look finished"
    );
}

#[tokio::test]
async fn a_request_body_nobody_reads_is_not_recorded_as_read() {
    let bench = bench(Options::new()).await;
    let client = H2Client::connect(&bench.target).await.unwrap();
    let reply = client
        .call(Method::POST, "/early", &[], "x".repeat(1000))
        .await
        .unwrap();
    assert_eq!(
        (reply.status.as_u16(), reply.text().as_str()),
        (413, "too large")
    );
    let seen = bench.upstream.last().unwrap();
    assert_eq!((seen.body_length, seen.body_end), (0, BodyEnd::Open));
}
