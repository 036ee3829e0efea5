//! A child process that never outlives this one.
//!
//! Purpose: start a program with its output in a log file, know its pid, memory and processor
//! time, and end it.
//! Invariants: the child ends when its [`Process`] is dropped, and when this process dies in any
//! way, SIGKILL included. A signal goes only to a child that has not been reaped.

mod usage;

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub use usage::Usage;

use crate::wait::until;
use crate::{Context, Failure, Result};

/// How a child is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It watches its standard input, which this process holds open.
    StdinCloses,
    /// It listens to SIGTERM.
    Terminate,
}

/// A running child.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    ending: Ending,
    stdin: Option<ChildStdin>,
    leash: Option<Child>,
    exit: Arc<Exit>,
}

/// Where the thread that waits for the child leaves its exit status.
#[derive(Debug, Default)]
struct Exit {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Process {
    /// Starts `command` with standard error in `log`; its standard output goes to the log too,
    /// unless `piped`, when it is returned.
    ///
    /// # Errors
    /// When the log or the program cannot be opened.
    pub fn start(
        name: &str,
        mut command: Command,
        log: PathBuf,
        ending: Ending,
        piped: bool,
    ) -> Result<(Self, Option<ChildStdout>)> {
        let file = File::create(&log).context(format!("creating {}", log.display()))?;
        let copy = file.try_clone().context("duplicating the log's handle")?;
        let stdin = if ending == Ending::StdinCloses {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        // A process group of its own: Ctrl-C reaches this process only, which then ends its
        // children in order.
        command.stdin(stdin).stderr(file).process_group(0);
        command.stdout(if piped {
            Stdio::piped()
        } else {
            Stdio::from(copy)
        });
        let mut child = command.spawn().context(format!("starting {name}"))?;
        let pid = child.id();
        let leash = if ending == Ending::Terminate {
            Some(leash(pid)?)
        } else {
            None
        };
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let exit = Arc::new(Exit::default());
        let seen = Arc::clone(&exit);
        std::thread::spawn(move || seen.reap(child));
        Ok((
            Self {
                name: name.to_owned(),
                pid,
                log,
                ending,
                stdin,
                leash,
                exit,
            },
            stdout,
        ))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file with everything it printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Everything it has printed to its log so far.
    pub fn log_text(&self) -> String {
        std::fs::read(&self.log)
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of its log, for messages.
    pub fn log_tail(&self) -> String {
        tail(&self.log_text(), 25)
    }

    /// Its exit status, once it has ended.
    pub fn exited(&self) -> Option<ExitStatus> {
        *self
            .exit
            .status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory, processor time and open files, now.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.pid)
    }

    /// Sends a signal, unless it has ended.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let status = self
            .exit
            .status
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        match (*status, pid) {
            (None, Some(pid)) => {
                kill_process(pid, signal).context(format!("signalling {}", self.name))
            }
            _ => Ok(()),
        }
    }

    /// Tells it to end, without waiting.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn ask_to_end(&mut self) -> Result<()> {
        self.unleash();
        match self.ending {
            Ending::StdinCloses => drop(self.stdin.take()),
            Ending::Terminate => self.signal(Signal::TERM)?,
        }
        Ok(())
    }

    /// Tells it to end and waits for it.
    ///
    /// # Errors
    /// When it has not ended at the deadline (it is killed then).
    pub async fn stop(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.ask_to_end()?;
        self.ended(deadline).await
    }

    /// Waits for it to end by itself.
    ///
    /// # Errors
    /// When it has not ended at the deadline.
    pub async fn ended(&self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {} (pid {})", self.name, self.pid);
        until(&what, deadline, || self.exited().is_some())
            .await
            .map_err(|late| Failure::new(format!("{late}\n{}", self.log_tail())))?;
        self.exited().context("the exit status went missing")
    }

    fn unleash(&mut self) {
        if let Some(mut leash) = self.leash.take() {
            let _ = leash.kill();
            let _ = leash.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.unleash();
        if self.ending == Ending::StdinCloses {
            drop(self.stdin.take());
            if self.exit.wait(Duration::from_secs(15)) {
                return;
            }
        }
        let _ = self.signal(Signal::KILL);
        self.exit.wait(Duration::from_secs(5));
    }
}

impl Exit {
    fn reap(&self, mut child: Child) {
        // `ECHILD` cannot happen: nothing else waits for this child.
        let status = child.wait().unwrap_or_default();
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.changed.notify_all();
    }

    fn wait(&self, deadline: Duration) -> bool {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(status, deadline, |s| s.is_none());
        waited.is_ok_and(|(status, _)| status.is_some())
    }
}

/// A shell that ends `pid` when this process's end of the pipe closes, however that happens.
fn leash(pid: u32) -> Result<Child> {
    Command::new("sh")
        .args(["-c", "read -r _; kill -TERM \"$0\"", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("starting the shell that guards a child")
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all.get(from..).unwrap_or_default().join("\n")
}

/// Reads the first line of a child's standard output, and what follows into nothing, so that the
/// child never blocks on a full pipe.
///
/// # Errors
/// When no line arrives before `deadline`, or the child ends.
pub async fn first_line(
    process: &Process,
    stdout: ChildStdout,
    deadline: Duration,
) -> Result<String> {
    use std::io::{BufRead as _, BufReader};
    let (sender, mut line) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut first = String::new();
        let _ = reader.read_line(&mut first);
        let _ = sender.send(first);
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
    });
    let start = Instant::now();
    let received = tokio::time::timeout(deadline, line.recv()).await;
    match received.ok().flatten().filter(|l| !l.trim().is_empty()) {
        Some(line) => Ok(line),
        None => Err(Failure::new(format!(
            "{}: not ready after {:.1?}{}; the end of {}:\n{}",
            process.name,
            start.elapsed(),
            process
                .exited()
                .map(|s| format!(" ({s})"))
                .unwrap_or_default(),
            process.log.display(),
            process.log_tail(),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn alive(pid: u32) -> bool {
        Path::new("/proc").join(pid.to_string()).exists()
    }

    #[tokio::test]
    async fn the_first_line_comes_and_closing_stdin_ends_it() {
        let scratch = Scratch::new("process").unwrap();
        let script = shell("echo ready; echo noise >&2; cat");
        let log = scratch.path().join("log");
        let (mut process, stdout) =
            Process::start("cat", script, log, Ending::StdinCloses, true).unwrap();
        assert_eq!(
            first_line(&process, stdout.unwrap(), SOON).await.unwrap(),
            "ready\n"
        );
        assert!(process.usage().unwrap().rss > 0);
        assert!(process.stop(SOON).await.unwrap().success());
        assert_eq!(process.log_tail(), "noise");
    }

    #[tokio::test]
    async fn a_child_that_dies_before_its_line_shows_its_log() {
        let scratch = Scratch::new("process").unwrap();
        let log = scratch.path().join("log");
        let script = shell("echo no such etcd >&2; exit 3");
        let (process, stdout) =
            Process::start("broken", script, log, Ending::StdinCloses, true).unwrap();
        process.ended(SOON).await.unwrap();
        let failure = first_line(&process, stdout.unwrap(), SOON)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            failure.contains("exit status: 3") && failure.contains("no such etcd"),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn dropping_ends_a_child_that_ignores_sigterm() {
        let scratch = Scratch::new("process").unwrap();
        let log = scratch.path().join("log");
        let script = shell("trap '' TERM; echo up; exec sleep 1000");
        let (process, stdout) =
            Process::start("deaf", script, log, Ending::Terminate, true).unwrap();
        first_line(&process, stdout.unwrap(), SOON).await.unwrap();
        let pid = process.pid();
        drop(process);
        assert!(!alive(pid));
    }

    #[tokio::test]
    async fn the_leash_ends_the_child_when_its_pipe_closes() {
        let scratch = Scratch::new("process").unwrap();
        let log = scratch.path().join("log");
        let (mut process, _) = Process::start(
            "cat",
            shell("exec sleep 1000"),
            log,
            Ending::Terminate,
            false,
        )
        .unwrap();
        // What the kernel does when this process dies: the write end goes away.
        drop(process.leash.as_mut().unwrap().stdin.take());
        process.ended(SOON).await.unwrap();
    }
}
