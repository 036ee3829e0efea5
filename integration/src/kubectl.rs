//! Runs of the real kubectl.
//!
//! Purpose: what a person at a terminal does, with a deadline: whole runs, and runs that stream
//! until they are interrupted.
//! Invariants: the environment is empty but for `PATH`, `HOME` and what a test adds; discovery
//! caches are the test's own; a run that is dropped is killed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use crate::wait::{Look, eventually, within};
use crate::{Context, Failure, Result, locate};

/// How long a run may take unless the test says otherwise.
const DEADLINE: Duration = Duration::from_secs(60);

/// kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
    deadline: Duration,
}

/// A finished run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Output {
    /// The output of a run that must succeed.
    ///
    /// # Errors
    /// When it did not, with what it complained.
    pub fn ok(self) -> Result<Self> {
        if self.code == Some(0) {
            return Ok(self);
        }
        Err(Failure::new(format!(
            "kubectl ended with {:?}: {}{}",
            self.code, self.stdout, self.stderr
        )))
    }
}

impl Kubectl {
    /// kubectl as built with the control plane; it works, and keeps its cache, in `folder`.
    ///
    /// # Errors
    /// When kubectl has not been built.
    pub fn new(kubeconfig: impl Into<PathBuf>, folder: &Path) -> Result<Self> {
        Ok(Self {
            binary: locate::kubectl()?,
            kubeconfig: kubeconfig.into(),
            cache: folder.join("cache"),
            folder: folder.to_owned(),
            environment: Vec::new(),
            deadline: DEADLINE,
        })
    }

    /// With another cache folder.
    #[must_use]
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = folder.into();
        self
    }

    /// With an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another deadline per run.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When it cannot be started, or has not ended at the deadline.
    pub async fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Output> {
        self.run_with(args, "").await
    }

    /// Runs to the end, with this on standard input.
    ///
    /// # Errors
    /// When it cannot be started, or has not ended at the deadline.
    pub async fn run_with<S: AsRef<OsStr>>(&self, args: &[S], stdin: &str) -> Result<Output> {
        let mut running = self.start(args)?;
        running.write(stdin.as_bytes()).await?;
        running.close_stdin();
        running.finish(self.deadline).await
    }

    /// Starts a run that the caller ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Running> {
        let mut command = Command::new(&self.binary);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache);
        command.args(args).current_dir(&self.folder).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", &self.folder)
            .envs(self.environment.iter().cloned());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .kill_on_drop(true)
            .spawn()
            .context("starting kubectl")?;
        let words = args
            .iter()
            .map(|a| a.as_ref().to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        Ok(Running {
            what: format!("kubectl {words}"),
            stdin: child.stdin.take(),
            stdout: Capture::of(child.stdout.take()),
            stderr: Capture::of(child.stderr.take()),
            child,
        })
    }
}

/// A run that goes on.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Capture,
    stderr: Capture,
}

impl Running {
    /// Waits until what it printed so far (both outputs) matches, and returns the first match.
    ///
    /// # Errors
    /// At the deadline, or when the pattern is none.
    pub async fn printed(&self, pattern: &str, deadline: Duration) -> Result<String> {
        let regex = Regex::new(pattern).context(format!("the pattern {pattern}"))?;
        let what = format!("{} to print {pattern}", self.what);
        eventually(&what, deadline, || {
            let text = format!("{}{}", self.stdout.text(), self.stderr.text());
            let found = regex.find(&text).map(|m| m.as_str().to_owned());
            std::future::ready(found.map_or(Look::Not(text), Look::Ready))
        })
        .await
    }

    /// What it has printed on standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// When its input is closed.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(stdin) = &mut self.stdin {
            match stdin.write_all(bytes).await {
                // It may end without reading all of it, as a command with wrong arguments does.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                other => other.context(format!("writing to {}", self.what))?,
            }
        }
        Ok(())
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Presses Ctrl-C.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn interrupt(&self) -> Result<()> {
        let pid = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        pid.map_or(Ok(()), |pid| kill_process(pid, Signal::INT))
            .context("interrupting kubectl")
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it has not ended at the deadline (it is killed then).
    pub async fn finish(mut self, deadline: Duration) -> Result<Output> {
        let ended = within(&self.what, deadline, self.child.wait()).await;
        let status = ended
            .map_err(|late| {
                Failure::new(format!(
                    "{late}; {}{}",
                    self.stdout.text(),
                    self.stderr.text()
                ))
            })?
            .context(&self.what)?;
        let (stdout, stderr) = (self.stdout.end().await?, self.stderr.end().await?);
        Ok(Output {
            code: status.code(),
            stdout,
            stderr,
        })
    }
}

/// Collects one output as it comes.
#[derive(Debug)]
struct Capture {
    bytes: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

impl Capture {
    fn of(pipe: Option<impl AsyncRead + Unpin + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reading = tokio::spawn(async move {
            let Some(mut pipe) = pipe else { return };
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
                let piece = buffer.get(..count).unwrap_or_default();
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(piece);
            }
        });
        Self { bytes, reading }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    async fn end(&mut self) -> Result<String> {
        within("the end of kubectl's output", DEADLINE, &mut self.reading)
            .await?
            .context("reading kubectl's output")?;
        Ok(self.text())
    }
}

/// Splits a command as a shell does: blanks separate, single quotes group.
///
/// # Errors
/// When a quote is not closed.
pub fn words(command: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err(Failure::new(format!("a quote is not closed: {command}")));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(words("a  'b \"c\"' d''").unwrap(), ["a", "b \"c\"", "d"]);
        assert!(words("a 'b").is_err());
    }
}
