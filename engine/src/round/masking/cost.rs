//! What a group costs its members and the coordinator, in bytes.

use super::parameters::GroupParameters;

/// Bytes of a certificate, about.
const CERTIFICATE: u64 = 450;
const CONTEXT: u64 = 114;
const RECORD: u64 = 161;
const HASH: u64 = 32;
const SIGNATURE: u64 = 64;
/// A count, an index or a length.
const SHORT: u64 = 2;
/// Two shares with their place, as ciphertext.
const SHARES: u64 = 81;
/// One share with the kind of its secret.
const OPEN_SHARE: u64 = 33;
/// The tag of a packed body, and the roster.
const BODY_HEAD: u64 = 2 + HASH;
/// A word of a slot: a figure of the update, beside its values.
const SLOT: u64 = 8;

/// A masked update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedUpdate {
    /// Values, after `keep` has left some out.
    pub values: u64,
    /// Bits of each.
    pub bits: u32,
    /// Figures of the update that are masked with it.
    pub slots: u64,
}

impl MaskedUpdate {
    /// Bytes of its body.
    pub fn body_bytes(&self) -> u64 {
        BODY_HEAD + (self.values * u64::from(self.bits)).div_ceil(8) + SLOT * self.slots
    }

    /// Bytes of keystream in one of its masks.
    fn mask_bytes(&self) -> u64 {
        let word = match self.bits {
            ..=16 => 2,
            17..=32 => 4,
            _ => 8,
        };
        self.values * word + SLOT * self.slots
    }
}

/// What a group of one size costs, and what it bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCost {
    pub parameters: GroupParameters,
    /// Bytes of a member's masked update.
    pub body_bytes: u64,
    /// Bytes that a member sends beside it.
    pub bytes_up: u64,
    /// Bytes that a member receives beside the model, at most: where no signer is its neighbour.
    pub bytes_down: u64,
    /// Members that may be lost.
    pub lost_max: u32,
    /// Members that may lie.
    pub corrupt_max: u32,
    /// Bytes of keystream that a member makes.
    pub client_keystream_bytes: u64,
}

impl GroupCost {
    /// The cost of a group with these parameters. Without signatures there are neither certificates nor an agreement.
    pub fn of(parameters: GroupParameters, update: MaskedUpdate, is_signed: bool) -> Self {
        let [n, k, quorum] = [parameters.members, parameters.degree, parameters.quorum].map(u64::from);
        let (agreement_up, certificate) = if is_signed { (SIGNATURE, CERTIFICATE) } else { (0, 0) };
        // Without signatures, zeros stand in their places.
        let shares_up = HASH + SIGNATURE + SHORT + k * (SHORT + SHARES);
        let unmask_up = SHORT + k * (SHORT + OPEN_SHARE);
        let peer = RECORD + SHORT + certificate;
        let group_down = CONTEXT + 3 * SHORT + n * HASH + SHORT + k * (SHORT + peer);
        let inbox_down = SHORT + k * (SHORT + SIGNATURE + SHARES);
        let survivors_down = SHORT + n.div_ceil(8);
        let agreement_down = if is_signed { SHORT + quorum * (SHORT + SIGNATURE + peer) } else { 0 };
        Self {
            parameters,
            body_bytes: update.body_bytes(),
            bytes_up: RECORD + shares_up + agreement_up + unmask_up,
            bytes_down: group_down + inbox_down + survivors_down + agreement_down,
            lost_max: parameters.lost_max(),
            corrupt_max: parameters.corrupt_max,
            client_keystream_bytes: (k + 1) * update.mask_bytes(),
        }
    }

    /// Bytes of keystream that the coordinator makes at most where this many members are lost after they have shared:
    /// the own mask of each survivor, and the masks of each lost member with its neighbours.
    pub fn coordinator_keystream_bytes(&self, update: MaskedUpdate, lost: u32) -> u64 {
        let [n, k, lost] = [self.parameters.members, self.parameters.degree, lost].map(u64::from);
        let survivors = n.saturating_sub(lost);
        (survivors + lost * k) * update.mask_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::masking::policy::MaskingPolicy;

    fn cost(members: u32, bits: u32) -> (GroupCost, MaskedUpdate) {
        let update = MaskedUpdate { values: 1_000_000, bits, slots: 0 };
        let parameters = GroupParameters::of(members, &MaskingPolicy::default()).unwrap();
        (GroupCost::of(parameters, update, true), update)
    }

    /// Section 8.6 of the design: kilobytes up and down, megabytes of keystream of a member, and gigabytes of keystream
    /// of the coordinator with 5 % and with 30 % lost.
    #[test]
    fn costs_are_as_printed() {
        let rows = [
            (32, 15, 3.4, 33.0, 54.0, 0.1, 0.5),
            (100, 15, 6.7, 83.0, 110.0, 0.7, 3.4),
            (125, 15, 6.9, 94.0, 114.0, 7.3 / 8.0, 35.0 / 8.0),
            (128, 15, 6.9, 95.0, 114.0, 0.9, 4.4),
            (1_000, 18, 10.7, 473.0, 356.0, 21.0, 108.0),
        ];
        for (members, bits, up, down, keystream, few, many) in rows {
            let (cost, update) = cost(members, bits);
            let near = |got: f64, wanted: f64, within: f64| assert!((got - wanted).abs() <= within, "{members}: {got}");
            near(cost.bytes_up as f64 / 1e3, up, 0.05);
            near(cost.bytes_down as f64 / 1e3, down, 0.5);
            near(cost.client_keystream_bytes as f64 / 1e6, keystream, 0.5);
            let coordinator =
                |share: f64| cost.coordinator_keystream_bytes(update, (share * f64::from(members)) as u32) as f64 / 1e9;
            near(coordinator(0.05), few, 0.05 + 0.02 * few);
            near(coordinator(0.3), many, 0.05 + 0.01 * many);
        }
    }

    #[test]
    fn costs_are_the_bytes_of_the_messages() {
        let parameters = GroupParameters {
            members: 10,
            degree: 4,
            quorum: 6,
            ..GroupParameters::of(10, &MaskingPolicy::default()).unwrap()
        };
        let update = MaskedUpdate { values: 3, bits: 16, slots: 5 };
        let [signed, honest] = [true, false].map(|is_signed| GroupCost::of(parameters, update, is_signed));
        // A record, 4 shares with a hash and a signature, and 4 opened shares; then the signature of the agreement.
        assert_eq!((honest.bytes_up, signed.bytes_up), (161 + 430 + 142, 161 + 430 + 142 + 64));
        // The group with 10 hashes and 4 peers, 4 shares, the survivors; then certificates and 6 signatures.
        assert_eq!(honest.bytes_down, 442 + 4 * 165 + 590 + 4);
        assert_eq!(signed.bytes_down, 442 + 4 * 615 + 590 + 4 + 2 + 6 * (66 + 613));
        assert_eq!((honest.body_bytes, honest.client_keystream_bytes), (34 + 6 + 40, 5 * 46));
        // The own masks of 7 survivors, and 4 masks of each of the 3 that were lost.
        assert_eq!(honest.coordinator_keystream_bytes(update, 3), 19 * 46);
        let bytes = |bits| MaskedUpdate { bits, ..update }.mask_bytes();
        assert_eq!([1, 16, 17, 32, 33, 64].map(bytes), [46, 46, 52, 52, 64, 64]);
    }

    #[test]
    fn a_body_has_the_bits_of_its_values_and_whole_slots() {
        let update = MaskedUpdate { values: 1_000_000, bits: 15, slots: 0 };
        assert_eq!(update.body_bytes(), 1_875_034);
        assert_eq!(MaskedUpdate { values: 3, bits: 3, slots: 5 }.body_bytes(), 34 + 2 + 40);
        let quarter = MaskedUpdate { values: 250_000, ..update };
        assert_eq!(quarter.body_bytes(), 468_784);
    }

    #[test]
    fn a_group_that_trusts_has_no_certificates() {
        let (signed, update) = cost(128, 15);
        let honest = GroupCost::of(signed.parameters, update, false);
        assert!(honest.bytes_down * 2 < signed.bytes_down, "{} {}", honest.bytes_down, signed.bytes_down);
        assert_eq!(honest.bytes_up + 64, signed.bytes_up, "the signature over the survivors");
        assert_eq!((honest.lost_max, honest.corrupt_max), (38, 12));
    }
}
