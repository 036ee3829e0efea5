//! Who a caller is, established in each of the ways the gateway knows, on a real API server.

use integration::client::{H2Client, Target};
use integration::control_plane::ControlPlane;
use integration::gateway::{Cluster, Gateway, Options};
use serde_json::{Value, json};

async fn gateway(plane: &ControlPlane, cluster: Cluster) -> Gateway {
    let options = Options::new()
        .cluster(cluster)
        .client_ca(plane.client_ca_file());
    options.start().await.unwrap()
}

/// Who the API server believes the caller is.
async fn whoami(client: &H2Client, gateway: &Gateway, headers: &[(&str, &str)]) -> (u16, Value) {
    let path = format!(
        "{}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        gateway.path()
    );
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let reply = client
        .call(http::Method::POST, &path, &all, review.to_string())
        .await
        .unwrap();
    let code = reply.status.as_u16();
    (code, reply.json().unwrap()["status"]["userInfo"].clone())
}

#[tokio::test]
async fn a_client_certificate_is_a_login_where_the_gateway_impersonates() {
    let plane = ControlPlane::shared().await.unwrap();
    let cluster = Cluster::of(plane).impersonate(plane.user("gateway").unwrap());
    let gateway = gateway(plane, cluster).await;
    let alice = plane.user("alice").unwrap();
    let target = Target::gateway(&gateway).identity(&alice.cert_file, &alice.key_file);
    let client = H2Client::connect(&target).await.unwrap();
    let (code, user) = whoami(&client, &gateway, &[]).await;
    assert_eq!(code, 201, "{user}");
    assert_eq!(user["username"], "alice");
    assert_eq!(
        user["groups"],
        json!(["developers", "system:authenticated"])
    );
}

#[tokio::test]
async fn a_client_certificate_is_no_login_where_credentials_pass_through() {
    let plane = ControlPlane::shared().await.unwrap();
    let gateway = gateway(plane, Cluster::of(plane)).await;
    let alice = plane.user("alice").unwrap();
    let target = Target::gateway(&gateway).identity(&alice.cert_file, &alice.key_file);
    let client = H2Client::connect(&target).await.unwrap();
    assert_eq!(whoami(&client, &gateway, &[]).await.0, 401);
    let bob = format!("Bearer {}", plane.user("bob").unwrap().token);
    let (code, user) = whoami(&client, &gateway, &[("authorization", &bob)]).await;
    assert_eq!(
        (code, &user["username"]),
        (201, &json!("bob")),
        "the token decides"
    );
}

#[tokio::test]
async fn a_token_review_with_the_gateways_own_credential_establishes_the_caller() {
    let plane = ControlPlane::shared().await.unwrap();
    for mode in ["PassThrough", "Impersonate"] {
        let token = std::env::temp_dir().join(format!("token-{}-{mode}", std::process::id()));
        std::fs::write(&token, &plane.user("gateway").unwrap().token).unwrap();
        let cluster = Cluster::of(plane).with(json!({
            "upstream_mode": mode,
            "gateway_credential": {"TokenFile": {"path": token}},
            "auth_config": {"review": "TokenReview"},
        }));
        let gateway = gateway(plane, cluster).await;
        let client = H2Client::connect(&Target::gateway(&gateway)).await.unwrap();
        let alice = format!("Bearer {}", plane.user("alice").unwrap().token);
        let (code, user) = whoami(&client, &gateway, &[("authorization", &alice)]).await;
        assert_eq!((code, &user["username"]), (201, &json!("alice")), "{mode}");
        let (code, _) = whoami(&client, &gateway, &[("authorization", "Bearer nobody's")]).await;
        assert_eq!(code, 401, "{mode}");
        std::fs::remove_file(&token).unwrap();
    }
}
