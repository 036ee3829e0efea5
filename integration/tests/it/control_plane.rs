//! The control plane itself: what all other tests stand on.

use std::path::Path;
use std::time::Duration;

use http::Method;
use integration::client::{H2Client, SOON, Target};
use integration::control_plane::{ControlPlane, Options};
use integration::kubectl::Kubectl;
use integration::scratch::Scratch;
use integration::{fixture, wait};

#[tokio::test]
async fn every_user_is_known_by_token_and_by_certificate() {
    let plane = ControlPlane::shared().await.unwrap();
    let target = Target::url(plane.url(), plane.ca_file()).unwrap();
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (name, user) in plane.users() {
        let bearer = format!("Bearer {}", user.token);
        let with_cert = target.clone().identity(&user.cert_file, &user.key_file);
        let ways = [(&target, Some(bearer.as_str())), (&with_cert, None)];
        for (target, authorization) in ways {
            let mut headers = vec![("content-type", "application/json")];
            headers.extend(authorization.map(|a| ("authorization", a)));
            let client = H2Client::connect(target).await.unwrap();
            let reply = client
                .call(Method::POST, path, &headers, review)
                .await
                .unwrap();
            let info = &reply.json().unwrap()["status"]["userInfo"];
            assert_eq!(info["username"], name.as_str());
        }
    }
}

#[tokio::test]
async fn pods_run_and_answer_exec() {
    let plane = ControlPlane::shared().await.unwrap();
    let scratch = Scratch::new("smoke").unwrap();
    let admin = fixture::admin(plane, scratch.path()).unwrap();
    fixture::namespace(&admin, "smoke").await.unwrap();
    fixture::pods(&admin, "smoke", &["p0"]).await.unwrap();
    let exec = [
        "-n",
        "smoke",
        "exec",
        "p0",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 3",
    ];
    let output = admin.run(&exec).await.unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(3), "out\n"));
    assert!(output.stderr.starts_with("err\n"), "{}", output.stderr);
}

#[tokio::test]
async fn roles_are_as_promised() {
    let plane = ControlPlane::shared().await.unwrap();
    let scratch = Scratch::new("roles").unwrap();
    let can = async |user: &str, question: &[&str]| {
        let kubectl = Kubectl::new(&plane.user(user).unwrap().kubeconfig, scratch.path()).unwrap();
        let output = kubectl
            .run(&[&["auth", "can-i"], question].concat())
            .await
            .unwrap();
        output.stdout.trim().to_owned()
    };
    assert_eq!(can("alice", &["create", "deployments.apps"]).await, "yes");
    assert_eq!(can("bob", &["list", "pods"]).await, "yes");
    assert_eq!(can("bob", &["create", "deployments.apps"]).await, "no");
    assert_eq!(can("gateway", &["impersonate", "users"]).await, "yes");
    assert_eq!(
        can("gateway", &["create", "tokenreviews.authentication.k8s.io"]).await,
        "yes"
    );
    assert_eq!(can("gateway", &["list", "pods"]).await, "no");
}

#[tokio::test]
async fn stopping_ends_every_process() {
    let plane = Options::new().start().await.unwrap();
    let pids: Vec<u32> = plane.pids().values().copied().collect();
    assert!(pids.len() >= 2, "{:?}", plane.pids());
    plane.stop().await.unwrap();
    let gone = || {
        pids.iter()
            .all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    wait::until("all processes to end", SOON, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_component_that_fails_shows_why() {
    let started = Options::new().apiserver_arg("--no-such-flag").start();
    let failure = wait::within("the failure", Duration::from_secs(60), started)
        .await
        .unwrap();
    let failure = failure.unwrap_err().to_string();
    assert!(failure.contains("no-such-flag"), "{failure}");
}
