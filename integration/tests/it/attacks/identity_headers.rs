//! Clients that write into the header fields by which hops tell each other who is calling.

use std::collections::BTreeSet;

use http::Method;
use integration::client::raw::request;

use super::site::{Site, assert_status, identity_fields, values};

const TOKEN: (&str, &str) = ("Authorization", "Bearer alice-token");

/// What says who alice is, where she showed a certificate and the gateway impersonates her.
const HERS: [&str; 5] = [
    "authorization",
    "impersonate-user",
    "impersonate-group",
    "impersonate-extra-authentication.kubernetes.io%2fcredential-id",
    "x-forwarded-for",
];

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

/// `Connection` asks the next hop to drop what it names: here what the gateway itself wrote.
#[tokio::test]
async fn a_connection_header_that_names_identity_headers_removes_none_of_ours() {
    let site = Site::impersonating().await;
    for connection in [
        "Impersonate-User",
        "keep-alive, Impersonate-User, Impersonate-Group",
        "impersonate-group ,\tIMPERSONATE-USER",
        "Authorization",
        "x-forwarded-for,authorization , impersonate-user",
        "close, impersonate_user, impersonate-user",
    ] {
        let headers = [
            ("Connection", connection),
            ("Connection", "Impersonate-Group"),
        ];
        let reply = site.get("/echo", &headers).await;
        assert_eq!(reply.status(), 200, "{connection}: {}", reply.text());
        let seen = site.upstream.last().unwrap();
        assert_eq!(values(&seen, "impersonate-user"), ["alice"], "{connection}");
        let groups = values(&seen, "impersonate-group");
        assert!(
            groups.contains(&"developers".to_owned()),
            "{connection}: {groups:?}"
        );
        assert_eq!(
            values(&seen, "authorization"),
            ["Bearer gateway-token"],
            "{connection}"
        );
        assert_eq!(
            values(&seen, "x-forwarded-for"),
            ["127.0.0.1"],
            "{connection}"
        );
        assert!(!seen.headers.contains_key("connection"), "{connection}");
    }
}

#[tokio::test]
async fn a_connection_header_that_names_identity_headers_does_not_change_an_upgrade() {
    let site = Site::impersonating().await;
    let headers = [
        (
            "Connection",
            "Upgrade, Impersonate-User, Impersonate-Group, Authorization",
        ),
        ("Upgrade", "websocket"),
    ];
    let mut client = site.raw().await;
    let path = site.path("/api/v1/namespaces/n/pods/p/proxy/upgrade");
    client
        .send(request("GET", &path, &headers, b""))
        .await
        .unwrap();
    assert_eq!(client.head().await.unwrap().status, 101);
    let seen = site.upstream.last().unwrap();
    assert_eq!(values(&seen, "impersonate-user"), ["alice"]);
    assert!(values(&seen, "impersonate-group").contains(&"developers".to_owned()));
    assert_eq!(values(&seen, "authorization"), ["Bearer gateway-token"]);
    assert_eq!(values(&seen, "connection"), ["Upgrade"]);
}

/// Where the caller's own credential goes on, it goes on whatever `Connection` says.
#[tokio::test]
async fn a_connection_header_that_names_the_callers_token_or_wish_changes_neither() {
    let site = Site::new().await;
    let connection = ("Connection", "Authorization, Impersonate-User");
    site.get("/echo", &[TOKEN, connection, ("Impersonate-User", "carol")])
        .await;
    let seen = site.upstream.last().unwrap();
    assert_eq!(values(&seen, "authorization"), ["Bearer alice-token"]);
    assert_eq!(values(&seen, "impersonate-user"), ["carol"]);
}

/// An API server reads the first value only, and an empty one is no impersonation: the request
/// would run as the gateway.
#[tokio::test]
async fn an_empty_impersonate_user_does_not_make_the_request_the_gateways_own() {
    let site = Site::impersonating().await;
    for headers in [
        vec![("Impersonate-User", "")],
        vec![("Impersonate-User", ""), ("Impersonate-User", "admin")],
        vec![("Impersonate-User", ""), ("Impersonate-Uid", "")],
        vec![("Impersonate-User", ""), ("X-Remote-User", "")],
    ] {
        let reply = site.get("/echo", &headers).await;
        assert_eq!(reply.status(), 200, "{headers:?}: {}", reply.text());
        let seen = site.upstream.last().unwrap();
        assert_eq!(values(&seen, "impersonate-user"), ["alice"], "{headers:?}");
        assert_eq!(identity_fields(&seen), set(&HERS), "{headers:?}");
    }
}

#[tokio::test]
async fn an_empty_impersonate_user_is_not_passed_on() {
    let site = Site::new().await;
    for headers in [
        vec![TOKEN, ("Impersonate-User", "")],
        vec![
            TOKEN,
            ("Impersonate-User", ""),
            ("Impersonate-User", "admin"),
        ],
    ] {
        assert_eq!(site.get("/echo", &headers).await.status(), 200);
        let fields = identity_fields(&site.upstream.last().unwrap());
        assert_eq!(
            fields,
            set(&["authorization", "x-forwarded-for"]),
            "{headers:?}"
        );
    }
}

/// Groups, a uid or extra without a user: a server that looks at them alone grants them unasked.
#[tokio::test]
async fn a_group_uid_or_extra_without_a_user_is_refused() {
    for site in [Site::new().await, Site::impersonating().await] {
        let h2 = site.h2().await;
        for (name, value) in [
            ("impersonate-group", "system:masters"),
            ("impersonate-uid", "u1"),
            ("impersonate-extra-scopes", "admin"),
            ("impersonate-group", ""),
        ] {
            let empty = ("impersonate-user", "");
            for headers in [vec![(name, value)], vec![empty, (name, value)]] {
                let reply = site.get("/echo", &[&[TOKEN], &headers[..]].concat()).await;
                assert_status(&reply, 400, "BadRequest");
                let reply = h2
                    .call(Method::GET, &site.path("/echo"), &headers, "")
                    .await
                    .unwrap();
                assert_eq!(reply.status, 400, "{headers:?}: {}", reply.text());
            }
        }
        assert_eq!(site.uris(), [""; 0], "nothing is forwarded");
    }
}

/// Servers of the CGI tradition read `-`, `_` and `.` in names as the same.
#[tokio::test]
async fn identity_headers_in_odd_spellings_do_not_pass() {
    let site = Site::impersonating().await;
    for name in [
        "Impersonate_User",
        "IMPERSONATE_USER",
        "Impersonate.User",
        "impersonate_user",
        "Impersonate-user_",
        "iMpErSoNaTe_gRoUp",
        "Impersonate_Extra_Scopes",
        "X_Remote_User",
        "x-remote_group",
        "X_FORWARDED_CLIENT_CERT",
    ] {
        let reply = site.get("/echo", &[(name, "system:masters")]).await;
        if reply.status() == 200 {
            let seen = site.upstream.last().unwrap();
            assert_eq!(identity_fields(&seen), set(&HERS), "{name}");
            assert_eq!(values(&seen, "impersonate-user"), ["alice"], "{name}");
            assert!(
                !values(&seen, "impersonate-group").contains(&"system:masters".into()),
                "{name}"
            );
        } else {
            assert_status(&reply, 400, "BadRequest");
            assert_eq!(site.uris(), [""; 0], "{name}");
        }
        site.upstream.forget();
    }
    // The same name in another case is the same name, and counts.
    let site = Site::new().await;
    site.get("/echo", &[TOKEN, ("IMPERSONATE-USER", "carol")])
        .await;
    assert_eq!(
        values(&site.upstream.last().unwrap(), "impersonate-user"),
        ["carol"]
    );
}

#[tokio::test]
async fn forged_claims_of_a_front_proxy_do_not_pass() {
    for site in [Site::new().await, Site::impersonating().await] {
        let claims = [
            TOKEN,
            ("X-Remote-User", "admin"),
            ("X-Remote-Group", "system:masters"),
            ("X-Remote-Uid", "1"),
            ("X-Remote-Extra-Scopes", "all"),
            (
                "X-Forwarded-Client-Cert",
                "By=x;Hash=00;Subject=\"CN=admin,O=system:masters\"",
            ),
            ("X-Forwarded-User", "admin"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("X-Forwarded-Host", "evil.example"),
            ("X-Forwarded-Proto", "http"),
            ("X-Real-IP", "10.0.0.1"),
            ("Forwarded", "for=10.0.0.1;by=evil"),
            ("Client-Cert", ":AAAA:"),
            ("Client-Cert-Chain", ":AAAA:"),
        ];
        assert_eq!(site.get("/echo", &claims).await.status(), 200);
        let seen = site.upstream.last().unwrap();
        if seen.headers.contains_key("impersonate-user") {
            assert_eq!(values(&seen, "impersonate-user"), ["alice"]);
            assert!(!values(&seen, "impersonate-group").contains(&"system:masters".into()));
            assert_eq!(identity_fields(&seen), set(&HERS));
        } else {
            assert_eq!(
                identity_fields(&seen),
                set(&["authorization", "x-forwarded-for"])
            );
        }
        assert_eq!(values(&seen, "x-forwarded-for"), ["127.0.0.1"]);
    }
}

/// Two credentials: one hop believes the first, the next one the second.
#[tokio::test]
async fn only_one_authorization_header_goes_on() {
    let site = Site::new().await;
    site.get("/echo", &[TOKEN, ("Authorization", "Bearer admin-token")])
        .await;
    assert_eq!(
        values(&site.upstream.last().unwrap(), "authorization"),
        ["Bearer alice-token"]
    );
    site.get("/echo", &[("Authorization", "Basic YTpi"), TOKEN])
        .await;
    assert_eq!(
        values(&site.upstream.last().unwrap(), "authorization"),
        [""; 0]
    );
    let site = Site::impersonating().await;
    site.get("/echo", &[TOKEN]).await;
    assert_eq!(
        values(&site.upstream.last().unwrap(), "authorization"),
        ["Bearer gateway-token"]
    );
}
