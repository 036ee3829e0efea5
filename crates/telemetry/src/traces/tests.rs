use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span as Exported;
use prost::Message as _;
use rstest::rstest;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const LIMIT: Duration = Duration::from_secs(20);

/// A collector that answers `code` and hands out what it was sent.
async fn collector(code: u16) -> (String, mpsc::UnboundedReceiver<(http::Uri, Bytes)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    let uri = request.uri().clone();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    sender.send((uri, body)).unwrap();
                    let answer = hyper::Response::builder().status(code);
                    Ok::<_, Infallible>(answer.body(Full::new(Bytes::new())).unwrap())
                }
            });
            let stream = TokioIo::new(stream);
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(stream, service),
            );
        }
    });
    (endpoint, receiver)
}

fn options(endpoint: &str, sampling_ratio: f64) -> TraceOptions<'_> {
    TraceOptions {
        endpoint,
        sampling_ratio,
        version: "1.2.3",
    }
}

fn spans(body: Bytes) -> Vec<Exported> {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let scopes = request
        .resource_spans
        .into_iter()
        .flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

fn attribute(span: &Exported, key: &str) -> Option<Value> {
    let found = span
        .attributes
        .iter()
        .find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}

fn parent(headers: &str) -> Option<TraceContext> {
    let mut map = http::HeaderMap::new();
    map.insert(TRACEPARENT, headers.parse().unwrap());
    TraceContext::from_headers(&map)
}

fn counted(metrics: &Metrics, result: &str) -> u64 {
    let line = format!("portcullis_trace_spans_total{{result=\"{result}\"}} ");
    let page = metrics.encode(false);
    page.lines()
        .find_map(|l| l.strip_prefix(&line))
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_request_arrives_at_the_collector_in_its_callers_trace() {
    let (endpoint, mut received) = collector(200).await;
    let metrics = Metrics::new("1");
    let tracer = Tracer::start_exporting(&options(&endpoint, 0.0), &metrics).unwrap();
    let mut span = tracer.start(parent(PARENT)).unwrap();
    span.set_cluster("team/a");
    span.set_request("list", "apps/deployments");
    span.stage(Stage::Authenticate, Duration::from_micros(1500));
    span.stage(Stage::Authenticate, Duration::from_micros(1700));
    let context = span.context();
    span.finish(503, Some(Blame::Upstream));
    tracer.flush(LIMIT).await;

    let (uri, body) = received.recv().await.unwrap();
    assert_eq!(uri.path(), "/v1/traces");
    let [span] = spans(body).try_into().unwrap();
    assert_eq!(span.name, "list apps/deployments");
    assert_eq!(span.trace_id, context.trace_id());
    assert_eq!(span.span_id, context.span_id());
    assert_eq!(span.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    let text = |text: &str| Some(Value::StringValue(text.into()));
    assert_eq!(attribute(&span, "portcullis.cluster"), text("team/a"));
    assert_eq!(attribute(&span, "error.type"), text("upstream"));
    assert_eq!(
        attribute(&span, "http.response.status_code"),
        Some(Value::IntValue(503))
    );
    let stage = "portcullis.stage.authenticate.duration_us";
    assert_eq!(attribute(&span, stage), Some(Value::IntValue(1700)));
    assert_eq!(span.attributes.len(), 6);
    assert_eq!(counted(&metrics, "exported"), 1);
}

#[tokio::test]
async fn a_span_that_is_dropped_says_that_the_caller_left() {
    let (endpoint, mut received) = collector(200).await;
    let tracer = Tracer::start_exporting(&options(&endpoint, 1.0), &Metrics::new("1")).unwrap();
    drop(tracer.start(None).unwrap());
    tracer.flush(LIMIT).await;
    let [span] = spans(received.recv().await.unwrap().1).try_into().unwrap();
    assert_eq!(span.name, "request");
    assert_eq!(span.parent_span_id, b"");
    assert_eq!(
        span.status.unwrap().message,
        "the caller left before it was answered"
    );
}

#[rstest]
#[case("http://x", 0.0, None, false)]
#[case("http://x", 1.0, None, true)]
#[case(
    "http://x",
    1.0,
    Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"),
    false
)]
#[case("http://x", 0.0, Some(PARENT), true)]
#[tokio::test]
async fn a_parent_decides_and_else_the_ratio(
    #[case] endpoint: &str,
    #[case] ratio: f64,
    #[case] header: Option<&str>,
    #[case] recorded: bool,
) {
    let tracer = Tracer::start_exporting(&options(endpoint, ratio), &Metrics::new("1")).unwrap();
    for _ in 0..100 {
        assert_eq!(tracer.start(header.and_then(parent)).is_some(), recorded);
    }
    assert!(Tracer::off().start(header.and_then(parent)).is_none());
}

#[tokio::test]
async fn half_means_about_half() {
    let tracer = Tracer::start_exporting(&options("http://x", 0.5), &Metrics::new("1")).unwrap();
    let recorded = (0..4000).filter(|_| tracer.start(None).is_some()).count();
    // Twelve standard deviations: fails by chance less than once in 10^30 runs.
    assert!((1620..2380).contains(&recorded), "{recorded}");
}

#[tokio::test]
async fn a_full_queue_drops_spans_and_counts_them() {
    let (endpoint, mut received) = collector(200).await;
    let metrics = Metrics::new("1");
    let tracer = Tracer::start_exporting(&options(&endpoint, 1.0), &metrics).unwrap();
    // On this single-threaded runtime the exporting task cannot run before the first await.
    for _ in 0..export::QUEUE + 3 {
        tracer.start(None).unwrap().finish(200, None);
    }
    assert_eq!(counted(&metrics, "dropped"), 3);
    tracer.flush(LIMIT).await;
    assert_eq!(counted(&metrics, "exported"), export::QUEUE as u64);
    let mut arrived = 0;
    while let Ok((_, body)) = received.try_recv() {
        let spans = spans(body).len();
        assert!(spans <= 512, "{spans} in one batch");
        arrived += spans;
    }
    assert_eq!(arrived, export::QUEUE);
}

#[tokio::test]
async fn a_collector_that_refuses_is_counted() {
    let (endpoint, _received) = collector(400).await;
    let metrics = Metrics::new("1");
    let tracer = Tracer::start_exporting(&options(&endpoint, 1.0), &metrics).unwrap();
    tracer.start(None).unwrap().finish(200, None);
    tracer.flush(LIMIT).await;
    assert_eq!(
        (counted(&metrics, "failed"), counted(&metrics, "exported")),
        (1, 0)
    );
}

#[tokio::test]
async fn what_a_request_says_is_cut() {
    let (endpoint, mut received) = collector(200).await;
    let tracer = Tracer::start_exporting(&options(&endpoint, 1.0), &Metrics::new("1")).unwrap();
    let mut span = tracer.start(None).unwrap();
    span.set_request("get", &"ü".repeat(10_000));
    span.finish(200, None);
    tracer.flush(LIMIT).await;
    let [span] = spans(received.recv().await.unwrap().1).try_into().unwrap();
    let expected = Some(Value::StringValue("ü".repeat(MAX_ATTRIBUTE / 2)));
    assert_eq!(attribute(&span, "portcullis.resource"), expected);
}

#[rstest]
#[case("127.0.0.1:4318", 0.1, "scheme")]
#[case("grpc://x", 0.1, "scheme")]
#[case("http://x y", 0.1, "not a URL")]
#[case("http://x/?a=b", 0.1, "query")]
#[case("http://x", 1.1, "samplingRatio")]
#[case("http://x", f64::NAN, "samplingRatio")]
fn options_that_cannot_work_are_refused(
    #[case] endpoint: &str,
    #[case] ratio: f64,
    #[case] needle: &str,
) {
    let error = options(endpoint, ratio).check().unwrap_err().to_string();
    assert!(
        error.starts_with("tracing.") && error.contains(needle),
        "{error}"
    );
}

#[rstest]
#[case("http://x:4318", "http://x:4318/v1/traces")]
#[case("https://x/otlp/", "https://x/otlp/v1/traces")]
#[case("http://x/v1/traces", "http://x/v1/traces")]
fn the_endpoint_is_a_base(#[case] base: &str, #[case] url: &str) {
    assert_eq!(export::endpoint(base).unwrap(), url);
}
