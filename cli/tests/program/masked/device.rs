//! Clients that mask by hand, so that a test knows their updates, masked and in the clear.

use reqwest::Method;
use tributary_client::secure::{GroupTrust, Member, Next, Terms, system_entropy};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::messages::{Formed, Inbox};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::Told;
use tributary_protocol::secure::{Survivors, Words, packed};
use tributary_protocol::seed::Seed;

use crate::support::device::Device;

/// A client in the course of its exchange.
pub(super) struct Seat {
    device: Device,
    assignment: Assignment,
    member: Member,
    quantiser: Quantiser,
}

/// An update as its client quantised it, and as it left the client.
pub(super) struct Sent {
    pub(super) bits: u8,
    pub(super) integers: Vec<i64>,
    /// What the integers stand for.
    pub(super) restored: Vec<f64>,
    /// The body as it would be without masks.
    pub(super) bare: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Seat {
    pub(super) fn new(device: Device, assignment: Assignment, values: usize) -> Self {
        let masking = assignment.plan.masking.unwrap();
        let quantiser = Quantiser::new(values, masking.clip, masking.levels, masking.keep).unwrap();
        let terms = Terms {
            job: assignment.job,
            round: assignment.round.into(),
            model: assignment.model_sha256,
            plan: assignment.plan.hash(),
            length: quantiser.coordinates(),
            trust: GroupTrust::Honest,
            members_min: masking.group_min as u16,
            survivors_min: 0,
            degree_min: 2,
            dropouts: masking.dropouts,
            corrupt: masking.corrupt,
        };
        let member = Member::join(terms, &[], &mut system_entropy).unwrap();
        Self { device, assignment, member, quantiser }
    }

    async fn call(&self, method: Method, call: &str, body: &[u8]) -> Vec<u8> {
        self.device.call(method, &self.assignment, call, body).await
    }

    /// Joins, and exchanges shares.
    pub(super) async fn share(&mut self) {
        let formed = self.call(Method::PUT, "group", self.member.record()).await;
        let formed = Formed::from_bytes(&formed).unwrap();
        let shares = self.member.formed(&formed, None, &mut system_entropy).unwrap();
        let inbox = self.call(Method::PUT, "group/shares", &shares).await;
        self.member.inbox(&Inbox::from_bytes(&inbox).unwrap(), None).unwrap();
    }

    /// Masks and sends an update. Its rounding follows from `seed`.
    pub(super) async fn send(&mut self, delta: &[f32], seed: Seed) -> Sent {
        let (roster, bits) = (self.member.roster().unwrap(), self.member.bits().unwrap());
        let key = Sha256Hash::of(&seed.0.to_le_bytes()).0;
        let quantised = self.quantiser.quantise(delta, &roster, &mut tributary_protocol::seed::SecretStream::of(key));
        let quantised = quantised.unwrap();
        assert!(!quantised.is_clipped);
        let told = Told { is_whole: true, examples: 10, loss: Some(0.5) };
        let words = || Words::of(bits, &quantised.values);
        let bare = packed::body(&roster, &words(), &told.slots());
        let body = self.member.masked(words(), told.slots().to_vec()).unwrap();
        self.call(Method::PUT, "group/update", &body).await;
        let restored = self.quantiser.restore(&quantised.values, &roster).unwrap();
        Sent { bits, integers: quantised.values, restored, bare, body }
    }

    /// Opens the sum with the others.
    pub(super) async fn open(&mut self) {
        let survivors = self.call(Method::GET, "group/survivors", &[]).await;
        let Next::Unmask(unmask) = self.member.survivors(&Survivors::from_bytes(&survivors).unwrap(), None).unwrap()
        else {
            panic!("nothing is signed");
        };
        self.call(Method::PUT, "group/unmask", &unmask.to_bytes()).await;
    }
}
