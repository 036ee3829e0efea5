//! How the gateway ends: unready, GOAWAY, finish what is short, end watches, deadline.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flow_control::FlowControl;

/// Pause between two looks at the number of requests in flight while draining.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// Signals and tasks that everything with a connection shares.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    /// No new connections; open ones get GOAWAY or `Connection: close`.
    pub shutdown: CancellationToken,
    /// Watches end cleanly, so that informers reconnect elsewhere without a relist.
    pub end_watches: CancellationToken,
    /// Whatever is still open is cut.
    pub abort: CancellationToken,
    /// Connections and tunnels.
    pub tasks: TaskTracker,
}

/// How a drain went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Everything came to its own end.
    Clean,
    /// This many connections and tunnels were cut at the deadline.
    Cut(usize),
}

impl Lifecycle {
    /// Drains within `timeout`. Half of it is for short requests; watches end when those are done.
    pub async fn drain(&self, flow_control: &FlowControl, timeout: Duration) -> Drained {
        let begin = Instant::now();
        let deadline = begin + timeout;
        self.shutdown.cancel();
        self.tasks.close();
        let short = begin + timeout / 2;
        let _ = timeout_at(short, async {
            while flow_control.short_requests_in_flight() > 0 {
                sleep(DRAIN_POLL).await;
            }
        })
        .await;
        self.end_watches.cancel();
        if timeout_at(deadline, self.tasks.wait()).await.is_ok() {
            return Drained::Clean;
        }
        let open = self.tasks.len();
        self.abort.cancel();
        // Cancelled tasks need a turn of the scheduler to let go of their sockets.
        sleep_until(Instant::now() + DRAIN_POLL).await;
        Drained::Cut(open)
    }
}
