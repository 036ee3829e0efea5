//! A folder of files, watched.
//!
//! Invariant: a reading with a fault changes nothing but the health. The system's notifications
//! make reloads fast; a slow poll makes them certain, and finds changes of files elsewhere that
//! the folder's objects name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use portcullis_core::observer::Observer;
use portcullis_core::yaml::Diagnostic;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{SourceError, SourceHealth, SourceState};
use crate::candidate::Candidate;
use crate::directory::load;

/// Name of the source in metrics and health.
pub(super) const NAME: &str = "directory";
/// Faults that the log shows of one reading.
const LOGGED: usize = 20;
/// Most quiet periods that one burst of changes may delay a reload.
const PATIENCE: usize = 10;

/// How fast sources react.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long nothing more must happen before a change is read.
    pub(super) quiet: Duration,
    /// How often everything is read although nothing seems to have happened.
    pub(super) poll: Duration,
    /// How long the first answers of the federating cluster are waited for.
    pub(super) sync: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(100),
            poll: Duration::from_secs(10),
            sync: Duration::from_secs(30),
        }
    }
}

/// Reads the folder and goes on watching it.
pub(super) async fn start(
    folder: &Path,
    cross_namespace: bool,
    pace: Pace,
    observer: Arc<dyn Observer>,
) -> Result<watch::Receiver<SourceState>, SourceError> {
    let changed = Arc::new(Notify::new());
    // Watching begins before reading: a change in between is not lost.
    let watcher = watcher(folder, &changed);
    let reader = Reader {
        folder: folder.to_owned(),
        cross_namespace,
    };
    let candidates = match reader.read().await {
        Some(Ok(candidates)) => candidates,
        Some(Err(diagnostics)) => {
            observer.reloaded(NAME, false);
            return Err(SourceError::Directory(diagnostics));
        }
        None => return Err(SourceError::Interrupted),
    };
    observer.reloaded(NAME, true);
    log_notices(&candidates);
    let (state, receiver) = watch::channel(SourceState {
        candidates: Arc::new(candidates),
        observed: Arc::default(),
        health: SourceHealth {
            name: NAME,
            synced: true,
            problem: None,
        },
    });
    let follower = Follower {
        reader,
        changed,
        pace,
        observer,
        state,
        _watcher: watcher,
    };
    tokio::spawn(follower.run());
    Ok(receiver)
}

/// `None` if the system cannot notify: the poll has to do.
fn watcher(folder: &Path, changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let notify = Arc::clone(changed);
    let made = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // Our own reading is an access too.
        let relevant = event.is_ok_and(|event| match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
            EventKind::Access(_) => false,
            _ => true,
        });
        if relevant {
            notify.notify_one();
        }
    });
    let watching = made.and_then(|mut watcher| {
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map(|()| watcher)
    });
    watching
        .inspect_err(|error| {
            let folder = folder.display();
            tracing::warn!(%folder, "changes of the folder are found by polling only: {error}");
        })
        .ok()
}

struct Reader {
    folder: PathBuf,
    cross_namespace: bool,
}

impl Reader {
    /// `None` if the process is ending.
    async fn read(&self) -> Option<Result<Vec<Candidate>, Vec<Diagnostic>>> {
        let (folder, cross_namespace) = (self.folder.clone(), self.cross_namespace);
        spawn_blocking(move || load(&folder, cross_namespace))
            .await
            .ok()
    }
}

struct Follower {
    reader: Reader,
    changed: Arc<Notify>,
    pace: Pace,
    observer: Arc<dyn Observer>,
    state: watch::Sender<SourceState>,
    _watcher: Option<RecommendedWatcher>,
}

impl Follower {
    async fn run(self) {
        loop {
            tokio::select! {
                () = self.state.closed() => return,
                _ = timeout(self.pace.poll, self.changed.notified()) => {}
            }
            for _ in 0..PATIENCE {
                if timeout(self.pace.quiet, self.changed.notified())
                    .await
                    .is_err()
                {
                    break;
                }
            }
            match self.reader.read().await {
                Some(Ok(candidates)) => self.accept(candidates),
                Some(Err(diagnostics)) => self.refuse(&diagnostics),
                None => return,
            }
        }
    }

    fn accept(&self, candidates: Vec<Candidate>) {
        let news = {
            let state = self.state.borrow();
            *state.candidates != candidates || state.health.problem.is_some()
        };
        if !news {
            return;
        }
        self.observer.reloaded(NAME, true);
        log_notices(&candidates);
        tracing::info!(source = NAME, clusters = candidates.len(), "reloaded");
        self.state.send_modify(|state| {
            state.candidates = Arc::new(candidates);
            state.health.problem = None;
        });
    }

    fn refuse(&self, diagnostics: &[Diagnostic]) {
        let first = diagnostics
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        let more = match diagnostics.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let problem = format!("the last good set is kept: {first}{more}");
        if self.state.borrow().health.problem.as_ref() == Some(&problem) {
            return;
        }
        self.observer.reloaded(NAME, false);
        for diagnostic in diagnostics.iter().take(LOGGED) {
            tracing::error!(
                source = NAME,
                "not reloaded, the last good set is kept: {diagnostic}"
            );
        }
        self.state
            .send_modify(|state| state.health.problem = Some(problem));
    }
}

fn log_notices(candidates: &[Candidate]) {
    for candidate in candidates {
        for notice in &candidate.notices {
            tracing::warn!(cluster = %candidate.config.key, "{notice}");
        }
    }
}
