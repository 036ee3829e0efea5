//! One thread, one runtime per core for everything that touches client traffic.
//!
//! A request is read, decided, forwarded and answered on the thread that owns its connection, with
//! upstream connections of that thread: no task moves, no thread is woken for another. Measured
//! against a work-stealing runtime this is what brings the CPU per request near HAProxy's
//! (`docs/adr/0001-one-runtime-per-core.md`). Work that takes long must not run here: hand it to
//! the main runtime.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The worker threads. They end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection's place on a worker; counts while it is held.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// If the system refuses a thread or its event queue.
    pub fn start(count: usize) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let workers = (0..count.max(1))
            .map(|index| {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                let handle = runtime.handle().clone();
                let stopped = stop.clone();
                std::thread::Builder::new()
                    .name(format!("worker-{index}"))
                    .spawn(move || {
                        CURRENT.set(index);
                        runtime.block_on(stopped.cancelled());
                    })?;
                Ok(Worker {
                    runtime: handle,
                    connections: Arc::default(),
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            workers,
            _stop: stop.drop_guard(),
        })
    }

    /// As many as the machine has cores.
    #[must_use]
    pub fn default_count() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// Index of the worker that runs the caller; 0 on every other thread.
    #[must_use]
    pub fn current() -> usize {
        CURRENT.get()
    }

    /// A place on the worker with the fewest connections.
    pub(crate) fn place(&self) -> Option<Place> {
        let worker = self
            .workers
            .iter()
            .min_by_key(|w| w.connections.load(Ordering::Relaxed))?;
        worker.connections.fetch_add(1, Ordering::Relaxed);
        Some(Place {
            runtime: worker.runtime.clone(),
            connections: Arc::clone(&worker.connections),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_where_the_fewest_are() {
        let workers = Workers::start(2).unwrap();
        let (a, b) = (workers.place().unwrap(), workers.place().unwrap());
        assert!(!Arc::ptr_eq(&a.connections, &b.connections));
        let freed = Arc::clone(&a.connections);
        drop(a);
        assert!(Arc::ptr_eq(&workers.place().unwrap().connections, &freed));
    }
}
