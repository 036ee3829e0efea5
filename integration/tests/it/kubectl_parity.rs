//! kubectl does through the gateway what it does directly.
//!
//! Each command of the table runs on three sides: directly, through a gateway that passes the
//! caller's credential on, and through one that impersonates. Exit code, standard output and
//! standard error must be the same but for times, random names and the like.
//! The sides have a namespace each on one control plane of their own.

mod case;
mod cases;
mod normal;
mod side;

use std::fmt::Write as _;
use std::net::SocketAddr;

use futures_util::future::{join_all, try_join_all};
use integration::control_plane::{ControlPlane, Options};
use integration::gateway::{self, Cluster, Gateway, UpstreamMode};
use integration::kubectl::{Output, words};
use integration::scratch::Scratch;
use integration::{Context, Result, fixture};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use case::Case;
use side::Side;

#[tokio::test]
async fn kubectl_does_the_same_through_the_gateway() {
    let plane = Options::new()
        .controller_manager()
        .kubelet()
        .audit()
        .start()
        .await
        .unwrap();
    serve_projects(&plane).await.unwrap();
    let passing = start(&plane, UpstreamMode::PassThrough).await.unwrap();
    let impersonating = start(&plane, UpstreamMode::Impersonate).await.unwrap();
    let echo = echo_server().await.unwrap();
    let through = |gateway: &Gateway| (gateway.url(), gateway.ca_file());
    let directly = (plane.url().to_owned(), plane.ca_file().to_owned());
    let sides = try_join_all([
        Side::new("direct", 'a', &plane, directly, echo),
        Side::new("pass-through", 'b', &plane, through(&passing), echo),
        Side::new("impersonate", 'c', &plane, through(&impersonating), echo),
    ])
    .await
    .unwrap();

    let mut differences = String::new();
    let together = cases::side_by_side();
    let outputs = join_all(sides.iter().map(|side| all(side, &together))).await;
    for (number, case) in together.iter().enumerate() {
        compare(
            case,
            &sides,
            outputs.iter().map(|o| &o[number]),
            &mut differences,
        );
    }
    for case in cases::in_turn().iter().chain([&cases::LAST]) {
        let mut outputs = Vec::new();
        for side in &sides {
            outputs.push(side.run(case, case.name != cases::LAST.name).await);
        }
        compare(case, &sides, outputs.iter(), &mut differences);
    }
    for side in &sides {
        assert_eq!(
            side.copied_back().unwrap(),
            "upload\n".repeat(3),
            "{}",
            side.name
        );
    }
    assert!(differences.is_empty(), "{differences}");
}

async fn serve_projects(plane: &ControlPlane) -> Result<()> {
    let scratch = Scratch::new("parity")?;
    let admin = fixture::admin(plane, scratch.path())?;
    fixture::apply(&admin, &side::projects()).await?;
    let established = "wait --for=condition=Established crd/projects.project.openshift.io";
    admin.run(&words(established)?).await?.ok().map(drop)
}

async fn start(plane: &ControlPlane, mode: UpstreamMode) -> Result<Gateway> {
    gateway::Options::new()
        .cluster(Cluster::in_mode(plane, mode)?)
        .start()
        .await
}

async fn all(side: &Side<'_>, cases: &[Case]) -> Vec<Result<Output>> {
    let mut outputs = Vec::new();
    for case in cases {
        outputs.push(side.run(case, false).await);
    }
    outputs
}

/// Notes where a side did not end as expected, or not as the first side did.
fn compare<'o>(
    case: &Case,
    sides: &[Side<'_>],
    outputs: impl Iterator<Item = &'o Result<Output>>,
    differences: &mut String,
) {
    let outputs: Vec<_> = sides.iter().map(|s| s.name).zip(outputs).collect();
    let direct = outputs[0].1;
    let interrupted = matches!(case.way, case::Way::Watch { .. } | case::Way::PortForward);
    for (side, output) in &outputs {
        let wrong = match (direct, output) {
            (_, Err(failure)) => Some(failure.to_string()),
            (_, Ok(output)) if !interrupted && output.code != Some(case.exit) => Some(format!(
                "exit code {:?} is not {}: {output:#?}",
                output.code, case.exit
            )),
            (Ok(direct), Ok(output)) => differs(direct, output),
            (Err(_), Ok(_)) => None,
        };
        if let Some(wrong) = wrong {
            let _ = writeln!(
                differences,
                "== {} ({side}): kubectl {}\n{wrong}",
                case.name, case.command
            );
        }
    }
}

fn differs(direct: &Output, output: &Output) -> Option<String> {
    if direct == output {
        return None;
    }
    let mut text = format!(
        "exit codes: direct {:?}, here {:?}\n",
        direct.code, output.code
    );
    let streams = [
        (&direct.stdout, &output.stdout),
        (&direct.stderr, &output.stderr),
    ];
    for (expected, actual) in streams {
        let (expected, actual): (Vec<_>, Vec<_>) =
            (expected.lines().collect(), actual.lines().collect());
        for line in 0..expected.len().max(actual.len()) {
            let (left, right) = (expected.get(line), actual.get(line));
            if left != right {
                let _ = writeln!(
                    text,
                    "line {}:\n  direct {left:?}\n  here   {right:?}",
                    line + 1
                );
                break;
            }
        }
    }
    Some(text)
}

/// Answers every connection with a line, after the first bytes that come.
async fn echo_server() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("listening")?;
    let address = listener.local_addr().context("reading the address")?;
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                if tcp.read(&mut buffer).await.is_ok() {
                    let _ = tcp.write_all(b"behind the pod\n").await;
                }
            });
        }
    });
    Ok(address)
}
