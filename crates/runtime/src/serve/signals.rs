//! SIGTERM and SIGINT. The first asks for a drain, the second for an end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves when the process is asked to end.
pub(super) async fn wait_for_end() {
    let (Some(mut term), Some(mut int)) = (
        listen(SignalKind::terminate()),
        listen(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// Runs `work` to its end, or to the next signal: then the answer is `None`.
pub(super) async fn unless_told_again<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = wait_for_end() => None,
    }
}

fn listen(kind: SignalKind) -> Option<Signal> {
    match signal(kind) {
        Ok(signal) => Some(signal),
        Err(error) => {
            // Without handlers the system's default applies: the process ends at once.
            tracing::error!("signals cannot be handled: {error}");
            None
        }
    }
}
