//! The groups that are open now, and the links of theirs that nobody has taken yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::hello::{Hello, HelloError};
use super::link::{Link, LinkError};
use super::peer::PeerKey;
use crate::locked::Locked;

/// Neighbours of a member of a ring.
const DEGREE: usize = 2;
/// Most connections of one group that others have opened. Twice the neighbours: an old link may still be open while its
/// successor is made.
pub(super) const CONNECTIONS_MAX: usize = 2 * DEGREE + 4;

/// An attempt of a group, as this member's roster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGroup {
    /// The id of the group.
    pub group: [u8; 16],
    /// Which attempt of the group.
    pub attempt: u32,
    /// The own rank.
    pub rank: u16,
    /// The members that may connect: their ranks with their keys.
    pub peers: Vec<(u16, PeerKey)>,
}

/// While it lives, members of its group may connect. Dropping it closes the links that nobody has taken. Links that
/// were taken stay open.
#[derive(Debug)]
pub struct Admission {
    group: Arc<Group>,
    admitted: Arc<Admitted>,
}

impl Admission {
    /// Waits until the member of this rank has connected. A later connection of that member replaces an earlier one
    /// that nobody has taken. Abandoning the wait loses no link. There is no limit of time, and a rank not among
    /// the group's peers never connects.
    ///
    /// # Errors
    /// [`LinkError::Ended`] if the listener has been dropped.
    pub async fn accept(&self, rank: u16) -> Result<Link, LinkError> {
        let mut changes = self.group.has_ended.subscribe();
        loop {
            if let Some(link) = self.group.waiting.locked().remove(&rank) {
                return Ok(link);
            }
            // Not marked as seen: a link may have come since the look above.
            if *changes.borrow() || changes.changed().await.is_err() {
                return Err(LinkError::Ended);
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.admitted.groups.locked().retain(|group| !Arc::ptr_eq(group, &self.group));
        self.group.waiting.locked().clear();
    }
}

/// All groups that are open at one listener.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    groups: Mutex<Vec<Arc<Group>>>,
}

/// A group with the connections to it.
#[derive(Debug)]
pub(super) struct Group {
    open: OpenGroup,
    /// Links that nobody has taken yet, by rank.
    waiting: Mutex<HashMap<u16, Link>>,
    places: Arc<Semaphore>,
    /// Whether the listener has ended. Marked as changed for each link that comes, too.
    has_ended: watch::Sender<bool>,
}

impl Admitted {
    pub(super) fn admit(self: &Arc<Self>, open: OpenGroup) -> Admission {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let has_ended = watch::Sender::new(false);
        let group = Arc::new(Group { open, waiting: Mutex::default(), places, has_ended });
        self.groups.locked().push(Arc::clone(&group));
        Admission { group, admitted: Arc::clone(self) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.locked().is_empty()
    }

    /// Whether a group is open in which a member with this key may connect, and has a place for it.
    pub(super) fn accepts(&self, key: PeerKey) -> bool {
        self.groups.locked().iter().any(|group| {
            let mut ranks = group.open.peers.iter().filter(|(_, known)| *known == key);
            ranks.any(|(rank, _)| group.has_place(*rank))
        })
    }

    /// The group for which a member with this key says hello.
    ///
    /// # Errors
    /// [`HelloError`] if there is none.
    pub(super) fn find(&self, key: PeerKey, hello: Hello) -> Result<Arc<Group>, HelloError> {
        let groups = self.groups.locked();
        let mut refused = HelloError::Group;
        // A key may be in several groups, and a group may be open twice while one attempt follows another.
        for group in groups.iter().filter(|group| group.open.group == hello.group) {
            match group.expects(key, hello) {
                Ok(()) => return Ok(Arc::clone(group)),
                Err(reason) => refused = reason,
            }
        }
        Err(refused)
    }

    /// Closes all groups for good.
    pub(super) fn end(&self) {
        for group in self.groups.locked().drain(..) {
            group.has_ended.send_replace(true);
        }
    }
}

impl Group {
    fn expects(&self, key: PeerKey, hello: Hello) -> Result<(), HelloError> {
        let OpenGroup { group, attempt, rank, ref peers } = self.open;
        let is_theirs = peers.contains(&(hello.from, key));
        Hello { group, attempt, from: hello.from, to: rank }.expect(hello)?;
        if is_theirs { Ok(()) } else { Err(HelloError::From) }
    }

    fn has_place(&self, rank: u16) -> bool {
        self.places.available_permits() > 0 || self.waiting.locked().contains_key(&rank)
    }

    /// A place for a connection of this rank: a free one, else that of its link that nobody has taken.
    pub(super) fn place(&self, rank: u16) -> Option<OwnedSemaphorePermit> {
        let free = || Arc::clone(&self.places).try_acquire_owned().ok();
        free().or_else(|| {
            drop(self.waiting.locked().remove(&rank)?);
            free()
        })
    }

    /// Keeps the link until `accept` of its rank takes it.
    pub(super) fn deliver(&self, link: Link) {
        self.waiting.locked().insert(link.rank(), link);
        self.has_ended.send_modify(|_| ());
    }
}
