//! `make demo`: a narrated kubectl session through the gateway.
//!
//! Purpose: show in two minutes what the gateway does, on real clusters, and check it on the way.
//! Invariant: what is printed is what ran. Each step has an expectation; one that is missed is
//! shown, and makes the whole session a failure.

mod screen;
mod script;

use std::path::PathBuf;
use std::time::Duration;

use regex::Regex;

pub use screen::Screen;

use crate::control_plane::{self, ControlPlane};
use crate::gateway::{self, Cluster, Gateway};
use crate::kubeconfig::{self, Credential, Entry};
use crate::kubectl::{self, Kubectl, Output};
use crate::scratch::Scratch;
use crate::{Context, Result};
use script::{Step, Way};

const USERS: [&str; 3] = ["admin", "alice", "bob"];
const WATCHED: Duration = Duration::from_secs(90);
const DRAINED: Duration = Duration::from_secs(60);

/// Two clusters, the gateway, and three users' kubeconfigs.
#[derive(Debug)]
pub struct Demo {
    gateway: Gateway,
    clusters: Vec<(&'static str, ControlPlane)>,
    dir: Scratch,
}

impl Demo {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not become ready.
    pub async fn start(screen: &Screen) -> Result<Self> {
        screen.title("Portcullis: one gateway, two Kubernetes clusters, three people");
        screen.say("Starting two real control planes (etcd, kube-apiserver, controller manager)…");
        let plane = || {
            control_plane::Options::new()
                .controller_manager()
                .kubelet()
                .start()
        };
        let (east, west) = tokio::try_join!(plane(), plane())?;
        screen.say("…and the gateway in front of both, as demo/east and demo/west.");
        let gateway = gateway::Options::new()
            .cluster(Cluster::of(&east).named("demo", "east"))
            .cluster(Cluster::of(&west).named("demo", "west"))
            .start()
            .await?;
        let demo = Self {
            gateway,
            clusters: vec![("east", east), ("west", west)],
            dir: Scratch::new("demo")?,
        };
        for user in USERS {
            demo.write_kubeconfig(user)?;
        }
        Ok(demo)
    }

    /// Runs the session; whether every step went as it should.
    ///
    /// # Errors
    /// When a command cannot be run at all.
    pub async fn session(&self, screen: &Screen) -> Result<bool> {
        let mut who = "";
        let mut missed = 0;
        let steps = script::steps();
        for step in &steps {
            screen.narrate(step.say);
            if step.who != who {
                who = step.who;
                let path = self.kubeconfig(who);
                screen.command(&format!("export KUBECONFIG={}", path.display()));
            }
            let output = self.run(step, screen).await?;
            missed += usize::from(!judge(step, &output, screen)?);
        }
        screen.verdict(steps.len(), missed);
        Ok(missed == 0)
    }

    /// Says how to go on by hand.
    pub fn hint(&self, screen: &Screen) {
        screen.title("Both clusters stay up until Ctrl-C. In another terminal:");
        for user in USERS {
            screen.command(&format!(
                "export KUBECONFIG={}",
                self.kubeconfig(user).display()
            ));
        }
        screen.command("kubectl --context west get namespaces");
        let log = self.gateway.process().log().display();
        let admin = self.gateway.admin_address();
        screen.say(&format!("Log: {log}\nMetrics: http://{admin}/metrics"));
    }

    /// Takes everything down.
    ///
    /// # Errors
    /// When a part does not end, or not well.
    pub async fn stop(self, screen: &Screen) -> Result<()> {
        screen.say("Stopping the gateway and both clusters…");
        let status = self.gateway.stop(DRAINED).await?;
        for (_, plane) in self.clusters {
            plane.stop().await?;
        }
        status
            .success()
            .then_some(())
            .context(format!("the gateway ended with {status}"))
    }

    async fn run(&self, step: &Step, screen: &Screen) -> Result<Output> {
        let client = Kubectl::new(self.kubeconfig(step.who), self.dir.path())?;
        let words = kubectl::words(step.command)?;
        match step.way {
            Way::Plain => {
                screen.command(&format!("kubectl {}", step.command));
                let output = client.run(&words).await?;
                screen.output(&output);
                Ok(output)
            }
            Way::Document(document) => {
                screen.command(&format!("kubectl {} <<'EOF'\n{document}EOF", step.command));
                let output = client.run_with(&words, document).await?;
                screen.output(&output);
                Ok(output)
            }
            Way::Watch { first, meanwhile } => {
                screen.command(&format!("kubectl {}", step.command));
                let running = client.start(&words)?;
                running.printed(first, WATCHED).await?;
                let before = running.stdout();
                screen.text(&before);
                screen.narrate("In a second terminal:");
                screen.command(&format!("kubectl {meanwhile}"));
                screen.output(&client.run(&kubectl::words(meanwhile)?).await?);
                screen.narrate("And the watch goes on:");
                // A watch that shows too little ends at the deadline, and is judged by that.
                let _ = running.printed(step.expect, WATCHED).await;
                running.interrupt()?;
                let output = running.finish(WATCHED).await?;
                screen.text(
                    output
                        .stdout
                        .strip_prefix(&before)
                        .unwrap_or(&output.stdout),
                );
                screen.text(&format!("{}^C\n", output.stderr));
                Ok(output)
            }
        }
    }

    fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.path().join(format!("{user}.kubeconfig"))
    }

    /// The user's contexts `east` and `west`, and `nowhere`, which no administrator knows.
    fn write_kubeconfig(&self, user: &str) -> Result<()> {
        let mut entries = Vec::new();
        for (name, plane) in &self.clusters {
            entries.push(self.entry(name, Credential::token(plane.user(user)?)));
        }
        if let Some((_, plane)) = self.clusters.first() {
            entries.push(self.entry("nowhere", Credential::token(plane.user(user)?)));
        }
        kubeconfig::write(&self.kubeconfig(user), &entries)
    }

    fn entry(&self, cluster: &str, credential: Credential) -> Entry {
        Entry {
            name: cluster.to_owned(),
            server: format!("https://{}/clusters/demo/{cluster}", self.gateway.address()),
            ca_file: self.gateway.ca_file(),
            credential,
            namespace: "default".to_owned(),
        }
    }
}

/// Whether the output is what it should be; if not, says what should have been.
fn judge(step: &Step, output: &Output, screen: &Screen) -> Result<bool> {
    let pattern = Regex::new(step.expect).context(format!("the pattern {}", step.expect))?;
    let text = format!("{}{}", output.stdout, output.stderr);
    // A watch ends by the interrupt, not with a code of its own.
    let code = matches!(step.way, Way::Watch { .. }) || output.code == Some(step.exit);
    let good = code && pattern.is_match(&text);
    if !good {
        let (exit, seen) = (step.exit, output.code);
        screen.miss(&format!(
            "expected exit {exit} and /{pattern}/; it ended with {seen:?}"
        ));
    }
    Ok(good)
}
