//! Callers who want to be somebody else.

use integration::client::{H2Client, Target};
use integration::control_plane::ControlPlane;
use integration::gateway::{Cluster, Options, UpstreamMode};
use integration::reviewer::{Answer, Asked};
use serde_json::{Value, json};

use super::site::{ReviewedSite, assert_status};

const ALICE: (&str, &str) = ("Authorization", "Bearer alice-token");

/// alice may act as the user carol, and as nobody and nothing else.
fn only_carol(asked: &Asked) -> Option<Answer> {
    if asked.reviews("tokenreviews") {
        let user = json!({"username": "alice", "groups": ["developers"]});
        return Some(Answer::token_review(
            &json!({"authenticated": true, "user": user}),
        ));
    }
    asked.reviews("subjectaccessreviews").then(|| {
        let spec = asked.spec();
        let what = &spec["resourceAttributes"];
        let carol = what["verb"] == "impersonate" && what["resource"] == "users";
        Answer::access(spec["user"] == "alice" && carol && what["name"] == "carol")
    })
}

#[tokio::test]
async fn a_group_uid_or_extra_that_was_not_granted_is_refused() {
    let site = ReviewedSite::impersonating(only_carol).await;
    let carol = ("Impersonate-User", "carol");
    for wish in [
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Uid", "u1"),
        ("Impersonate-Extra-Scopes", "admin"),
        ("impersonate-extra-acme.io%2fscopes", "admin"),
    ] {
        let reply = site.get("/api/v1/pods", &[ALICE, carol, wish]).await;
        assert_status(&reply, 403, "Forbidden");
    }
    let admin = ("Impersonate-User", "admin");
    assert_status(
        &site.get("/api/v1/pods", &[ALICE, admin]).await,
        403,
        "Forbidden",
    );
    // The first value counts, here and in the review.
    assert_status(
        &site.get("/api/v1/pods", &[ALICE, admin, carol]).await,
        403,
        "Forbidden",
    );
    assert!(
        site.upstream.forwarded().is_empty(),
        "{:?}",
        site.upstream.forwarded()
    );
}

#[tokio::test]
async fn what_was_granted_goes_on_and_nothing_besides() {
    let site = ReviewedSite::impersonating(only_carol).await;
    let wish = [
        ALICE,
        ("Impersonate-User", "carol"),
        ("Impersonate-User", "admin"),
    ];
    assert_eq!(site.get("/api/v1/pods", &wish).await.status(), 200);
    let forwarded = site.upstream.forwarded().pop().unwrap();
    assert_eq!(forwarded.all("impersonate-user"), ["carol"]);
    assert!(
        !forwarded
            .all("impersonate-group")
            .contains(&"developers".to_owned())
    );
    assert_eq!(forwarded.all("authorization"), ["Bearer gateway-token"]);
}

/// A right that cannot be looked up is not there.
#[tokio::test]
async fn a_review_that_fails_grants_no_impersonation() {
    for answer in [
        Answer::json(500, &json!({"kind": "Status"})),
        Answer::json(201, &json!({"allowed": true})),
        Answer::bytes(201, "not json"),
        Answer::json(403, &json!({"kind": "Status"})),
        Answer::token_review(&json!({"authenticated": true, "user": {"username": "carol"}})),
    ] {
        let shown = format!("{answer:?}");
        let script = move |asked: &Asked| match asked.reviews("subjectaccessreviews") {
            true => Some(answer.clone()),
            false => only_carol(asked),
        };
        let site = ReviewedSite::impersonating(script).await;
        let reply = site
            .get("/api/v1/pods", &[ALICE, ("Impersonate-User", "carol")])
            .await;
        assert!(
            matches!(reply.status(), 403 | 503),
            "{shown}: {} {}",
            reply.status(),
            reply.text()
        );
        assert!(site.upstream.forwarded().is_empty(), "{shown}");
    }
}

/// A thousand groups are a thousand questions: too many for one request.
#[tokio::test]
async fn a_flood_of_groups_is_no_flood_of_reviews() {
    let anything = |asked: &Asked| {
        // Each by name, so that each has to be asked for.
        let all = asked.spec()["resourceAttributes"]["name"] == "*";
        match asked.reviews("subjectaccessreviews") {
            true => Some(Answer::access(!all)),
            false => only_carol(asked),
        }
    };
    let site = ReviewedSite::impersonating(anything).await;
    let groups: Vec<String> = (0..400).map(|n| format!("g{n}")).collect();
    let mut wish = vec![ALICE, ("Impersonate-User", "carol")];
    wish.extend(groups.iter().map(|g| ("Impersonate-Group", g.as_str())));
    assert_status(&site.get("/api/v1/pods", &wish).await, 403, "Forbidden");
    let reviews = site.upstream.count("subjectaccessreviews");
    assert!(reviews <= 256, "{reviews} reviews for one request");
    assert!(site.upstream.forwarded().is_empty());
}

/// The oracle: for every spelling of a wish, the API server itself says who the caller then is.
#[tokio::test]
async fn every_wish_ends_as_it_does_at_the_api_server() {
    let plane = ControlPlane::shared().await.unwrap();
    let direct = H2Client::connect(&Target::url(plane.url(), plane.ca_file()).unwrap())
        .await
        .unwrap();
    for mode in [UpstreamMode::PassThrough, UpstreamMode::Impersonate] {
        let cluster = Cluster::in_mode(plane, mode).unwrap();
        let gateway = Options::new().cluster(cluster).start().await.unwrap();
        let through = H2Client::connect(&Target::gateway(&gateway)).await.unwrap();
        for user in ["alice", "admin"] {
            let bearer = format!("Bearer {}", plane.user(user).unwrap().token);
            for wish in WISHES {
                let headers = [&[("authorization", bearer.as_str())], *wish].concat();
                let expected = who(&direct, "", &headers).await;
                let found = who(&through, &gateway.path(), &headers).await;
                assert_eq!(found, expected, "{mode:?} {user} {wish:?}");
            }
        }
    }
}

type Fields = &'static [(&'static str, &'static str)];

const WISHES: &[Fields] = &[
    &[],
    &[("impersonate-user", "")],
    &[("impersonate-user", ""), ("impersonate-user", "admin")],
    &[("impersonate-user", "bob")],
    &[("impersonate-user", "bob"), ("impersonate-user", "admin")],
    &[
        ("impersonate-user", "bob"),
        ("impersonate-group", "viewers"),
    ],
    &[
        ("impersonate-user", "bob"),
        ("impersonate-group", "system:masters"),
    ],
    &[("impersonate-user", "bob"), ("impersonate-uid", "u1")],
    &[
        ("impersonate-user", "bob"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-scopes", "b"),
    ],
    &[("impersonate-user", "system:anonymous")],
    &[(
        "impersonate-user",
        "system:serviceaccount:kube-system:default",
    )],
    &[("impersonate-group", "system:masters")],
    &[("impersonate-uid", "u1")],
    &[("impersonate-extra-scopes", "a")],
    &[
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
    ],
];

/// Code, and the user the API server took the caller for.
async fn who(client: &H2Client, prefix: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let path = format!("{prefix}/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let headers = [headers, &[("content-type", "application/json")]].concat();
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let reply = client
        .call(http::Method::POST, &path, &headers, review)
        .await
        .unwrap();
    let body = reply.json().unwrap();
    let mut said = body["status"]["userInfo"].clone();
    // A random identifier of the credential or session may be among the extras.
    if let Some(extra) = said.get_mut("extra").and_then(Value::as_object_mut) {
        extra.retain(|key, _| !key.starts_with("authentication.kubernetes.io/"));
    }
    (
        reply.status.as_u16(),
        if said.is_null() {
            body["reason"].clone()
        } else {
            said
        },
    )
}
