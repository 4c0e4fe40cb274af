//! A ring gives the direct sum.

use proptest::prelude::*;
use tributary_collective::{PlaceError, Reduced, RingError, RingPlace};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::sum::SumWriter;

use super::ring::{Ended, addend, direct_sum, honest, place};

const TAG: [u8; 8] = *b"TS-rings";
const OF_ALL: Contribution = Contribution { weight: Weight::examples(90), updates: 3 };

fn places(members: u16) -> Vec<RingPlace> {
    (0..members).map(|rank| place(rank, members)).collect()
}

fn body(sum: &[i64]) -> Vec<u8> {
    let mut writer = SumWriter::new(TAG, OF_ALL, sum.len() as u32);
    writer.push(sum);
    writer.finish().unwrap()
}

/// Each member has the direct sum, as values, as a body and as a body in pieces.
fn assert_sums(ended: Vec<Ended>, addends: &[Vec<i64>]) -> Vec<Reduced> {
    let sum = direct_sum(addends);
    let body = body(&sum);
    let check = |ended: Ended| {
        let reduced = ended.unwrap();
        let mut values = vec![77; sum.len()];
        reduced.integers(&mut values);
        assert!(values == sum);
        assert!(reduced.clone().body(TAG, OF_ALL) == body);
        reduced
    };
    ended.into_iter().map(check).collect()
}

#[test]
fn every_ring_gives_the_direct_sum_bit_for_bit() {
    for members in 2..=9 {
        let m = usize::from(members);
        for values in [0, 1, m - 1, m, m + 1, 255 * m, 256 * m + 1, 3000] {
            let addends: Vec<_> = (0..members).map(|member| addend(member, values)).collect();
            for (buffer, seed) in [(64, 1), (1 << 16, 2)] {
                assert_sums(honest(&places(members), &addends, buffer, seed), &addends);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_order_and_no_size_of_buffers_changes_the_sum(
        seed: u64, members in 2u16..8, values in 0usize..6000, buffer in 1usize..9000, frame_bytes in 2050u32..9000,
    ) {
        let addends: Vec<_> = (0..members).map(|member| addend(member, values)).collect();
        let places: Vec<_> = places(members).into_iter().map(|place| RingPlace { frame_bytes, ..place }).collect();
        assert_sums(honest(&places, &addends, buffer, seed), &addends);
    }
}

/// Goal: big chunks, all of them sent at once, do not block each other. Method: chunks of 20 frames over streams that
/// hold 64 bytes.
#[test]
fn members_that_all_send_at_once_do_not_wait_for_each_other() {
    for (members, seed) in [(2, 1), (3, 2), (4, 3), (5, 4)] {
        let addends: Vec<_> = (0..members).map(|member| addend(member, usize::from(members) * 10_000)).collect();
        assert_sums(honest(&places(members), &addends, 64, seed), &addends);
    }
}

#[test]
fn values_at_the_cap_do_not_overflow() {
    for members in 2..=5u16 {
        let magnitude_max = i64::MAX.unsigned_abs() / u64::from(members);
        let most = magnitude_max.cast_signed();
        let places: Vec<_> = places(members).into_iter().map(|place| RingPlace { magnitude_max, ..place }).collect();
        let addends = vec![[most, -most, 0, most - 1, 1, -most].repeat(100); usize::from(members)];
        assert_sums(honest(&places, &addends, 500, 5), &addends);
    }
}

#[test]
fn a_value_of_the_member_itself_beyond_the_cap_ends_the_ring_under_its_own_name() {
    let mut addends: Vec<_> = (0..3).map(|member| addend(member, 900)).collect();
    addends[1][700] = -(1 << 40) - 1;
    let ended = honest(&places(3), &addends, 500, 5);
    let own = RingError::Own { place: 700, got: -(1 << 40) - 1, magnitude_max: 1 << 40 };
    assert_eq!(ended[1].as_ref().unwrap_err(), &own);
    for other in [0, 2] {
        assert!(matches!(ended[other], Err(RingError::Aborted { rank: 1, .. })), "{:?}", ended[other]);
    }
}

#[test]
fn a_place_that_does_not_exist_sends_nothing() {
    let mut places = places(2);
    places.iter_mut().for_each(|place| place.rank = 2);
    for ended in honest(&places, &[vec![1], vec![2]], 500, 5) {
        assert_eq!(ended.unwrap_err(), RingError::Place(PlaceError::Rank { rank: 2, members: 2 }));
    }
}

/// 2(m - 1)/m sums each way and a few headers: what theory says that a ring costs a member.
#[test]
fn a_member_moves_as_many_bytes_as_it_must() {
    for members in [2u16, 4, 8] {
        let addends: Vec<_> = (0..members).map(|member| addend(member, 200_000)).collect();
        let reduced = assert_sums(honest(&places(members), &addends, 1 << 16, 9), &addends);
        let m = f64::from(members);
        let moved = 2.0 * (m - 1.0) / m * reduced[0].packed_bytes() as f64;
        let (mut sent, mut received) = (0, 0);
        for member in &reduced {
            let traffic = member.traffic();
            for bytes in [traffic.sent_bytes, traffic.received_bytes] {
                assert!((bytes as f64 / moved - 1.0).abs() < 0.03, "{members}: {bytes} bytes, not {moved}");
            }
            assert!(traffic.sent_value_bytes < traffic.sent_bytes && traffic.sent_value_bytes > 0);
            (sent, received) = (sent + traffic.sent_value_bytes, received + traffic.received_value_bytes);
        }
        assert_eq!(sent, received);
    }
}

/// The future of a member runs on any thread of a runtime.
#[test]
fn a_member_can_be_spawned() {
    fn is_send(_: impl Send) {}
    let (left, right) = tokio::io::duplex(1);
    let clock = super::runner::Clock::default();
    is_send(tributary_collective::all_reduce(&place(0, 2), &vec![1], left, right, &clock));
}
