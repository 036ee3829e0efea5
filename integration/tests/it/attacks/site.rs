//! A gateway in front of one upstream, with the clients to attack it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use integration::client::{H2Client, RawClient, Response, SOON, Target};
use integration::fakeup::{self, FakeUpstream, Seen};
use integration::gateway::{self, Cluster, Gateway};
use integration::pki::Authority;
use integration::reviewer::{Answer, Asked, Reviewer};
use integration::scratch::Scratch;
use integration::wait::{Look, eventually, until};
use serde_json::{Value, json};

/// A gateway in front of a scripted upstream, cluster `default/fake`.
pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    pub(crate) upstream: FakeUpstream,
    pub(crate) target: Target,
    _scratch: Option<Scratch>,
}

impl Site {
    /// Callers' credentials pass through unchecked.
    pub(crate) async fn new() -> Self {
        Self::made(fakeup::Options::new(), |g| g, |c| c).await
    }

    /// As [`Site::new`], with an upstream that speaks HTTP/1.1 only.
    pub(crate) async fn http1() -> Self {
        Self::made(fakeup::Options::new().http1_only(), |g| g, |c| c).await
    }

    /// As [`Site::new`], with these fields merged over the GatewayConfiguration.
    pub(crate) async fn with(configuration: Value) -> Self {
        Self::made(fakeup::Options::new(), |g| g.with(configuration), |c| c).await
    }

    /// Any upstream, gateway and cluster.
    pub(crate) async fn made(
        upstream: fakeup::Options,
        gateway: impl FnOnce(gateway::Options) -> gateway::Options,
        cluster: impl FnOnce(Cluster) -> Cluster,
    ) -> Self {
        let upstream = upstream.start().await.unwrap();
        let cluster = cluster(Cluster::fake(&upstream));
        let options = gateway(gateway::Options::new().cluster(cluster));
        let gateway = options.start().await.unwrap();
        let target = Target::gateway(&gateway);
        Self {
            gateway,
            upstream,
            target,
            _scratch: None,
        }
    }

    /// In mode Impersonate, called by a client whose certificate says alice of group developers.
    pub(crate) async fn impersonating() -> Self {
        let scratch = Scratch::new("impersonating").unwrap();
        let authority = Authority::new("client-ca").unwrap();
        let ca = scratch.write("client-ca.crt", authority.pem()).unwrap();
        let (cert, key) = identity(&scratch, &authority, "alice", "developers");
        let token = scratch.write("token", "gateway-token").unwrap();
        let site = Self::made(
            fakeup::Options::new(),
            |g| g.client_ca(&ca),
            |c| c.with(impersonate_with_token(&token)),
        );
        let mut site = site.await;
        site.target = site.target.clone().identity(cert, key);
        site._scratch = Some(scratch);
        site
    }

    /// The path of the cluster with `rest` behind it.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.gateway.path())
    }

    /// A connection that says what it is told.
    pub(crate) async fn raw(&self) -> RawClient {
        RawClient::connect(&self.target).await.unwrap()
    }

    /// An HTTP/2 connection.
    pub(crate) async fn h2(&self) -> H2Client {
        H2Client::connect(&self.target).await.unwrap()
    }

    /// GET by HTTP/1.1 on a connection of its own.
    pub(crate) async fn get(&self, rest: &str, headers: &[(&str, &str)]) -> Response {
        self.raw()
            .await
            .get(&self.path(rest), headers)
            .await
            .unwrap()
    }

    /// Waits until the upstream has seen `count` requests, and returns them.
    pub(crate) async fn seen(&self, count: usize) -> Vec<Seen> {
        let arrived = || self.upstream.seen().len() >= count;
        until(&format!("{count} requests upstream"), SOON, arrived)
            .await
            .unwrap();
        self.upstream.seen()
    }

    /// The requests that reached the upstream, by path.
    pub(crate) fn uris(&self) -> Vec<String> {
        self.upstream.seen().into_iter().map(|s| s.uri).collect()
    }

    /// Checks that the gateway still serves somebody who is new and well-behaved.
    pub(crate) async fn still_serves(&self) {
        let reply = self.get("/still-serves", &[]).await;
        assert_eq!(reply.status(), 200, "{}", reply.text());
    }
}

/// A gateway in front of an upstream that answers reviews, cluster `default/fake`.
pub(crate) struct ReviewedSite {
    pub(crate) gateway: Gateway,
    pub(crate) upstream: Reviewer,
    pub(crate) target: Target,
    _scratch: Scratch,
}

impl ReviewedSite {
    /// Callers show their own token in a SelfSubjectReview, and it goes on.
    pub(crate) async fn pass_through(
        script: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self::made(script, |g| g, |_| json!({})).await
    }

    /// The gateway asks TokenReviews and SubjectAccessReviews with its own token, and
    /// impersonates.
    pub(crate) async fn impersonating(
        script: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let spec = |scratch: &Scratch| {
            let token = scratch.write("token", "gateway-token").unwrap();
            let mut spec = impersonate_with_token(&token);
            spec["auth_config"] = json!({"review": "TokenReview"});
            spec
        };
        Self::made(script, |g| g, spec).await
    }

    /// Any gateway and cluster.
    pub(crate) async fn made(
        script: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static,
        gateway: impl FnOnce(gateway::Options) -> gateway::Options,
        spec: impl FnOnce(&Scratch) -> Value,
    ) -> Self {
        let scratch = Scratch::new("reviewed").unwrap();
        let upstream = Reviewer::start(script).await.unwrap();
        let cluster = Cluster::new(
            "default",
            "fake",
            json!({
                "service": {"ExternalService": {"url": upstream.url()}},
                "cert": {"Cert": upstream.ca_pem()},
            }),
        );
        let cluster = cluster.with(spec(&scratch));
        let options = gateway(gateway::Options::new().cluster(cluster));
        let gateway = options.start().await.unwrap();
        let target = Target::gateway(&gateway);
        Self {
            gateway,
            upstream,
            target,
            _scratch: scratch,
        }
    }

    /// The path of the cluster with `rest` behind it.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.gateway.path())
    }

    /// GET by HTTP/1.1 on a connection of its own.
    pub(crate) async fn get(&self, rest: &str, headers: &[(&str, &str)]) -> Response {
        let mut client = RawClient::connect(&self.target).await.unwrap();
        client.get(&self.path(rest), headers).await.unwrap()
    }

    /// An HTTP/2 connection.
    pub(crate) async fn h2(&self) -> H2Client {
        H2Client::connect(&self.target).await.unwrap()
    }
}

/// A client certificate and its key, as files.
pub(crate) fn identity(
    scratch: &Scratch,
    authority: &Authority,
    user: &str,
    group: &str,
) -> (PathBuf, PathBuf) {
    let pair = authority.client(user, group).unwrap();
    let cert = scratch
        .write(&format!("{user}.crt"), pair.cert_pem)
        .unwrap();
    let key = scratch.write(&format!("{user}.key"), pair.key_pem).unwrap();
    (cert, key)
}

fn impersonate_with_token(file: &std::path::Path) -> Value {
    json!({
        "auth_config": null,
        "upstream_mode": "Impersonate",
        "gateway_credential": {"TokenFile": {"path": file}},
    })
}

/// Checks that a body is exactly one `metav1.Status` with this code and reason.
pub(crate) fn assert_status(response: &Response, code: u16, reason: &str) {
    let text = response.text();
    assert_eq!(response.status(), code, "{text}");
    assert_eq!(
        response.head.get("content-type"),
        Some("application/json"),
        "{text}"
    );
    assert_is_status(&response.json().unwrap(), code, reason);
}

/// As [`assert_status`], for a body that is JSON already.
pub(crate) fn assert_is_status(body: &Value, code: u16, reason: &str) {
    assert_eq!(
        (&body["kind"], &body["apiVersion"]),
        (&json!("Status"), &json!("v1")),
        "{body}"
    );
    assert_eq!(
        (&body["status"], &body["code"]),
        (&json!("Failure"), &json!(code)),
        "{body}"
    );
    assert_eq!(body["reason"], json!(reason), "{body}");
    assert!(
        body["message"].as_str().is_some_and(|m| !m.is_empty()),
        "{body}"
    );
}

/// The names of the header fields an upstream saw that say who the caller is.
pub(crate) fn identity_fields(seen: &Seen) -> BTreeSet<String> {
    let says = |name: &str| {
        let name = name.replace(['_', '.'], "-");
        let families = [
            "impersonate",
            "x-remote",
            "x-forwarded",
            "forwarded",
            "client-cert",
        ];
        name == "authorization"
            || name == "x-real-ip"
            || families.iter().any(|f| name.starts_with(f))
    };
    let names = seen.headers.keys().map(|n| n.as_str().to_owned());
    names.filter(|n| says(n)).collect()
}

/// All values of a header field an upstream saw.
pub(crate) fn values(seen: &Seen, name: &str) -> Vec<String> {
    let values = seen.headers.get_all(name).iter();
    values
        .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
        .collect()
}

/// Waits until a metric has this value.
pub(crate) async fn metric_becomes(gateway: &Gateway, name: &str, labels: &[&str], value: f64) {
    eventually(&format!("{name}{labels:?} to be {value}"), SOON, || async {
        match gateway.metric(name, labels).await {
            Ok(now) if (now - value).abs() < 0.5 => Look::Ready(()),
            Ok(now) => Look::Not(now.to_string()),
            Err(error) => Look::Not(error.to_string()),
        }
    })
    .await
    .unwrap();
}
