//! Uploads that stop half-way: they must not look complete to the API server.

use http::Method;
use integration::Failure;
use integration::client::SOON;
use integration::client::h2::RequestBody;
use integration::client::raw::request;
use integration::fakeup::BodyEnd;
use integration::wait::until;
use tokio::io::AsyncWriteExt as _;

use super::site::Site;

/// How the client's side ends.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// TCP reset.
    Reset,
    /// The socket is closed, without a word of TLS.
    Close,
    /// TLS says goodbye, and the client goes on reading.
    HalfClose,
}

const BYTES: usize = 5000;

async fn sites() -> [Site; 2] {
    [Site::new().await, Site::http1().await]
}

/// Waits for what the upstream makes of the upload: broken, with what had been sent.
async fn assert_broken(site: &Site, what: &str) {
    let ended = || {
        site.upstream
            .last()
            .is_ok_and(|s| s.body_end != BodyEnd::Open)
    };
    until(
        &format!("the end of the upload upstream: {what}"),
        SOON,
        ended,
    )
    .await
    .unwrap();
    let seen = site.upstream.last().unwrap();
    assert!(
        matches!(seen.body_end, BodyEnd::Broken(_)),
        "{what}: {:?}",
        seen.body_end
    );
    assert_eq!(site.uris().len(), 1, "{what}: sent once");
    site.upstream.forget();
}

#[tokio::test]
async fn an_http1_upload_that_is_cut_looks_cut_upstream() {
    for site in sites().await {
        for cut in [Cut::Reset, Cut::Close, Cut::HalfClose] {
            for (framing, body) in [
                (("Content-Length", "100000"), vec![b'x'; BYTES]),
                (
                    ("Transfer-Encoding", "chunked"),
                    [
                        format!("{BYTES:x}\r\n").as_bytes(),
                        &[b'x'; BYTES][..],
                        b"\r\n",
                    ]
                    .concat(),
                ),
                (
                    ("Transfer-Encoding", "chunked"),
                    [b"186a0\r\n", &[b'x'; BYTES][..]].concat(),
                ),
            ] {
                let mut client = site.raw().await;
                client
                    .send(request("POST", &site.path("/echo"), &[framing], b""))
                    .await
                    .unwrap();
                client.send(body).await.unwrap();
                let arrived = || {
                    site.upstream
                        .last()
                        .is_ok_and(|s| s.body_length == BYTES as u64)
                };
                until("the first bytes upstream", SOON, arrived)
                    .await
                    .unwrap();
                match cut {
                    Cut::Reset => client.reset().unwrap(),
                    Cut::Close => drop(client),
                    Cut::HalfClose => {
                        client.close_notify().await.unwrap();
                        let answer = client.response("POST").await;
                        let refused = answer.as_ref().map_or(true, |a| a.status() >= 400);
                        assert!(refused, "{cut:?}: {answer:?}");
                    }
                }
                assert_broken(&site, &format!("{cut:?} {framing:?}")).await;
            }
        }
        site.still_serves().await;
    }
}

#[tokio::test]
async fn an_http2_upload_that_is_reset_looks_cut_upstream() {
    for site in sites().await {
        for length in [None, Some(("content-length", "100000"))] {
            let client = site.h2().await;
            let (feed, body) = RequestBody::fed();
            let path = site.path("/echo");
            let sending = {
                let client = client.clone();
                tokio::spawn(async move {
                    let headers: Vec<_> = length.into_iter().collect();
                    client.send(Method::POST, &path, &headers, body).await
                })
            };
            feed.send(Ok(vec![b'x'; BYTES].into())).await.unwrap();
            let arrived = || {
                site.upstream
                    .last()
                    .is_ok_and(|s| s.body_length == BYTES as u64)
            };
            until("the first bytes upstream", SOON, arrived)
                .await
                .unwrap();
            feed.send(Err(Failure::new("the client gives up")))
                .await
                .unwrap();
            assert!(
                sending.await.unwrap().is_err(),
                "a cut upload has no answer"
            );
            assert_broken(&site, &format!("{length:?}")).await;
            // Nobody else on the connection notices.
            assert_eq!(
                client.get(&site.path("/echo"), "t").await.unwrap().status,
                200
            );
            site.upstream.forget();
        }
    }
}

#[tokio::test]
async fn an_http2_upload_whose_connection_ends_looks_cut_upstream() {
    for site in sites().await {
        let mut stream = site.target.connect(&[b"h2"]).await.unwrap();
        let path = site.path("/echo");
        let fields = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "g"),
            (":path", path.as_str()),
        ];
        let block = integration::client::frames::header_block(&fields);
        use integration::client::frames::{Frame, PREFACE, flag, kind};
        let mut bytes = PREFACE.to_vec();
        bytes.extend(Frame::new(kind::SETTINGS, 0, 0, []).encode());
        bytes.extend(Frame::new(kind::HEADERS, flag::END_HEADERS, 1, block).encode());
        bytes.extend(Frame::new(kind::DATA, 0, 1, vec![b'x'; BYTES]).encode());
        stream.write_all(&bytes).await.unwrap();
        let arrived = || {
            site.upstream
                .last()
                .is_ok_and(|s| s.body_length == BYTES as u64)
        };
        until("the first bytes upstream", SOON, arrived)
            .await
            .unwrap();
        drop(stream);
        assert_broken(&site, "the connection ends").await;
    }
}

/// The other side of it: what was sent whole arrives whole, and once.
#[tokio::test]
async fn an_upload_that_is_whole_looks_whole_upstream() {
    for site in sites().await {
        let body = vec![b'x'; 3 << 20];
        let mut client = site.raw().await;
        client
            .send(request("POST", &site.path("/echo"), &[], &body))
            .await
            .unwrap();
        assert_eq!(client.response("POST").await.unwrap().status(), 200);
        let seen = site.upstream.last().unwrap();
        assert_eq!(
            (seen.body_length, &seen.body_end),
            (body.len() as u64, &BodyEnd::Complete)
        );
        assert_eq!(seen.header("content-length"), Some(body.len().to_string()));
        let h2 = site.h2().await;
        h2.call(Method::PUT, &site.path("/echo"), &[], body.clone())
            .await
            .unwrap();
        let seen = site.upstream.last().unwrap();
        assert_eq!(
            (seen.body_length, seen.body_end),
            (body.len() as u64, BodyEnd::Complete)
        );
        assert_eq!(site.uris().len(), 2);
    }
}
