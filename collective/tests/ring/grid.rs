//! Members that agree on a grid before they add up.

use tributary_collective::{Addend, Fault, Gridded, Mistake, RingError, RingPlace, Weighted};
use tributary_protocol::fixed::Weight;
use tributary_protocol::group::grid::{GRID_BLOCK, exponent, round};
use tributary_protocol::group::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use tributary_protocol::seed::Seed;

use super::ring::{Act, Ended, FRAME_MS, direct_sum, honest, place, tampered};

const POINT: u32 = 16;
const BITS: u32 = 8;
/// Largest magnitude of an integer of a member.
const MAGNITUDE_MAX: u64 = 1 << 40;

/// An update whose blocks have different sizes, and some of them nothing but zeros.
fn update(member: u16, values: usize) -> Vec<f32> {
    let mut stream = Seed(u64::from(member) + 5).stream();
    let size = |at: usize| [0.0, 1.0, 40.0, 0.001][(at / GRID_BLOCK + usize::from(member)) % 4];
    (0..values).map(|at| stream.uniform(-1.0, 1.0) * size(at)).collect()
}

fn weighted(member: u16, update: &[f32]) -> Weighted<'_> {
    Weighted::new(update, Weight::examples(100 + u32::from(member)), POINT)
}

fn gridded(updates: &[Vec<f32>]) -> Vec<Gridded<'_>> {
    let members = (0..).zip(updates);
    members.map(|(member, own)| Gridded::new(weighted(member, own), BITS, MAGNITUDE_MAX, seed(member))).collect()
}

fn seed(member: u16) -> Seed {
    Seed(1000 + u64::from(member))
}

/// What members should add up: their integers on the grid of the largest exponents.
fn rounded(updates: &[Vec<f32>]) -> Vec<Vec<i64>> {
    let mut own: Vec<Vec<i64>> = updates.iter().map(|update| vec![0; update.len()]).collect();
    for ((member, update), integers) in (0..).zip(updates).zip(&mut own) {
        weighted(member, update).integers(0, integers);
    }
    let blocks = updates[0].len().div_ceil(GRID_BLOCK);
    let block = |integers: &Vec<i64>, at: usize| {
        exponent(&integers[at * GRID_BLOCK..integers.len().min((at + 1) * GRID_BLOCK)], BITS)
    };
    let exponents: Vec<u8> =
        (0..blocks).map(|at| own.iter().map(|integers| block(integers, at)).max().unwrap()).collect();
    for (member, integers) in (0..).zip(&mut own) {
        round(integers, 0, &exponents, MAGNITUDE_MAX, seed(member));
    }
    own
}

fn places(members: u16) -> Vec<RingPlace> {
    (0..members).map(|rank| place(rank, members)).collect()
}

fn values(ended: &Ended) -> Vec<i64> {
    let reduced = ended.as_ref().unwrap();
    let mut values = vec![0; reduced.values() as usize];
    reduced.integers(&mut values);
    values
}

#[test]
fn all_members_have_the_sum_of_the_rounded_integers() {
    for members in 2..=9 {
        for values_total in [0, 1, 63, 65, 1000, 20_003] {
            let updates: Vec<_> = (0..members).map(|member| update(member, values_total)).collect();
            let sum = direct_sum(&rounded(&updates));
            for (buffer, seed) in [(64, 1), (1 << 20, 2)] {
                for ended in honest(&places(members), &gridded(&updates), buffer, seed) {
                    assert!(values(&ended) == sum, "{members} members, {values_total} values");
                }
            }
        }
    }
}

#[test]
fn a_value_takes_little_more_than_a_byte() {
    let mut stream = Seed(1).stream();
    let updates: Vec<Vec<f32>> = (0..8).map(|_| (0..40_000).map(|_| stream.uniform(-1.0, 1.0)).collect()).collect();
    let ended = honest(&places(8), &gridded(&updates), 1 << 20, 1);
    let bytes = ended[0].as_ref().unwrap().packed_bytes() as f64 / 40_000.0;
    // 8 bits of each, up to 3 for 8 members, and two bytes a block.
    assert!((1.0..1.35).contains(&bytes), "{bytes} bytes a value");
    let exact: Vec<f64> = (0..40_000)
        .map(|at| (0..).zip(&updates).map(|(member, update)| f64::from(update[at]) * f64::from(100 + member)).sum())
        .collect();
    let square = |value: f64| value * value;
    let norm: f64 = exact.iter().copied().map(square).sum();
    let sum = values(&ended[0]);
    let error: f64 =
        sum.iter().zip(&exact).map(|(sum, exact)| square(*sum as f64 / f64::from(1 << POINT) - exact)).sum();
    assert!((error / norm).sqrt() < 0.02, "{}", (error / norm).sqrt());
}

#[test]
fn a_member_that_is_lost_while_members_agree_is_blamed_by_its_neighbours() {
    let updates: Vec<_> = (0..4).map(|member| update(member, 20_000)).collect();
    let acts: [(fn() -> Act, Fault); 2] = [(|| Act::Die, Fault::Closed), (|| Act::Stop, Fault::Silent)];
    for (act, fault) in acts {
        for (culprit, step) in (0..4).flat_map(|culprit| (0..6).map(move |step| (culprit, step))) {
            for (buffer, seed) in [(64, 1), (1 << 20, u64::from(step) + 10)] {
                let (ended, ms) = tampered(&gridded(&updates), culprit, (buffer, seed), |header, _| {
                    if header.kind == FrameKind::Maxima && header.step == step { act() } else { Act::Pass }
                });
                let mut blamed = 0;
                for (rank, ended) in (0..4u16).zip(&ended).filter(|(rank, _)| *rank != culprit) {
                    match ended {
                        Err(RingError::Neighbour { rank: named, what, .. }) => {
                            assert_eq!((*named, what), (culprit, &fault), "{rank} in step {step}");
                            blamed += 1;
                        }
                        Err(RingError::Aborted { rank: named, .. }) => assert_eq!(*named, culprit, "{rank}"),
                        other => panic!("{rank} in step {step}: {other:?}"),
                    }
                }
                assert!(blamed > 0, "somebody must blame {culprit}");
                assert!(ms <= 2 * FRAME_MS, "{ms} ms");
            }
        }
    }
}

#[test]
fn exponents_that_cannot_be_end_the_ring_and_name_their_sender() {
    let updates: Vec<_> = (0..4).map(|member| update(member, 20_000)).collect();
    let changed = |change: fn(&mut FrameHeader, &mut Vec<u8>)| {
        let mut is_done = false;
        let (ended, _) = tampered(&gridded(&updates), 1, (1 << 20, 1), |header, frame| {
            if std::mem::replace(&mut is_done, true) {
                return Act::Pass;
            }
            let (mut header, mut body) = (*header, frame[FRAME_HEADER_BYTES..].to_vec());
            change(&mut header, &mut body);
            header.length = body.len() as u32;
            Act::Replace([&header.encode()[..], &body].concat())
        });
        match &ended[2] {
            Err(RingError::Neighbour { rank: 1, what: Fault::Wrong(mistake), .. }) => mistake.clone(),
            other => panic!("{other:?}"),
        }
    };
    let order = |step, place, part| Mistake::Order { step, place, part };
    assert_eq!(changed(|_, body| body[7] = 35), Mistake::Exponent { got: 35, most: 34 });
    assert_eq!(changed(|_, body| body.truncate(3)), order(0, 1, 0));
    assert_eq!(changed(|_, body| body.push(0)), order(0, 1, 0));
    assert_eq!(changed(|header, _| header.step = 1), order(1, 1, 0));
    assert_eq!(changed(|header, _| header.place = 2), order(0, 2, 0));
    assert_eq!(changed(|header, _| header.part = 1), order(0, 1, 1));
    assert_eq!(changed(|header, _| header.kind = FrameKind::Sum), Mistake::Kind);
}
