//! One caller's many requests, one address's many guesses.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use integration::client::h2::RequestBody;
use integration::client::{H2Client, Reply, SOON};
use integration::fakeup;
use integration::gateway::Cluster;
use integration::reviewer::{Answer, Asked};
use integration::wait::{Look, eventually};
use serde_json::{Value, json};

use super::site::{ReviewedSite, Site, assert_is_status};

fn assert_refused(reply: &Reply) {
    assert_eq!(reply.status, 429, "{}", reply.text());
    assert_is_status(&reply.json().unwrap(), 429, "TooManyRequests");
    let wait: u64 = reply.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(wait >= 1);
    assert_eq!(reply.json().unwrap()["details"]["retryAfterSeconds"], wait);
}

async fn start(client: &H2Client, method: Method, path: &str) -> tokio::task::JoinHandle<()> {
    let (client, path) = (client.clone(), path.to_owned());
    tokio::spawn(async move {
        let _answer = client
            .send(method, &path, &[], RequestBody::whole(Bytes::new()))
            .await;
        std::future::pending::<()>().await;
    })
}

/// At the limit a request is served, above it is refused, and a place that is given back is free.
#[tokio::test]
async fn each_class_of_requests_has_a_limit_of_its_own() {
    let limits = json!({"maxRequestsInFlight": 2, "maxMutatingRequestsInFlight": 2, "maxLongRunningRequests": 2});
    let site = Site::with(json!({"limits": limits})).await;
    let client = site.h2().await;
    let watch = "/api/v1/forever?watch=true";
    let mut held = Vec::new();
    let mut expected = 0;
    for (method, hold, ask) in [
        (Method::GET, "/hang", "/echo"),
        (Method::POST, "/hang", "/echo"),
        (Method::GET, watch, "/api/v1/echo?watch=true"),
    ] {
        let first = site.h2().await;
        held.push(start(&first, method.clone(), &site.path(hold)).await);
        expected += 1;
        site.seen(expected).await;
        let reply = client
            .call(method.clone(), &site.path(ask), &[], "")
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "the second of two");
        held.push(start(&first, method.clone(), &site.path(hold)).await);
        expected += 2;
        site.seen(expected).await;
        assert_refused(
            &client
                .call(method.clone(), &site.path(ask), &[], "")
                .await
                .unwrap(),
        );
    }
    assert_eq!(
        site.upstream.seen().len(),
        expected,
        "what is refused is not forwarded"
    );
    for task in held {
        task.abort();
    }
    for (method, ask) in [
        (Method::GET, "/echo"),
        (Method::POST, "/echo"),
        (Method::GET, "/api/v1/echo?watch=true"),
    ] {
        eventually("a free place", SOON, || async {
            match client
                .call(method.clone(), &site.path(ask), &[], "")
                .await
                .unwrap()
                .status
                .as_u16()
            {
                200 => Look::Ready(()),
                code => Look::Not(code.to_string()),
            }
        })
        .await
        .unwrap();
    }
}

/// The place is held until the answer has been read, and given back when the reader leaves.
#[tokio::test]
async fn an_answer_that_is_being_read_holds_its_place() {
    let site = Site::with(json!({"limits": {"maxRequestsInFlight": 1}})).await;
    let (slow, other) = (site.h2().await, site.h2().await);
    let answer = slow
        .send(
            Method::GET,
            &site.path("/forever"),
            &[],
            RequestBody::whole(Bytes::new()),
        )
        .await;
    assert_refused(&other.get(&site.path("/echo"), "t").await.unwrap());
    drop(answer);
    eventually("the place to be free", SOON, || async {
        match other
            .get(&site.path("/echo"), "t")
            .await
            .unwrap()
            .status
            .as_u16()
        {
            200 => Look::Ready(()),
            code => Look::Not(code.to_string()),
        }
    })
    .await
    .unwrap();
}

fn users(asked: &Asked) -> Option<Answer> {
    asked.reviews("selfsubjectreviews").then(|| {
        let token = asked.all("authorization").concat();
        match token.strip_prefix("Bearer user-") {
            Some(name) => Answer::self_subject_review(&json!({"username": name, "groups": []})),
            None => Answer::json(401, &json!({"kind": "Status"})),
        }
    })
}

async fn secured(security: Value) -> ReviewedSite {
    ReviewedSite::made(users, |g| g, |_| json!({"security_config": security})).await
}

#[tokio::test]
async fn requests_per_minute_are_limited_for_each_user() {
    let site =
        secured(json!({"rate_limiting": {"enabled": true, "max_requests_per_minute": 5}})).await;
    let client = site.h2().await;
    let path = site.path("/api/v1/pods");
    for _ in 0..5 {
        assert_eq!(client.get(&path, "user-alice").await.unwrap().status, 200);
    }
    assert_refused(&client.get(&path, "user-alice").await.unwrap());
    // Neither another connection nor another path nor a wish to be somebody else is a new user.
    let fresh = site.h2().await;
    assert_refused(
        &fresh
            .get(&site.path("/version"), "user-alice")
            .await
            .unwrap(),
    );
    let wish = [
        ("authorization", "Bearer user-alice"),
        ("impersonate-user", "bob"),
    ];
    assert_refused(&fresh.call(Method::GET, &path, &wish, "").await.unwrap());
    assert_eq!(
        client.get(&path, "user-bob").await.unwrap().status,
        200,
        "bob has his own"
    );
    assert_eq!(site.upstream.forwarded().len(), 6);
}

#[tokio::test]
async fn guesses_at_tokens_end_in_a_ban() {
    let ban = json!({"enabled": true, "max_failed_logins": 3, "ban_duration": 2, "exponential_backoff": false});
    let site = secured(json!({"fail2login_equal_ban": ban})).await;
    let client = site.h2().await;
    let path = site.path("/api/v1/pods");
    for n in 0..3 {
        assert_eq!(
            client
                .get(&path, &format!("guess-{n}"))
                .await
                .unwrap()
                .status,
            401
        );
    }
    let reviews = site.upstream.asked().len();
    assert_refused(&client.get(&path, "guess-3").await.unwrap());
    let refused = site.h2().await.get(&path, "user-alice").await.unwrap();
    assert_refused(&refused);
    assert_eq!(
        site.upstream.asked().len(),
        reviews,
        "a banned address costs no review"
    );
    // Claims about where one comes from do not help.
    for claim in ["x-forwarded-for", "x-real-ip", "forwarded"] {
        let headers = [("authorization", "Bearer user-alice"), (claim, "10.1.2.3")];
        assert_refused(&client.call(Method::GET, &path, &headers, "").await.unwrap());
    }
    eventually("the end of the ban", Duration::from_secs(8), || async {
        match client
            .get(&path, "user-alice")
            .await
            .unwrap()
            .status
            .as_u16()
        {
            200 => Look::Ready(()),
            code => Look::Not(code.to_string()),
        }
    })
    .await
    .unwrap();
}

/// Where the gateway leaves the check to the API server, it still counts what that says.
#[tokio::test]
async fn guesses_that_only_the_upstream_judges_end_in_a_ban_too() {
    let ban = json!({"enabled": true, "max_failed_logins": 3, "ban_duration": 600});
    let spec = json!({"security_config": {"fail2login_equal_ban": ban}});
    let site = Site::made(fakeup::Options::new(), |g| g, |c: Cluster| c.with(spec)).await;
    let client = site.h2().await;
    for _ in 0..3 {
        assert_eq!(
            client
                .get(&site.path("/status/401"), "guess")
                .await
                .unwrap()
                .status,
            401
        );
    }
    assert_refused(&client.get(&site.path("/echo"), "alice").await.unwrap());
    assert_eq!(site.uris().len(), 3);
}
