//! The rig and the demo, run as people run them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use integration::kubectl::Kubectl;
use integration::process::{Ending, Process, first_line};
use integration::scratch::Scratch;
use integration::wait;
use serde_json::Value;

const SESSION: Duration = Duration::from_secs(300);

#[tokio::test]
async fn the_rig_prints_one_line_that_tells_how_to_reach_it_and_ends_with_its_stdin() {
    let scratch = Scratch::new("rig-test").unwrap();
    let extra = scratch
        .write("extra.yaml", "limits: {maxConnections: 77}\n")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rig"));
    command
        .args([
            "--http",
            "h2",
            "--upstream-mode",
            "impersonate",
            "--gateway-config",
        ])
        .arg(extra);
    let log = scratch.path().join("rig.log");
    let (mut rig, stdout) = Process::start("rig", command, log, Ending::StdinCloses, true).unwrap();
    let line = first_line(&rig, stdout.unwrap(), SESSION).await.unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();

    for side in ["direct", "gateway"] {
        alice_is_known(&report[side], &scratch).await;
    }
    let url = report["gateway"]["url"].as_str().unwrap();
    assert!(url.starts_with("https://127.0.0.1:") && url.ends_with("/clusters/default/kube"));
    assert!(
        report["gateway"]["admin"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    let config = std::fs::read_to_string(report["config"]["gateway"].as_str().unwrap()).unwrap();
    assert!(
        config.contains("maxConnections: 77") && config.contains("- h2"),
        "{config}"
    );
    for log in report["logs"].as_object().unwrap().values() {
        assert!(Path::new(log.as_str().unwrap()).is_file(), "{log}");
    }

    let pids = report["pids"].as_object().unwrap().clone();
    assert!(
        pids.contains_key("gateway") && pids.contains_key("kube-apiserver"),
        "{pids:?}"
    );
    assert!(
        rig.stop(SESSION).await.unwrap().success(),
        "{}",
        rig.log_text()
    );
    let gone = || {
        pids.values()
            .all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    wait::until(
        "every process of the rig to end",
        Duration::from_secs(10),
        gone,
    )
    .await
    .unwrap();
}

async fn alice_is_known(side: &Value, scratch: &Scratch) {
    let alice = &side["users"]["alice"];
    for file in [&side["caFile"], &alice["certFile"], &alice["keyFile"]] {
        assert!(Path::new(file.as_str().unwrap()).is_file(), "{file}");
    }
    let kubeconfig = alice["kubeconfig"].as_str().unwrap();
    let kubectl = Kubectl::new(kubeconfig, scratch.path()).unwrap();
    let whoami = kubectl
        .run(&["auth", "whoami"])
        .await
        .unwrap()
        .ok()
        .unwrap();
    assert!(whoami.stdout.contains("alice"), "{whoami:?}");
}

#[tokio::test]
async fn the_demo_goes_as_it_should() {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_demo"));
    command
        .arg("--once")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = wait::within("the demo", SESSION, command.output())
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{complaints}");
    assert!(
        !text.contains('\u{1b}'),
        "colour although this is no terminal"
    );
}
