//! Many callers ask the same question at once; one of them asks it of the API server.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Shares one answer among all who ask while it is being fetched. Remembers nothing afterwards.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, V> {
    flights: Mutex<HashMap<K, Arc<OnceCell<V>>>>,
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self {
            flights: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> SingleFlight<K, V> {
    /// The answer to `key`: of a flight under way, or of `ask`. A caller that goes away lets the
    /// next one ask instead.
    pub(crate) async fn run(&self, key: &K, ask: impl Future<Output = V>) -> V {
        let flight = Arc::clone(self.lock().entry(key.clone()).or_default());
        let landing = Landing {
            flights: self,
            key,
            flight: &flight,
        };
        let answer = flight.get_or_init(|| ask).await.clone();
        drop(landing);
        answer
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, Arc<OnceCell<V>>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the flight when it has landed, or when its last passenger has left.
struct Landing<'a, K: Eq + Hash + Clone, V: Clone> {
    flights: &'a SingleFlight<K, V>,
    key: &'a K,
    flight: &'a Arc<OnceCell<V>>,
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Landing<'_, K, V> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        // Two references: the map's and ours. Then nobody else waits for it.
        let last = Arc::strong_count(self.flight) <= 2;
        if let Some(current) = flights.get(self.key)
            && Arc::ptr_eq(current, self.flight)
            && (last || self.flight.initialized())
        {
            flights.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_burst_asks_once_and_a_later_caller_asks_again() {
        let (flights, asked) = (SingleFlight::default(), AtomicUsize::new(0));
        let ask = || async {
            tokio::task::yield_now().await;
            asked.fetch_add(1, Ordering::SeqCst)
        };
        let answers = join_all((0..50).map(|_| flights.run(&"k", ask()))).await;
        assert!(answers.iter().all(|a| *a == 0));
        assert_eq!(flights.run(&"k", ask()).await, 1);
        assert!(flights.lock().is_empty());
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_nothing_behind() {
        let flights = SingleFlight::<&str, ()>::default();
        let hanging = flights.run(&"k", std::future::pending());
        assert!(
            tokio::time::timeout(std::time::Duration::from_millis(5), hanging)
                .await
                .is_err()
        );
        assert!(flights.lock().is_empty());
    }
}
