//! Upstreams that break in the middle of an answer: the client must see that it is not whole.

use bytes::Bytes;
use http::Method;
use integration::client::SOON;
use integration::client::h2::RequestBody;
use integration::client::raw::{End, request};
use integration::fakeup::{BodyEnd, Fault};
use integration::wait::until;
use serde_json::json;

use crate::attacks::site::{Site, assert_status, metric_becomes};

const TOKEN: (&str, &str) = ("Authorization", "Bearer alice-token");

#[tokio::test]
async fn an_answer_that_is_cut_arrives_cut() {
    for site in [Site::new().await, Site::http1().await] {
        let reply = site.get("/die", &[]).await;
        assert_eq!(
            (reply.status(), reply.text().as_str(), reply.end),
            (200, "partial", End::Cut)
        );
        let client = site.h2().await;
        assert!(
            client.get(&site.path("/die"), "t").await.is_err(),
            "the stream is reset"
        );
        assert!(!client.is_closed(), "and only the stream");
        assert_eq!(
            client.get(&site.path("/echo"), "t").await.unwrap().status,
            200
        );
        assert_eq!(
            site.uris().iter().filter(|u| u.ends_with("/die")).count(),
            2,
            "no second try"
        );
    }
}

#[tokio::test]
async fn a_chunked_answer_that_is_cut_arrives_cut() {
    let site = Site::http1().await;
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "5\r\nabcde\r\n",
        "5\r\nabc",
        "5\r\nabcde",
        "5\r\nabcde\r\n0\r\n",
        "5\r\nabcde\r\nzz\r\n",
        "5\r\nabcdeXX0\r\n\r\n",
    ] {
        let fault = Fault::Answer(format!("{head}{body}").into_bytes());
        site.upstream.set_fault(fault).await.unwrap();
        let mut client = site.raw().await;
        client
            .send(request("GET", &site.path("/x"), &[TOKEN], b""))
            .await
            .unwrap();
        // A break in the first packet may come before the head has gone out.
        match client.head().await {
            Ok(head) if head.status == 200 => {
                let reply = client.body(head, "GET").await.unwrap();
                assert_eq!(reply.end, End::Cut, "{body:?}: {}", reply.text());
            }
            Ok(head) => assert_eq!(head.status, 502, "{body:?}"),
            Err(_) => {}
        }
        let answer = site.h2().await.get(&site.path("/x"), "t").await;
        assert!(
            answer.as_ref().map_or(true, |a| a.status == 502),
            "{body:?}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_watch_that_is_cut_ends_and_is_not_tried_again() {
    for site in [Site::new().await, Site::http1().await] {
        let path = site.path("/api/v1/gated?watch=true");
        let mut client = site.raw().await;
        client
            .send(request("GET", &path, &[TOKEN], b""))
            .await
            .unwrap();
        assert_eq!(client.head().await.unwrap().status, 200);
        site.upstream.release();
        assert_eq!(client.chunk().await.unwrap().unwrap(), b"{\"n\":0}\n");
        let h2 = site.h2().await;
        let body = RequestBody::whole(Bytes::new());
        let answer = h2.send(Method::GET, &path, &[TOKEN], body).await.unwrap();
        site.upstream.cut();
        let rest = client.closed(SOON).await.unwrap();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "it must not look finished");
        let ended = http_body_util::BodyExt::collect(answer.into_body());
        let ended = tokio::time::timeout(SOON, ended).await.unwrap();
        assert!(ended.is_err(), "the stream is reset");
        assert_eq!(site.uris().len(), 2, "{:?}", site.uris());
        metric_becomes(&site.gateway, "portcullis_streams", &[], 0.0).await;
    }
}

/// A write whose answer is lost may have happened: it is not sent again.
#[tokio::test]
async fn a_write_whose_answer_is_lost_is_not_sent_again() {
    let site = Site::http1().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        // A connection that has served before, so that it could have gone stale.
        site.upstream.set_fault(Fault::None).await.unwrap();
        site.still_serves().await;
        site.upstream
            .set_fault(Fault::CloseAfterRequest)
            .await
            .unwrap();
        site.upstream.forget();
        let mut client = site.raw().await;
        client
            .send(request(method, &site.path("/x"), &[TOKEN], b"body"))
            .await
            .unwrap();
        let reply = client.response(method).await.unwrap();
        assert_status(&reply, 502, "InternalError");
        assert!(reply.text().contains("unknown"), "{}", reply.text());
        assert_eq!(site.uris().len(), 1, "{method}: {:?}", site.uris());
    }
}

#[tokio::test]
async fn an_upload_whose_upstream_is_cut_ends() {
    for site in [Site::new().await, Site::http1().await] {
        for by_http2 in [false, true] {
            let mut raw = site.raw().await;
            let h2 = site.h2().await;
            let (feed, body) = RequestBody::fed();
            feed.send(Ok(Bytes::from_static(b"abc"))).await.unwrap();
            let path = site.path("/hang");
            let asked = if by_http2 {
                tokio::spawn(async move {
                    h2.send(Method::POST, &path, &[TOKEN], body)
                        .await
                        .map(|r| r.status().as_u16())
                })
            } else {
                raw.send(request(
                    "POST",
                    &path,
                    &[TOKEN, ("Content-Length", "1000")],
                    b"abc",
                ))
                .await
                .unwrap();
                tokio::spawn(async move { raw.response("POST").await.map(|r| r.status()) })
            };
            site.seen(1).await;
            site.upstream.cut();
            let answered = tokio::time::timeout(SOON, asked).await.unwrap().unwrap();
            assert!(
                answered.as_ref().map_or(true, |code| *code == 502),
                "{answered:?}"
            );
            assert_eq!(site.uris().len(), 1);
            site.upstream.forget();
        }
    }
}

/// 5xx of the upstream are its own: passed on with their headers, and not tried again.
#[tokio::test]
async fn errors_of_the_upstream_pass_untouched() {
    for site in [Site::new().await, Site::http1().await] {
        let client = site.h2().await;
        for code in [
            400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504,
        ] {
            site.upstream.forget();
            let path = site.path(&format!("/status/{code}"));
            let reply = client.get(&path, "t").await.unwrap();
            assert_eq!(reply.status, code);
            assert_eq!(reply.all("retry-after"), ["7"]);
            let expected = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": format!("scripted {code}"), "code": code});
            assert_eq!(reply.json().unwrap(), expected);
            let reply = client
                .call(Method::POST, &path, &[TOKEN], "x")
                .await
                .unwrap();
            assert_eq!(reply.status, code);
            assert_eq!(site.uris().len(), 2, "{code}: each sent once");
        }
    }
}

/// A client that leaves in the middle of an upload leaves no trace upstream but a broken request.
#[tokio::test]
async fn a_client_that_leaves_ends_its_request_upstream() {
    for site in [Site::new().await, Site::http1().await] {
        let mut client = site.raw().await;
        client
            .send(request(
                "POST",
                &site.path("/echo"),
                &[TOKEN, ("Content-Length", "10")],
                b"abc",
            ))
            .await
            .unwrap();
        site.seen(1).await;
        drop(client);
        let broken = || {
            site.upstream
                .last()
                .is_ok_and(|s| matches!(s.body_end, BodyEnd::Broken(_)))
        };
        until("the upstream to see it", SOON, broken).await.unwrap();
        metric_becomes(&site.gateway, "portcullis_requests_in_flight", &[], 0.0).await;
    }
}
