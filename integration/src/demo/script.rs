//! The session, step by step.

/// One command and what it should show.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) say: &'static str,
    pub(super) who: &'static str,
    /// The arguments of kubectl as typed; quotes group words.
    pub(super) command: &'static str,
    pub(super) way: Way,
    pub(super) exit: i32,
    /// A pattern that its output must match.
    pub(super) expect: &'static str,
}

/// How a step runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// To its end.
    Plain,
    /// To its end, with a document on standard input.
    Document(&'static str),
    /// Until it has printed `first`; then the user runs `meanwhile` in a second terminal; then
    /// until the output is as expected; then Ctrl-C.
    Watch {
        first: &'static str,
        meanwhile: &'static str,
    },
}

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: registry.example/web:1
";

pub(super) fn steps() -> Vec<Step> {
    let mut steps = arrive();
    steps.extend(work());
    steps.extend(limits());
    steps
}

/// Three people reach two clusters.
fn arrive() -> Vec<Step> {
    vec![
        plain(
            "The administrator looks at cluster east, through the gateway.",
            "admin",
            "--context east get namespaces",
            0,
            r"default\s+Active",
        ),
        plain(
            "A namespace for the shop.",
            "admin",
            "create namespace shop",
            0,
            "namespace/shop created",
        ),
        plain(
            "Alice is a developer: the cluster behind the gateway knows her by her own token.",
            "alice",
            "auth whoami",
            0,
            r"Username\s+alice\n(?s:.*)developers",
        ),
    ]
}

/// What a developer does all day.
fn work() -> Vec<Step> {
    vec![
        Step {
            way: Way::Document(WEB),
            ..plain(
                "She deploys.",
                "alice",
                "-n shop apply -f -",
                0,
                "deployment.apps/web created",
            )
        },
        plain(
            "Until it runs.",
            "alice",
            "-n shop rollout status deployment/web",
            0,
            "successfully rolled out",
        ),
        Step {
            way: Way::Watch {
                first: r"web-\S+\s+1/1\s+Running",
                meanwhile: "-n shop scale deployment web --replicas=3",
            },
            ..plain(
                "She watches, and scales up: each event passes the gateway as it happens.",
                "alice",
                "-n shop get pods --watch",
                0,
                r"(?m)(?:^web-\S+\s+1/1\s+Running(?s:.*)){3}",
            )
        },
        plain(
            "A command inside a pod: exec is a WebSocket through the gateway to the kubelet.",
            "alice",
            "-n shop exec deploy/web -- sh -c 'echo \"hello from $HOSTNAME\"'",
            0,
            "hello from web-",
        ),
        plain(
            "Logs too.",
            "alice",
            "-n shop logs deploy/web --tail=2",
            0,
            "web line 3",
        ),
        plain(
            "Cluster west is another cluster behind the same address; nothing is deployed there.",
            "alice",
            "--context west get deployments --all-namespaces",
            0,
            "No resources found",
        ),
    ]
}

/// What is refused, and by whom.
fn limits() -> Vec<Step> {
    vec![
        plain(
            "Bob may look…",
            "bob",
            "-n shop get deployments",
            0,
            r"web\s+[1-3]/3",
        ),
        plain(
            "…but not touch. The refusal is the cluster's own, word for word.",
            "bob",
            "-n shop delete deployment web",
            1,
            r#"Forbidden.*User "bob" cannot delete resource "deployments""#,
        ),
        plain(
            "He can ask beforehand.",
            "bob",
            "-n shop auth can-i delete deployments",
            1,
            r"(?m)^no$",
        ),
        plain(
            "The administrator may look through Bob's eyes with --as…",
            "admin",
            "-n shop get secrets --as bob",
            1,
            r#"User "bob" cannot list resource "secrets""#,
        ),
        plain(
            "…but Alice may not become the administrator.",
            "alice",
            "get nodes --as admin --as-group system:masters",
            1,
            r"(?i)forbidden.*impersonate",
        ),
        plain(
            "A cluster that the gateway does not know.",
            "alice",
            "--context nowhere get --raw /version",
            1,
            r"(?i)not ?found|could not find",
        ),
        plain(
            "Cleaning up: a deletion that waits for its end is a watch as well.",
            "admin",
            "delete namespace shop",
            0,
            r#"namespace "shop" deleted"#,
        ),
    ]
}

fn plain(
    say: &'static str,
    who: &'static str,
    command: &'static str,
    exit: i32,
    expect: &'static str,
) -> Step {
    Step {
        say,
        who,
        command,
        way: Way::Plain,
        exit,
        expect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubectl::words;

    #[test]
    fn every_pattern_is_one() {
        for step in steps() {
            assert!(regex::Regex::new(step.expect).is_ok(), "{}", step.expect);
            assert!(words(step.command).is_ok());
        }
    }
}
