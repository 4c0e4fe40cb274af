//! Claims: one request at a time sends the update of an assignment, and the newest wins.
//!
//! Claims order the requests of one coordinator. Between coordinators the database does: a staged body has an attempt
//! number, which each new request raises.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tributary_protocol::id::AssignmentId;

use crate::runtime::lock::Locked;

/// An update, or one part of it; an update in one body is part 0.
pub(crate) type Claimed = (AssignmentId, u16);

/// The claims of all updates in flight.
#[derive(Debug, Default)]
pub struct Claims {
    places: Mutex<HashMap<Claimed, Place>>,
}

#[derive(Debug)]
struct Place {
    /// Held by the request that sends.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled when a newer claim replaces this one.
    newest: CancellationToken,
    /// Number of claims that are not dropped.
    claims: usize,
}

/// The right to send an assignment's update, until [`Claim::superseded`] is cancelled.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    claimed: Claimed,
    superseded: CancellationToken,
    /// Whether another request had the claim before and was asked to stop.
    replaces: bool,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Claims {
    /// Claims an assignment. The request that had the claim is asked to stop, and has stopped when this returns. None
    /// when a newer claim replaced this one meanwhile.
    pub async fn claim(self: &Arc<Self>, claimed: Claimed) -> Option<Claim> {
        let (turn, superseded, replaces) = {
            let mut places = self.lock();
            let place = places.entry(claimed).or_insert_with(|| Place {
                turn: Arc::default(),
                newest: CancellationToken::new(),
                claims: 0,
            });
            place.newest.cancel();
            place.newest = CancellationToken::new();
            place.claims += 1;
            (Arc::clone(&place.turn), place.newest.clone(), place.claims > 1)
        };
        // Created first, so that it is removed even if the caller is cancelled while it waits.
        let mut claim = Claim { claims: Arc::clone(self), claimed, superseded, replaces, turn: None };
        tokio::select! {
            biased;
            () = claim.superseded.cancelled() => return None,
            turn = turn.lock_owned() => claim.turn = Some(turn),
        }
        Some(claim)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Claimed, Place>> {
        self.places.locked()
    }
}

impl Claim {
    /// Whether another request had the claim before, and may have completed the update meanwhile.
    pub fn replaces(&self) -> bool {
        self.replaces
    }

    /// Cancelled when a newer claim replaces this one.
    pub fn superseded(&self) -> &CancellationToken {
        &self.superseded
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.turn = None;
        let mut places = self.claims.lock();
        if let Some(place) = places.get_mut(&self.claimed) {
            place.claims -= 1;
            if place.claims == 0 {
                places.remove(&self.claimed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> Claimed {
        (AssignmentId::from_random([number; 16]), 0)
    }

    #[tokio::test]
    async fn a_newer_claim_stops_the_older_one_and_waits_for_its_end() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim(id(1)).await.unwrap();
        assert!(!first.superseded().is_cancelled());
        let _other = claims.claim(id(2)).await.unwrap();
        assert!(!first.superseded().is_cancelled(), "claims of other assignments are independent");
        let second = tokio::spawn({
            let claims = Arc::clone(&claims);
            async move { claims.claim(id(1)).await }
        });
        first.superseded().cancelled().await;
        assert!(!second.is_finished());
        drop(first);
        assert!(second.await.unwrap().is_some());
        assert_eq!(claims.lock().len(), 1, "nothing is kept of claims that ended");
    }

    #[tokio::test]
    async fn of_several_that_wait_only_the_newest_gets_its_turn() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim(id(1)).await.unwrap();
        let claim = || {
            tokio::spawn({
                let claims = Arc::clone(&claims);
                async move { claims.claim(id(1)).await }
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
        assert!(claims.lock().is_empty());
    }
}
