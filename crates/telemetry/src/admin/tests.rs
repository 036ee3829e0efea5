use rstest::rstest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

use super::*;

/// A served admin port; dropping it ends the server.
struct Admin {
    address: SocketAddr,
    readiness: Readiness,
    metrics: Arc<Metrics>,
    _stop: oneshot::Sender<()>,
}

async fn admin(limits: Limits) -> Admin {
    let (readiness, metrics) = (Readiness::default(), Arc::new(Metrics::new("1")));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = Server::bind(address, readiness.clone(), Arc::clone(&metrics))
        .await
        .unwrap();
    server.limits = limits;
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(async {
        let _dropped = stopped.await;
    }));
    Admin {
        address,
        readiness,
        metrics,
        _stop: stop,
    }
}

const LIMITS: Limits = Limits {
    connections: 8,
    header: Duration::from_secs(30),
};

impl Admin {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Status code, head and body of the answer to `line` (method and target).
    async fn ask(&self, line: &str, header: &str) -> (u16, String, String) {
        let mut stream = self.connect().await;
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, head.to_lowercase(), body.to_owned())
    }
}

#[tokio::test]
async fn probes_answer_as_kube_apiserver_does() {
    let admin = admin(LIMITS).await;
    let (sources, listener) = (
        admin.readiness.condition("sources"),
        admin.readiness.condition("listener"),
    );
    admin
        .readiness
        .informational("reload")
        .set(Err("clusters/a.yaml:3: unknown field".into()));
    listener.set(Ok(()));

    let unready = "[-]sources failed: not reported yet\n[+]listener ok\n\
                   [!]reload failed, for information only: clusters/a.yaml:3: unknown field\n\
                   readyz check failed\n";
    let (code, _, body) = admin.ask("GET /readyz", "").await;
    assert_eq!((code, body.as_str()), (500, unready));
    let (code, _, body) = admin.ask("GET /readyz?exclude=sources", "").await;
    assert_eq!((code, body.as_str()), (200, "ok"));
    let (code, _, body) = admin.ask("GET /livez", "").await;
    assert_eq!(
        (code, body.as_str()),
        (200, "ok"),
        "alive without being ready"
    );

    sources.set(Ok(()));
    let (code, _, body) = admin.ask("GET /readyz", "").await;
    assert_eq!((code, body.as_str()), (200, "ok"));
    let (_, _, body) = admin.ask("GET /readyz?verbose", "").await;
    assert!(
        body.starts_with("[+]sources ok\n[+]listener ok\n[!]reload"),
        "{body}"
    );
    assert!(body.ends_with("readyz check passed\n"), "{body}");
    let (_, _, body) = admin.ask("GET /livez?verbose=1", "").await;
    assert_eq!(body, "[+]ping ok\nlivez check passed\n");
}

#[rstest]
#[case("GET /", 404, "")]
#[case("GET /livez/", 404, "")]
#[case("POST /nothing", 404, "")]
#[case("POST /readyz", 405, "allow: get, head")]
#[case("DELETE /metrics", 405, "allow: get, head")]
#[case("HEAD /livez", 200, "content-length: 2")]
#[tokio::test]
async fn everything_else_is_refused(#[case] line: &str, #[case] code: u16, #[case] header: &str) {
    let (answered, head, body) = admin(LIMITS).await.ask(line, "").await;
    assert_eq!(answered, code);
    assert!(head.contains(header), "{head}");
    assert!(!line.starts_with("HEAD") || body.is_empty());
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_asked_for() {
    let admin = admin(LIMITS).await;
    let (code, head, body) = admin.ask("GET /metrics", "").await;
    assert_eq!(code, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        body.contains("portcullis_build_info{version=\"1\"} 1\n"),
        "{body}"
    );
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n";
    let (_, head, body) = admin.ask("GET /metrics", accept).await;
    assert!(
        head.contains("content-type: application/openmetrics-text"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"), "{body}");
}

/// Reads until the other side closes. The deadline makes a hang a failure.
async fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    // A reset is a close as well.
    let _either = tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .expect("stays open");
    rest
}

#[tokio::test]
async fn one_connection_above_the_limit_is_closed() {
    let admin = admin(Limits {
        connections: 2,
        ..LIMITS
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = admin.connect().await;
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        held.push(stream);
    }
    assert_eq!(closed(admin.connect().await).await, b"");
    let refused = r#"connections_refused_total{reason="adminConnections"} 1"#;
    assert!(admin.metrics.encode(false).contains(refused));
}

#[tokio::test]
async fn a_slow_head_and_an_idle_connection_are_closed() {
    let admin = admin(Limits {
        header: Duration::from_millis(50),
        ..LIMITS
    })
    .await;
    let mut slow = admin.connect().await;
    slow.write_all(b"GET /livez HTTP/1.1\r\nHo").await.unwrap();
    let answer = closed(slow).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");

    let mut idle = admin.connect().await;
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(closed(idle).await.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_head_without_end_is_closed() {
    let admin = admin(LIMITS).await;
    let mut stream = admin.connect().await;
    let _closed_meanwhile = stream.write_all(b"GET /livez HTTP/1.1\r\n").await;
    let line = format!("x: {}\r\n", "y".repeat(1000));
    for _ in 0..40 {
        if stream.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    assert!(!closed(stream).await.starts_with(b"HTTP/1.1 200"));
}
