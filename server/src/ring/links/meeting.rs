//! Where the two members of a link meet: the first call waits, and the second one joins it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use hyper::upgrade::OnUpgrade;
use tokio::sync::oneshot;
use tributary_protocol::id::GroupId;

use crate::net::Kept;
use crate::runtime::lock::Locked;

/// A group, and the rank of the member that sends over the link.
type Key = (GroupId, u16);

/// The connection of one member.
#[derive(Debug)]
pub(crate) struct Side {
    /// The connection, once the call is answered.
    pub(crate) upgrade: OnUpgrade,
    /// Keeps its place among the connections of the coordinator.
    pub(crate) kept: Option<Kept>,
}

/// The links of this coordinator that are waited for, and those that both members have.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    /// By link, and whether it is the sender who waits.
    waiting: HashMap<(Key, bool), Call>,
    taken: HashSet<Key>,
}

/// A call that waits for the other member.
#[derive(Debug)]
struct Call {
    number: u64,
    other: oneshot::Sender<(Side, Taken)>,
}

/// What a call comes to.
#[derive(Debug)]
pub(super) enum Turn {
    /// Both members have the link already.
    Taken,
    /// The other member waited, and passes on.
    Second,
    /// The other member has not called yet.
    First(Waiting),
}

/// A call that waits until it is dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    meetings: Arc<Meetings>,
    place: (Key, bool),
    number: u64,
    side: Option<Side>,
    other: oneshot::Receiver<(Side, Taken)>,
}

/// Both members have the link until it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    meetings: Arc<Meetings>,
    key: Key,
}

/// The connections of both members.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) sides: [Side; 2],
    /// Keeps others out.
    pub(super) taken: Taken,
}

impl Meetings {
    /// Joins the other member if it waits. A newer call of the same member replaces one that waits.
    pub(super) fn join(self: &Arc<Self>, key: Key, is_sender: bool, side: Side) -> Turn {
        let mut state = self.state.locked();
        if state.taken.contains(&key) {
            return Turn::Taken;
        }
        let mut side = Some(side);
        if let Some(call) = state.waiting.remove(&(key, !is_sender)) {
            state.taken.insert(key);
            drop(state);
            let taken = Taken { meetings: Arc::clone(self), key };
            let Err((back, taken)) = call.other.send((side.take().expect("it was just put there"), taken)) else {
                return Turn::Second;
            };
            // It has given up just now.
            side = Some(back);
            drop(taken);
            state = self.state.locked();
        }
        state.calls += 1;
        let (number, place, (other, receiver)) = (state.calls, (key, is_sender), oneshot::channel());
        state.waiting.insert(place, Call { number, other });
        Turn::First(Waiting { meetings: Arc::clone(self), place, number, side, other: receiver })
    }
}

impl Waiting {
    /// Waits for the other member; none when a newer call has taken this one's place.
    pub(super) async fn met(mut self) -> Option<Met> {
        let (other, taken) = (&mut self.other).await.ok()?;
        Some(Met { sides: [self.side.take()?, other], taken })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.meetings.state.locked();
        if state.waiting.get(&self.place).is_some_and(|call| call.number == self.number) {
            state.waiting.remove(&self.place);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.meetings.state.locked().taken.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        Side { upgrade: hyper::upgrade::on(hyper::Request::new(())), kept: None }
    }

    fn first(turn: Turn) -> Waiting {
        match turn {
            Turn::First(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn two_members_meet_once_and_a_newer_call_replaces_one_that_waits() {
        let meetings: Arc<Meetings> = Arc::default();
        let key = (GroupId::from_random([1; 16]), 3);
        let old = first(meetings.join(key, true, side()));
        let new = first(meetings.join(key, true, side()));
        assert!(old.met().await.is_none(), "its place is taken");
        assert!(matches!(meetings.join(key, false, side()), Turn::Second));
        for is_sender in [true, false] {
            assert!(matches!(meetings.join(key, is_sender, side()), Turn::Taken));
        }
        let met = new.met().await.unwrap();
        drop(met);
        // Whoever gives up while it waits leaves nothing behind, and the next one waits.
        drop(first(meetings.join(key, true, side())));
        let waits = first(meetings.join(key, false, side()));
        drop(waits);
        let state = meetings.state.locked();
        assert!(state.waiting.is_empty() && state.taken.is_empty());
    }
}
