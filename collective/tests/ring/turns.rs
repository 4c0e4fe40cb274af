//! Many means over the same links.

use std::pin::Pin;

use tributary_collective::{RingError, RingPlace, Timer, Turns, average, keep_alive};
use tributary_protocol::seed::Seed;

use super::ring::{FRAME_MS, links, place};
use super::runner::{Clock, Task, run};

const POINT: u32 = 30;

/// A step of a member away from where it is.
fn step(member: u16, turn: u64, values: &mut [f32]) {
    let mut stream = Seed(turn).derive("member", u64::from(member)).stream();
    values.iter_mut().for_each(|value| *value += stream.uniform(-0.5, 0.5));
}

/// Takes so many means. A member is at other work before each for as long as `busy_ms` says.
async fn member(
    place: &RingPlace,
    (left, right): (tokio::io::DuplexStream, tokio::io::DuplexStream),
    (turns, values): (u64, usize),
    clock: &Clock,
    busy_ms: impl Fn(u64) -> u64,
) -> Result<Vec<f32>, RingError> {
    let (mut left, mut right) = (Turns::new(left), Turns::new(right));
    let mut anchor = vec![0.25f32; values];
    for turn in 0..turns {
        keep_alive(place, (&mut left, &mut right), clock, clock.sleep(busy_ms(turn))).await;
        let mut own = anchor.clone();
        step(place.rank, turn, &mut own);
        anchor = average(place, POINT, (&anchor, &own), (&mut left, &mut right), clock).await?.0;
    }
    Ok(anchor)
}

fn by_hand(members: u16, turns: u64, values: usize) -> Vec<f32> {
    let mut anchor = vec![0.25f32; values];
    for turn in 0..turns {
        let mut mean = vec![0.0f64; values];
        for member in 0..members {
            let mut own = anchor.clone();
            step(member, turn, &mut own);
            mean.iter_mut().zip(own).for_each(|(mean, own)| *mean += f64::from(own) / f64::from(members));
        }
        anchor = mean.into_iter().map(|mean| mean as f32).collect();
    }
    anchor
}

#[test]
fn members_stay_in_lockstep_turn_after_turn() {
    for (members, values, buffer, seed) in [(2, 0, 64, 1), (2, 700, 1, 2), (3, 5000, 64, 3), (5, 1200, 1 << 16, 4)] {
        let clock = Clock::default();
        let places: Vec<_> = (0..members).map(|rank| place(rank, members)).collect();
        let tasks = places
            .iter()
            .zip(links(members, buffer))
            .map(|(place, links)| -> Task<'_, _> { Box::pin(member(place, links, (7, values), &clock, |_| 0)) });
        let ended = run(&clock, seed, tasks.collect(), places.len());
        let models: Vec<Vec<f32>> = ended.into_iter().map(Result::unwrap).collect();
        let bits = |model: &[f32]| model.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert!(models.iter().all(|model| bits(model) == bits(&models[0])), "{members} members");
        let near = models[0].iter().zip(by_hand(members, 7, values)).all(|(got, hand)| (got - hand).abs() < 1e-5);
        assert!(near, "{members} members");
    }
}

/// Goal: a member that trains for long is waited for, whoever its neighbours are. Method: in each turn one of them
/// takes ten times as long as a silence may last.
#[test]
fn a_member_that_says_that_it_lives_is_waited_for() {
    let clock = Clock::default();
    let places: Vec<_> = (0..4).map(|rank| place(rank, 4)).collect();
    let busy = |rank: u16| move |turn| if turn % 4 == u64::from(rank) { 10 * FRAME_MS } else { 0 };
    let tasks = places
        .iter()
        .zip(links(4, 1000))
        .map(|(place, links)| -> Task<'_, _> { Box::pin(member(place, links, (4, 3000), &clock, busy(place.rank))) });
    let ended = run(&clock, 5, tasks.collect(), 4);
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert!((40 * FRAME_MS..41 * FRAME_MS).contains(&clock.now_ms()));
}

/// A member that is gone between two turns is noticed in the next one, and nobody waits for ever.
#[test]
fn a_member_that_dies_between_turns_ends_the_turn_of_all() {
    let clock = Clock::default();
    let places: Vec<_> = (0..4).map(|rank| place(rank, 4)).collect();
    let tasks = places.iter().zip(links(4, 1000)).map(|(place, links)| -> Task<'_, _> {
        let turns = if place.rank == 2 { 3 } else { 5 };
        Box::pin(member(place, links, (turns, 3000), &clock, |_| 0))
    });
    let ended = run(&clock, 6, tasks.collect(), 4);
    assert!(ended[2].is_ok());
    let others: Vec<&RingError> = [0, 1, 3].map(|rank| ended[rank].as_ref().unwrap_err()).to_vec();
    assert!(others.iter().any(|error| matches!(error, RingError::Neighbour { rank: 2, .. })), "{others:?}");
    assert!(clock.now_ms() <= 2 * FRAME_MS, "{}", clock.now_ms());
}

#[test]
fn a_value_that_is_too_far_from_the_anchor_is_refused_under_its_own_name() {
    for far in [f32::INFINITY, f32::NAN, -1e30, 1e4] {
        let clock = Clock::default();
        let places: Vec<_> = (0..2).map(|rank| place(rank, 2)).collect();
        let tasks = places.iter().zip(links(2, 1000)).map(|(place, (left, right))| -> Task<'_, _> {
            let own = if place.rank == 0 { [0.0, far] } else { [0.0, 1.0] };
            let clock = &clock;
            Box::pin(async move {
                let (mut left, mut right) = (Turns::new(left), Turns::new(right));
                average(place, POINT, (&[0.0; 2], &own), (&mut left, &mut right), clock).await.map(drop)
            })
        });
        let ended: Vec<Result<(), RingError>> = run(&clock, 7, tasks.collect(), 2);
        assert!(matches!(ended[0], Err(RingError::Own { place: 1, .. })), "{ended:?}");
        assert!(matches!(ended[1], Err(RingError::Aborted { rank: 0, .. })), "{ended:?}");
    }
}

/// The futures of a member run on any thread of a runtime.
#[test]
fn a_member_between_turns_can_be_spawned() {
    fn is_send(_: impl Send) {}
    let (left, right) = tokio::io::duplex(1);
    let (mut left, mut right) = (Turns::new(left), Turns::new(right));
    let (clock, place) = (Clock::default(), place(0, 2));
    let until: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {});
    is_send(keep_alive(&place, (&mut left, &mut right), &clock, until));
}
