//! Places for models that are computed while they are sent, in a form that is not stored.
//!
//! Each is a task that holds one part of the model. A client has one place: a newer request ends the older one. Where
//! all places are taken, the task whose reader has taken nothing for the longest time makes room, if that is longer
//! than `STALLED_MS`.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::task::AbortHandle;
use tributary_protocol::id::ClientId;

use crate::runtime::lock::Locked;

/// Models that are computed at the same time: each is read from beginning to end.
const PLACES: usize = 8;
/// Time without progress after which a reader makes room for another one.
const STALLED_MS: i64 = 5_000;

#[derive(Debug, Default)]
pub struct FormPlaces(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: Vec<Taken>,
}

#[derive(Debug)]
struct Taken {
    id: u64,
    client: Option<ClientId>,
    /// When the reader last took something.
    moved_at_ms: i64,
    /// `None`: the task is being started.
    task: Option<AbortHandle>,
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub struct FormPlace {
    places: Arc<FormPlaces>,
    id: u64,
    /// Whether another task was ended for it.
    pub displaced: bool,
}

impl FormPlaces {
    /// Takes a place for a client, or for an operator. `None`: all are taken by readers that read.
    pub fn take(self: &Arc<Self>, client: Option<ClientId>, now_ms: i64) -> Option<FormPlace> {
        let mut places = self.lock();
        let own = places.taken.iter().position(|taken| client.is_some() && taken.client == client);
        let ended = match own {
            None if places.taken.len() < PLACES => None,
            None => Some(places.stalled(now_ms)?),
            own => own,
        };
        if let Some(ended) = ended {
            let taken = places.taken.swap_remove(ended);
            if let Some(task) = taken.task {
                task.abort();
            }
        }
        places.next += 1;
        let id = places.next;
        places.taken.push(Taken { id, client, moved_at_ms: now_ms, task: None });
        Some(FormPlace { places: Arc::clone(self), id, displaced: ended.is_some() })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.locked()
    }
}

impl Places {
    /// The place whose reader has taken nothing for the longest time, if that is too long. A time in the future shows
    /// that the clock was set back.
    fn stalled(&self, now_ms: i64) -> Option<usize> {
        let idle_ms = |taken: &Taken| match now_ms.saturating_sub(taken.moved_at_ms) {
            ..0 => i64::MAX,
            idle_ms => idle_ms,
        };
        let longest = self.taken.iter().enumerate().max_by_key(|(_, taken)| idle_ms(taken));
        longest.filter(|(_, taken)| idle_ms(taken) >= STALLED_MS).map(|(index, _)| index)
    }
}

impl FormPlace {
    /// The task that computes the model, which ends when it must make room.
    pub fn started(&self, task: AbortHandle) {
        match self.places.lock().taken.iter_mut().find(|taken| taken.id == self.id) {
            Some(taken) => taken.task = Some(task),
            None => task.abort(),
        }
    }

    /// A handle for the task itself, which tells when the reader took something.
    pub fn progress(&self) -> Progress {
        Progress { places: Arc::clone(&self.places), id: self.id }
    }
}

impl Drop for FormPlace {
    fn drop(&mut self) {
        self.places.lock().taken.retain(|taken| taken.id != self.id);
    }
}

/// Tells when a reader took something.
#[derive(Clone, Debug)]
pub struct Progress {
    places: Arc<FormPlaces>,
    id: u64,
}

impl Progress {
    pub fn moved(&self, now_ms: i64) {
        if let Some(taken) = self.places.lock().taken.iter_mut().find(|taken| taken.id == self.id) {
            taken.moved_at_ms = now_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> Option<ClientId> {
        Some(ClientId::from_random([number; 16]))
    }

    fn busy(places: &Arc<FormPlaces>) -> (FormPlace, tokio::task::JoinHandle<()>) {
        let task = tokio::spawn(std::future::pending());
        let place = places.take(None, 0).unwrap();
        place.started(task.abort_handle());
        (place, task)
    }

    #[tokio::test]
    async fn the_reader_that_stalls_longest_makes_room_and_none_that_reads() {
        let places = Arc::new(FormPlaces::default());
        let mut taken: Vec<_> = (0..PLACES).map(|_| busy(&places)).collect();
        assert!(places.take(client(1), STALLED_MS - 1).is_none());
        for (place, _) in &taken[1..] {
            place.progress().moved(1);
        }
        let new = places.take(client(1), STALLED_MS).unwrap();
        assert!(new.displaced);
        let (place, task) = taken.swap_remove(0);
        assert!(task.await.unwrap_err().is_cancelled());
        drop(place);
        assert!(places.take(client(2), STALLED_MS).is_none(), "a place that was lost is not freed twice");
        drop(taken);
        assert!(!places.take(client(2), STALLED_MS).unwrap().displaced);
    }

    #[tokio::test]
    async fn a_client_has_one_place_and_a_clock_that_was_set_back_keeps_nobody_out() {
        let places = Arc::new(FormPlaces::default());
        let first = places.take(client(1), 1_000_000).unwrap();
        let task = tokio::spawn(std::future::pending::<()>());
        first.started(task.abort_handle());
        let second = places.take(client(1), 1_000_000).unwrap();
        assert!(second.displaced && task.await.unwrap_err().is_cancelled());
        let _others: Vec<_> = (1..PLACES).map(|_| places.take(None, 1_000_000).unwrap()).collect();
        assert!(places.take(client(2), 1_000_000).is_none());
        assert!(places.take(client(2), 0).unwrap().displaced);
    }
}
