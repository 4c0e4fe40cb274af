//! The links of a member to its neighbours: from member to member, or through the coordinator.

use std::time::Duration;

use tributary_protocol::group::messages::{LINK_UPGRADE, RingMember, RingRoster};

use super::member::Member;
use crate::clock::within;
use crate::group::{Admission, Hello, Link, LinkError, PeerKey, connect, connect_over};
use crate::transport::Wire;

/// Time to connect to a neighbour, in milliseconds. A member whose links are there waits for frames all the while: it
/// must hear that others gave up before it takes its neighbour for silent.
fn connect_ms(roster: &RingRoster) -> u64 {
    roster.frame_ms / 2
}

/// The pause before a neighbour is tried again that has not heard of the group yet.
const AGAIN: Duration = Duration::from_millis(50);

impl Member<'_> {
    /// The link that a neighbour opens.
    pub(super) async fn accepted(
        &self,
        admission: &Admission,
        left: u16,
        roster: &RingRoster,
    ) -> Result<Link, LinkError> {
        let limit_ms = connect_ms(roster);
        let accepted = async {
            if roster.relayed.contains(&left) {
                self.welcomed(left, roster).await?;
            }
            admission.accept(left).await
        };
        let accepted = within(self.clock(), Duration::from_millis(limit_ms), accepted).await;
        accepted.unwrap_or(Err(LinkError::TimedOut { limit_ms }))
    }

    /// Takes the connection of the left neighbour from the coordinator.
    async fn welcomed(&self, left: u16, roster: &RingRoster) -> Result<(), LinkError> {
        let until_ms = self.clock().now_ms().saturating_add(connect_ms(roster));
        loop {
            let welcomed = match self.wire(roster, left).await {
                Ok(wire) => self.listener.welcome(wire).await,
                Err(error) => Err(error),
            };
            if welcomed.is_ok() || !self.may_try_again(until_ms).await {
                return welcomed;
            }
        }
    }

    /// Opens the link to a neighbour. It may hear of the group a little later, so it is asked again.
    pub(super) async fn opened(&self, group: [u8; 16], right: u16, roster: &RingRoster) -> Result<Link, LinkError> {
        let until_ms = self.clock().now_ms().saturating_add(connect_ms(roster));
        loop {
            let opened = self.tried(group, right, roster, until_ms).await;
            if opened.is_ok() || !self.may_try_again(until_ms).await {
                return opened.inspect_err(|error| {
                    tracing::info!(%error, rank = right, "a member of the group cannot be reached");
                });
            }
        }
    }

    async fn tried(&self, group: [u8; 16], right: u16, roster: &RingRoster, until_ms: u64) -> Result<Link, LinkError> {
        let RingMember { key, addresses } = &roster.members[usize::from(right)];
        let hello = Hello { group, attempt: roster.attempt, from: roster.rank, to: right };
        let (keys, peer, limit_ms) = (&self.context.keys, PeerKey(*key), connect_ms(roster));
        let left_ms = || until_ms.saturating_sub(self.clock().now_ms()).max(1);
        if roster.relayed.contains(&roster.rank) {
            let opened = async { connect_over(self.wire(roster, roster.rank).await?, keys, peer, hello).await };
            let opened = within(self.clock(), Duration::from_millis(left_ms()), opened).await;
            return opened.unwrap_or(Err(LinkError::TimedOut { limit_ms }));
        }
        let mut last = LinkError::TimedOut { limit_ms };
        for address in addresses {
            match connect(address, keys, peer, hello, self.clock(), left_ms()).await {
                Ok(link) => return Ok(link),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Waits a little, if there is time to try again.
    async fn may_try_again(&self, until_ms: u64) -> bool {
        let may = self.clock().now_ms() < until_ms;
        if may {
            self.clock().sleep(AGAIN).await;
        }
        may
    }

    /// The connection to the other end of a link that the coordinator passes on, once both ends have called.
    async fn wire(&self, roster: &RingRoster, rank: u16) -> Result<Wire, LinkError> {
        let path = format!("/device/v1/groups/{}/links/{rank}", roster.group);
        let wire = self.context.coordinator.upgraded(self.secret, &path, LINK_UPGRADE).await;
        wire.map_err(|error| LinkError::Unreachable(error.to_string()))
    }
}
