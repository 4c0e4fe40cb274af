//! Members that die, stop or lie.

use proptest::prelude::*;
use tributary_collective::{Fault, Mistake, RingError};
use tributary_protocol::group::{AbortReason, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use tributary_protocol::sum::{SumError, pack_run};

use super::ring::{Act, Ended, FRAME_MS, addend, direct_sum, tampered};

const MEMBERS: u16 = 4;
const STEPS: u32 = 6;

fn addends(values: usize) -> Vec<Vec<i64>> {
    (0..MEMBERS).map(|member| addend(member, values)).collect()
}

/// The values of a sum.
fn values(ended: Ended) -> Vec<i64> {
    let reduced = ended.unwrap();
    let mut values = vec![0; reduced.values() as usize];
    reduced.integers(&mut values);
    values
}

/// Whether a member lacks a frame, if the culprit is gone before step `step`. The right neighbour lacks that of the
/// step, the next one that of the step after it, and so on.
fn lacks_a_frame(rank: u16, culprit: u16, step: u32) -> bool {
    let distance = u32::from((rank + MEMBERS - culprit) % MEMBERS);
    step + distance - 1 < STEPS
}

/// What holds when the culprit is gone before a step, for a reason that its neighbours see.
fn assert_blamed(ended: &[Ended], culprit: u16, step: u32, fault: &Fault, reason: AbortReason, sum: &[i64]) {
    let mut blamed = 0;
    for rank in (0..MEMBERS).filter(|rank| *rank != culprit) {
        let is_neighbour = (rank + 1) % MEMBERS == culprit || (culprit + 1) % MEMBERS == rank;
        match &ended[usize::from(rank)] {
            Err(RingError::Neighbour { rank: named, what, .. }) => {
                assert!(is_neighbour, "{rank} is no neighbour of {culprit}");
                assert_eq!((named, what), (&culprit, fault));
                blamed += 1;
            }
            Err(RingError::Aborted { rank: named, reason: told, .. }) => {
                assert_eq!((*named, *told), (culprit, reason), "{rank} was told so");
            }
            Ok(_) => {
                assert!(!lacks_a_frame(rank, culprit, step), "{rank} lacks a frame");
                assert!(values(ended[usize::from(rank)].clone()) == sum, "who has a sum has the right one");
            }
            other => panic!("{rank}: {other:?}"),
        }
    }
    assert!(blamed > 0, "somebody must blame {culprit}");
}

/// The step before which the culprit is gone, by its first frame.
fn before(step: u32, act: fn() -> Act) -> impl FnMut(&FrameHeader, &[u8]) -> Act {
    move |header, _| if header.step == step { act() } else { Act::Pass }
}

#[test]
fn a_member_that_dies_at_any_step_ends_the_ring_and_is_blamed_by_its_neighbours() {
    for values in [3, 4000, 20_000] {
        let (addends, sum) = (addends(values), direct_sum(&addends(values)));
        for (culprit, step) in (0..MEMBERS).flat_map(|culprit| (0..STEPS).map(move |step| (culprit, step))) {
            for (buffer, seed) in [(64, 1), (1 << 20, 2), (3000, u64::from(step) + 10)] {
                let (ended, ms) = tampered(&addends, culprit, (buffer, seed), before(step, || Act::Die));
                assert_blamed(&ended, culprit, step, &Fault::Closed, AbortReason::Closed, &sum);
                assert!(ms <= FRAME_MS, "{ms} ms");
            }
        }
    }
}

#[test]
fn a_member_that_stops_at_any_step_is_silent_to_its_neighbours_and_to_nobody_else() {
    for values in [3, 4000, 20_000] {
        let (addends, sum) = (addends(values), direct_sum(&addends(values)));
        for (culprit, step) in (0..MEMBERS).flat_map(|culprit| (0..STEPS).map(move |step| (culprit, step))) {
            for (buffer, seed) in [(64, 1), (1 << 20, 2), (3000, u64::from(step) + 10)] {
                let (ended, ms) = tampered(&addends, culprit, (buffer, seed), before(step, || Act::Stop));
                assert_blamed(&ended, culprit, step, &Fault::Silent, AbortReason::Silent, &sum);
                assert!((FRAME_MS..=2 * FRAME_MS).contains(&ms), "{ms} ms");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_order_and_no_size_of_buffers_makes_anybody_blame_a_member_that_does_its_part(
        seed: u64, culprit in 0..MEMBERS, step in 0..STEPS, frame in 0u32..4, values in 0usize..20_000,
        buffer in 1usize..20_000, stops: bool,
    ) {
        let addends = addends(values);
        let mut is_gone = false;
        let (ended, ms) = tampered(&addends, culprit, (buffer, seed), |header, _| {
            let is_there = header.step == step && header.part >= frame;
            is_gone |= is_there;
            match (is_there, stops) {
                (false, _) => Act::Pass,
                (true, false) => Act::Die,
                (true, true) => Act::Stop,
            }
        });
        if is_gone {
            let (fault, reason) =
                if stops { (Fault::Silent, AbortReason::Silent) } else { (Fault::Closed, AbortReason::Closed) };
            assert_blamed(&ended, culprit, step, &fault, reason, &direct_sum(&addends));
            prop_assert!(ms <= 2 * FRAME_MS);
        } else {
            prop_assert!(ended.iter().all(Result::is_ok) && ms == 0);
        }
    }
}

/// What the right neighbour of member 1 finds wrong, when this member's first frame of step 1 is changed.
fn mistake(change: impl Fn(&FrameHeader, Vec<u8>) -> Vec<u8>) -> Mistake {
    let (addends, sum) = (addends(5000), direct_sum(&addends(5000)));
    let mut change = Some(change);
    let (ended, _) = tampered(&addends, 1, (2000, 4), |header, frame| {
        if header.step != 1 {
            return Act::Pass;
        }
        change.take().map_or(Act::Pass, |change| Act::Replace(change(header, frame.to_vec())))
    });
    let Err(RingError::Neighbour { rank: 1, what: Fault::Wrong(mistake), .. }) = &ended[2] else {
        panic!("{:?}", ended[2])
    };
    assert!(matches!(ended[1], Err(RingError::Aborted { rank: 1, reason: AbortReason::Wrong, .. })), "{:?}", ended[1]);
    assert_blamed(&ended, 1, 1, &Fault::Wrong(mistake.clone()), AbortReason::Wrong, &sum);
    mistake.clone()
}

fn with(header: &FrameHeader, frame: &[u8], change: impl Fn(&mut FrameHeader)) -> Vec<u8> {
    let mut header = *header;
    change(&mut header);
    [&header.encode()[..], &frame[FRAME_HEADER_BYTES..]].concat()
}

#[test]
fn a_frame_that_is_not_due_is_wrong() {
    let changed = |change: fn(&mut FrameHeader)| mistake(move |header, frame| with(header, &frame, change));
    assert_eq!(changed(|header| header.from = 3), Mistake::From(3));
    assert_eq!(changed(|header| header.attempt = 1), Mistake::Attempt(1));
    let order = |step, place, part| Mistake::Order { step, place, part };
    assert_eq!(changed(|header| header.step = 2), order(2, 0, 0));
    assert_eq!(changed(|header| header.step = 6), order(6, 0, 0));
    assert_eq!(changed(|header| header.step = u32::MAX), order(u32::MAX, 0, 0));
    assert_eq!(changed(|header| header.place = 3), order(1, 3, 0));
    assert_eq!(changed(|header| header.part = 1), order(1, 0, 1));
    // The same frame once more.
    let twice = mistake(|_, frame| frame.repeat(2));
    assert!(matches!(twice, Mistake::Order { step: 1, place: 0, part: 0 }), "{twice:?}");
    // Kinds that do not belong here, or nowhere.
    let kind = |kind| {
        mistake(move |header, _| {
            FrameHeader { attempt: header.attempt, ..FrameHeader::of(kind, header.from, 0) }
                .encode()
                .into_iter()
                .chain(vec![0; 18])
                .collect()
        })
    };
    assert_eq!(kind(FrameKind::Hello), Mistake::Kind);
    assert!(matches!(mistake(|_, frame| vec![0xff; frame.len()]), Mistake::Frame(_)));
    assert!(matches!(changed(|header| header.length = 5001), Mistake::Frame(_)));
}

#[test]
fn blocks_that_are_none_of_a_sum_are_wrong() {
    let body = |change: &dyn Fn(&mut Vec<u8>)| {
        let mistake = mistake(move |header, frame| {
            let mut body = frame[FRAME_HEADER_BYTES..].to_vec();
            change(&mut body);
            let header = FrameHeader { length: body.len() as u32, ..*header };
            [&header.encode()[..], &body].concat()
        });
        let Mistake::Blocks(error) = mistake else { panic!("{mistake:?}") };
        error
    };
    assert!(matches!(body(&|body| body[0] = 65), SumError::Shape { block: 0, .. }));
    assert!(matches!(body(&|body| body.push(0)), SumError::TooLong));
    assert!(matches!(body(&|body| body.truncate(body.len() - 1)), SumError::Truncated(_)));
    assert!(matches!(body(&Vec::clear), SumError::Truncated(0)));
    // Wider than its values need: 1 in three bits, and 2 without a shift.
    let ones = |body: &mut Vec<u8>, eight: [u8; 3]| {
        *body = [&[3, 0][..], &eight.repeat(32)].concat();
        pack_run(&[1; 256], body);
    };
    assert_eq!(body(&move |body| ones(body, [0b0100_1001, 0b1001_0010, 0b0010_0100])), SumError::Width { block: 0 });
    assert_eq!(body(&move |body| ones(body, [0b1001_0010, 0b0010_0100, 0b0100_1001])), SumError::Shift { block: 0 });
    // In step 1, two members have added.
    let large = |value| {
        move |header: &FrameHeader, _| {
            let mut body = Vec::new();
            pack_run(&[value; 512], &mut body);
            let header = FrameHeader { length: body.len() as u32, ..*header };
            [&header.encode()[..], &body].concat()
        }
    };
    let too_large = mistake(large((2 << 40) + 1));
    let SumError::ValueTooLarge { got, magnitude_max, .. } = (match too_large {
        Mistake::Blocks(error) => error,
        other => panic!("{other:?}"),
    }) else {
        panic!("the value is too large")
    };
    assert_eq!((got, magnitude_max), ((2 << 40) + 1, 2 << 40));
}

/// A member may send what it likes within the limits: all end with a sum. Callers compare the hashes of their bodies.
#[test]
fn members_of_a_ring_with_a_liar_have_different_sums() {
    let addends = addends(5000);
    let mut lies = 1;
    let (ended, _) = tampered(&addends, 1, (2000, 4), |header, frame| {
        // A whole chunk on its way round: members after the liar get another one than those before it.
        if header.step != 4 || std::mem::take(&mut lies) == 0 {
            return Act::Pass;
        }
        let mut body = Vec::new();
        pack_run(&[5; 512], &mut body);
        let header = FrameHeader { length: body.len() as u32, ..*header };
        assert!(frame.len() > body.len());
        Act::Replace([&header.encode()[..], &body].concat())
    });
    let sums: Vec<Vec<i64>> = ended.into_iter().map(values).collect();
    assert!(sums.iter().any(|sum| *sum != sums[0]));
}
