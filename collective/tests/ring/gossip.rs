//! Members that mix with their neighbours.

use proptest::prelude::*;
use tokio::io::{DuplexStream, duplex};
use tributary_collective::{Mixer, RingError, RingPlace, Timer};
use tributary_protocol::graph::{Graph, lambda, neighbours};
use tributary_protocol::plan::MixCodec;
use tributary_protocol::seed::Seed;

use super::ring::{FRAME_MS, place};
use super::runner::{Clock, Task, run};

const POINT: u32 = 30;

/// The members of a graph, with a link for each edge.
fn mixers(places: &[RingPlace], graph: Graph, codec: MixCodec, buffer: usize) -> Vec<Mixer<DuplexStream>> {
    let edges = graph.edges(places.len() as u16, Seed(7));
    let mut links: Vec<Vec<(u16, DuplexStream)>> = places.iter().map(|_| Vec::new()).collect();
    for (one, other) in &edges {
        let (here, there) = duplex(buffer);
        links[usize::from(*one)].push((*other, here));
        links[usize::from(*other)].push((*one, there));
    }
    let mixer = |(place, links): (&RingPlace, Vec<(u16, DuplexStream)>)| {
        let weights = neighbours(&edges, place.rank);
        let weight = |other: u16| weights.iter().find(|(rank, _)| *rank == other).unwrap().1;
        Mixer::new(*place, (POINT, codec), links.into_iter().map(|(rank, link)| (rank, weight(rank), link)))
    };
    places.iter().zip(links).map(mixer).collect()
}

fn models(members: u16, values: usize) -> Vec<Vec<i64>> {
    let model = |member: u16| {
        let mut stream = Seed(5).derive("model", member.into()).stream();
        (0..values).map(|_| (f64::from(stream.uniform(-1.0, 1.0)) * f64::from(1u32 << POINT)) as i64).collect()
    };
    (0..members).map(model).collect()
}

fn sum(models: &[Vec<i64>]) -> Vec<i64> {
    (0..models[0].len()).map(|at| models.iter().map(|model| model[at]).sum()).collect()
}

/// The root of the mean square distance from the mean.
fn distance(models: &[Vec<i64>]) -> f64 {
    let mean: Vec<f64> = sum(models).iter().map(|sum| *sum as f64 / models.len() as f64).collect();
    let square = |model: &Vec<i64>| model.iter().zip(&mean).map(|(x, mean)| (*x as f64 - mean).powi(2)).sum::<f64>();
    (models.iter().map(square).sum::<f64>() / models.len() as f64).sqrt()
}

/// The models after so many mixes.
fn mixed(graph: Graph, codec: MixCodec, start: &[Vec<i64>], (mixes, buffer, seed): (u32, usize, u64)) -> Vec<Vec<i64>> {
    let clock = Clock::default();
    let members = start.len() as u16;
    let places: Vec<_> = (0..members).map(|rank| place(rank, members)).collect();
    let mixers = mixers(&places, graph, codec, buffer);
    let tasks = mixers.into_iter().zip(start).map(|(mut mixer, start)| -> Task<'_, Vec<i64>> {
        let clock = &clock;
        Box::pin(async move {
            let mut model = start.clone();
            for _ in 0..mixes {
                mixer.mix(&mut model, clock).await.unwrap();
            }
            model
        })
    });
    let ended = run(&clock, seed, tasks.collect(), start.len());
    assert_eq!(clock.now_ms(), 0, "nobody waits for a time that passes");
    ended
}

/// Goal: the sum of all models is kept exactly, and their distance shrinks by the second eigenvalue in each mix.
#[test]
fn mixes_keep_the_sum_and_shorten_the_distance_as_the_graph_says() {
    for (graph, mixes) in [(Graph::Ring, 150), (Graph::Torus, 18), (Graph::Exponential, 14)] {
        let start = models(16, 40);
        let expected = lambda(&graph.edges(16, Seed(7)), 16);
        let most = mixed(graph, MixCodec::F32, &start, (mixes * 2 / 3, 1 << 16, 1));
        let all = mixed(graph, MixCodec::F32, &most, (mixes - mixes * 2 / 3, 1 << 16, 2));
        assert_eq!(sum(&most), sum(&start), "{graph:?}");
        assert_eq!(sum(&all), sum(&start), "{graph:?}");
        let contraction = (distance(&all) / distance(&most)).powf(1.0 / f64::from(mixes - mixes * 2 / 3));
        assert!((contraction / expected - 1.0).abs() < 0.01, "{graph:?}: {contraction} for {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_graph_codec_order_or_buffer_changes_the_sum(
        members in 2u16..9, which in 0usize..4, values in 0usize..2000, buffer in 1usize..5000, seed: u64,
        is_int8: bool,
    ) {
        let graph = [Graph::Ring, Graph::Torus, Graph::Exponential, Graph::RandomRegular { degree: 2 }][which];
        let codec = if is_int8 { MixCodec::Int8 } else { MixCodec::F32 };
        let start = models(members, values);
        let ended = mixed(graph, codec, &start, (3, buffer, seed));
        prop_assert_eq!(sum(&ended), sum(&start));
        prop_assert!(values == 0 || distance(&ended) < distance(&start));
    }
}

/// Goal: all members hear of a neighbour that is lost, whose neighbours blame it and nobody else.
#[test]
fn a_member_that_dies_is_blamed_by_its_neighbours_alone() {
    let clock = Clock::default();
    let places: Vec<_> = (0..6).map(|rank| place(rank, 6)).collect();
    let start = models(6, 3000);
    let tasks = mixers(&places, Graph::Ring, MixCodec::F32, 1000).into_iter().zip(&start).zip(0..);
    let tasks = tasks.map(|((mut mixer, start), rank)| -> Task<'_, Result<(), RingError>> {
        let (clock, mixes) = (&clock, if rank == 2 { 2 } else { 9 });
        Box::pin(async move {
            let mut model = start.clone();
            for _ in 0..mixes {
                mixer.mix(&mut model, clock).await?;
            }
            Ok(())
        })
    });
    let ended = run(&clock, 3, tasks.collect(), 6);
    assert!(ended[2].is_ok());
    for (rank, ended) in ended.iter().enumerate().filter(|(rank, _)| *rank != 2) {
        let is_blamed = matches!(ended, Err(RingError::Neighbour { rank: 2, .. } | RingError::Aborted { rank: 2, .. }));
        assert!(is_blamed, "{rank}: {ended:?}");
    }
    assert!(
        matches!(ended[1], Err(RingError::Neighbour { .. })) || matches!(ended[3], Err(RingError::Neighbour { .. }))
    );
}

/// A member that trains for long between two mixes is waited for.
#[test]
fn a_member_that_says_that_it_lives_is_waited_for_by_all() {
    let clock = Clock::default();
    let places: Vec<_> = (0..5).map(|rank| place(rank, 5)).collect();
    let start = models(5, 2000);
    let tasks = mixers(&places, Graph::Ring, MixCodec::Int8, 4000).into_iter().zip(&start).zip(0u64..);
    let tasks = tasks.map(|((mut mixer, start), rank)| -> Task<'_, Result<(), RingError>> {
        let clock = &clock;
        Box::pin(async move {
            let mut model = start.clone();
            for mix in 0..5 {
                if mix == rank {
                    tokio::select! {
                        () = mixer.keep_alive(clock) => {}
                        () = clock.sleep(5 * FRAME_MS) => {}
                    }
                }
                mixer.mix(&mut model, clock).await?;
            }
            Ok(())
        })
    });
    let ended = run(&clock, 4, tasks.collect(), 5);
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
}
