//! Who sends the update of an assignment: one at a time, and the newest wins.
//!
//! This is the order among the requests of one coordinator. Between coordinators the database keeps it: a body has an
//! attempt number, and whoever goes on with it raises that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::AssignmentId;

/// Updates that are on their way.
#[derive(Debug, Default)]
pub struct Uploads {
    places: Mutex<HashMap<AssignmentId, Place>>,
}

#[derive(Debug)]
struct Place {
    /// Held by the one who sends.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Ends the newest claim when a newer one comes.
    newest: CancellationToken,
    /// Claims that are not dropped.
    claims: usize,
}

/// The right to send an assignment's update, until [`Claim::superseded`].
#[derive(Debug)]
pub struct Claim {
    uploads: Arc<Uploads>,
    assignment: AssignmentId,
    superseded: CancellationToken,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Uploads {
    /// Claims an assignment: whoever had it before is told to stop, and has stopped when this returns. None when a newer
    /// claim came in the meantime.
    pub async fn claim(self: &Arc<Self>, assignment: AssignmentId) -> Option<Claim> {
        let (turn, superseded) = {
            let mut places = self.lock();
            let place = places.entry(assignment).or_insert_with(|| Place {
                turn: Arc::default(),
                newest: CancellationToken::new(),
                claims: 0,
            });
            place.newest.cancel();
            place.newest = CancellationToken::new();
            place.claims += 1;
            (Arc::clone(&place.turn), place.newest.clone())
        };
        // Made first: it gives its place up even if nobody waits for this any more.
        let mut claim = Claim { uploads: Arc::clone(self), assignment, superseded, turn: None };
        tokio::select! {
            biased;
            () = claim.superseded.cancelled() => return None,
            turn = turn.lock_owned() => claim.turn = Some(turn),
        }
        Some(claim)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AssignmentId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Ends when a newer claim came.
    #[must_use]
    pub fn superseded(&self) -> &CancellationToken {
        &self.superseded
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.turn = None;
        let mut places = self.uploads.lock();
        if let Some(place) = places.get_mut(&self.assignment) {
            place.claims -= 1;
            if place.claims == 0 {
                places.remove(&self.assignment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> AssignmentId {
        AssignmentId::from_random([number; 16])
    }

    #[tokio::test]
    async fn a_newer_claim_stops_the_older_one_and_waits_for_its_end() {
        let uploads = Arc::new(Uploads::default());
        let first = uploads.claim(id(1)).await.unwrap();
        assert!(!first.superseded().is_cancelled());
        let _other = uploads.claim(id(2)).await.unwrap();
        assert!(!first.superseded().is_cancelled(), "another assignment is nobody's business");
        let second = tokio::spawn({
            let uploads = Arc::clone(&uploads);
            async move { uploads.claim(id(1)).await }
        });
        first.superseded().cancelled().await;
        assert!(!second.is_finished());
        drop(first);
        assert!(second.await.unwrap().is_some());
        assert_eq!(uploads.lock().len(), 1, "nothing is kept of claims that ended");
    }

    #[tokio::test]
    async fn of_several_that_wait_only_the_newest_gets_its_turn() {
        let uploads = Arc::new(Uploads::default());
        let first = uploads.claim(id(1)).await.unwrap();
        let claim = || {
            tokio::spawn({
                let uploads = Arc::clone(&uploads);
                async move { uploads.claim(id(1)).await }
            })
        };
        let second = claim();
        first.superseded().cancelled().await;
        let third = claim();
        assert!(second.await.unwrap().is_none());
        drop(first);
        let third = third.await.unwrap().unwrap();
        assert!(!third.superseded().is_cancelled());
        drop(third);
        assert!(uploads.lock().is_empty());
    }
}
