use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use portcullis_index::sources::Outcome;
use tokio::sync::{mpsc, watch};

use super::*;

/// One write as the server saw it.
#[derive(Debug, PartialEq)]
struct Seen {
    path: String,
    query: String,
    kind: String,
    status: Value,
}

/// A server that answers each PATCH with what `answer` makes of its status.
fn server(
    answer: impl Fn(&Value) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> (Client, mpsc::UnboundedReceiver<Seen>) {
    let (seen, received) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, answer) = (seen.clone(), answer.clone());
        async move {
            let (head, body) = request.into_parts();
            let body: Value =
                serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            let status = body["status"].clone();
            let (code, reply) = answer(&status);
            let kind = head.headers["content-type"].to_str().unwrap().to_owned();
            let query = head.uri.query().unwrap_or_default().to_owned();
            seen.send(Seen {
                path: head.uri.path().to_owned(),
                query,
                kind,
                status,
            })
            .unwrap();
            let body = Full::new(Bytes::from(reply.to_string()));
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    (Client::new(service, "default"), received)
}

fn object(status: &Value) -> (u16, Value) {
    let object = json!({ "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": "a", "namespace": "team" }, "status": status });
    (200, object)
}

fn failure(code: u16) -> (u16, Value) {
    (
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": "x" }),
    )
}

fn outcomes(exposed: bool, observed: Value) -> Arc<Outcomes> {
    let outcome = Outcome {
        exposed,
        error: None,
        notices: Vec::new(),
        observed,
    };
    Arc::new([(ClusterKey::new("team", "a"), outcome)].into())
}

fn exposed() -> Value {
    json!({ "exposed": true, "path": "/clusters/team/a" })
}

/// Lets everything happen that can happen within `seconds`, and counts the writes.
async fn writes_within(seconds: u64, received: &mut mpsc::UnboundedReceiver<Seen>) -> usize {
    let mut writes = 0;
    let end = tokio::time::sleep(Duration::from_secs(seconds));
    tokio::pin!(end);
    loop {
        tokio::select! {
            Some(_) = received.recv() => writes += 1,
            () = &mut end => return writes,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_applied_once_as_portcullis() {
    let (client, mut received) = server(object);
    let (sender, outcomes_of) = watch::channel(outcomes(true, Value::Null));
    let task = tokio::spawn(write_back(Federation {
        client,
        outcomes: outcomes_of,
    }));
    let seen = received.recv().await.unwrap();
    assert_eq!(
        seen,
        Seen {
            path: "/apis/weebo.si.rs/v1/namespaces/team/proxykubeapis/a/status".to_owned(),
            query: "&force=true&fieldManager=portcullis".to_owned(),
            kind: "application/apply-patch+yaml".to_owned(),
            status: exposed(),
        }
    );
    // Our own write comes back as an event: it is no reason to write again.
    sender.send_replace(outcomes(true, exposed()));
    assert_eq!(writes_within(7200, &mut received).await, 0);
    drop(sender);
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_there_already_is_not_written() {
    let (client, mut received) = server(object);
    let (_sender, outcomes) = watch::channel(outcomes(true, exposed()));
    tokio::spawn(write_back(Federation { client, outcomes }));
    assert_eq!(writes_within(7200, &mut received).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_written_at_once() {
    let (client, mut received) = server(object);
    let (sender, outcomes_of) = watch::channel(outcomes(true, exposed()));
    tokio::spawn(write_back(Federation {
        client,
        outcomes: outcomes_of,
    }));
    assert_eq!(writes_within(1, &mut received).await, 0);
    sender.send_replace(outcomes(false, exposed()));
    assert_eq!(
        received.recv().await.unwrap().status,
        json!({ "exposed": false })
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_write_is_repeated_ever_more_rarely() {
    let (client, mut received) = server(|_| failure(500));
    let (_sender, outcomes) = watch::channel(outcomes(true, Value::Null));
    tokio::spawn(write_back(Federation { client, outcomes }));
    // 0, 5, 15, 35, 75 and 155 s; then a rest of half an hour.
    assert_eq!(writes_within(36, &mut received).await, 4);
    assert_eq!(writes_within(1800, &mut received).await, 2);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_overwrites_us_does_not_make_us_write_without_end() {
    let (client, mut received) = server(object);
    let (sender, outcomes_of) = watch::channel(outcomes(true, Value::Null));
    tokio::spawn(write_back(Federation {
        client,
        outcomes: outcomes_of,
    }));
    let mut writes = 0;
    for _ in 0..600 {
        writes += writes_within(1, &mut received).await;
        sender.send_replace(outcomes(true, exposed()));
        writes += writes_within(1, &mut received).await;
        sender.send_replace(outcomes(true, json!({ "exposed": false })));
    }
    assert!((2..=6).contains(&writes), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn fields_of_an_earlier_controller_are_removed() {
    let (client, mut received) = server(|status| {
        // The error is not ours: applying without it leaves it.
        let mut kept = status.clone();
        kept["error"] = json!("old");
        object(&kept)
    });
    let (_sender, outcomes) =
        watch::channel(outcomes(true, json!({ "exposed": false, "error": "old" })));
    tokio::spawn(write_back(Federation { client, outcomes }));
    assert_eq!(received.recv().await.unwrap().status, exposed());
    let removal = received.recv().await.unwrap();
    assert_eq!(removal.kind, "application/merge-patch+json");
    assert_eq!(removal.status, json!({ "error": null }));
}
