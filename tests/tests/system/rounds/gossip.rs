//! Groups whose members keep models of their own and mix them with those of their neighbours, with the real SDK over
//! real links: the mean of all models becomes the version, and members go on with their own.

use std::sync::Arc;

use serde_json::{Value, json};
use tributary_client::{LayerTrainer, TrainTask, Trainer};
use tributary_protocol::graph::{Edge, Graph, neighbours};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::operator::{RingPart, RoundRing};
use tributary_protocol::plan::Training;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{Phase, RingState, StarReason};

use super::lockstep::{MEMBERS, STEPS, assert_near, examples, job, members, model, play, ring, training};
use crate::support::World;

const EVERY: u32 = 4;
pub(super) const ROUNDS: u32 = 2;

pub(super) fn gossip(topology: &Value) -> Value {
    let mut group = json!({ "kind": "gossip", "graph": "ring", "steps": EVERY });
    for (key, value) in topology.as_object().unwrap() {
        group[key] = value.clone();
    }
    job(
        EVERY,
        &json!({
            "group": { "topology": group, "frame_ms": 2_000, "attempts": 4 },
            "stop": { "rounds": ROUNDS },
        }),
    )
}

pub(super) fn mean(models: &[Vec<f64>]) -> Vec<f32> {
    let sum = |at: usize| models.iter().map(|model| model[at]).sum::<f64>();
    (0..models[0].len()).map(|at| (sum(at) / models.len() as f64) as f32).collect()
}

/// One round of decentralised SGD in f64: so many mixes with the neighbours after every few steps.
pub(super) fn by_hand(models: &mut [Vec<f64>], edges: &[Edge], mixes: u32) {
    let spec: ModelSpec = serde_json::from_value(model()).unwrap();
    let parameters = Arc::new(spec.parameters().unwrap());
    let training: Training = serde_json::from_value(training(EVERY)).unwrap();
    for _ in (0..STEPS).step_by(EVERY as usize) {
        for (member, own) in models.iter_mut().enumerate() {
            let start = Model::new(Arc::clone(&parameters), own.iter().map(|value| *value as f32).collect()).unwrap();
            let task = TrainTask::new(&start, &spec, &training, Seed(1));
            let trained = LayerTrainer::new(examples(member)).train(&task, &|| false).unwrap();
            *own = trained.values.into_iter().map(f64::from).collect();
        }
        for _ in 0..mixes {
            let before = models.to_vec();
            for (rank, own) in (0..).zip(models.iter_mut()) {
                for (other, weight) in neighbours(edges, rank) {
                    let from = before[usize::from(rank)].iter().zip(&before[usize::from(other)]);
                    own.iter_mut().zip(from).for_each(|(own, (here, there))| *own += weight * (there - here));
                }
            }
        }
    }
}

/// Goal: each version is the mean of models that their members never gave up, as decentralised SGD has it, and the
/// round says how far they are apart.
#[tokio::test]
async fn the_mean_of_models_that_mix_becomes_the_version() {
    for (graph, name, mixes) in [(Graph::Ring, "ring", 1), (Graph::Exponential, "exponential", 3)] {
        let world = World::start_driven().await;
        let mut members = members(&world, MEMBERS).await;
        let (job, ended) = play(&world, &mut members, &gossip(&json!({ "graph": name, "mixes": mixes }))).await;
        // A graph of all members gives each of them the mean.
        assert!(ended.iter().all(Option::is_some), "{ended:?}");
        assert!(ended[0] != ended[1] || graph == Graph::Exponential, "each member has a model of its own");
        let start: Vec<f64> = world.weights(job, 0).await.into_iter().map(f64::from).collect();
        let mut models = vec![start; MEMBERS];
        for number in 1..=ROUNDS {
            let round = world.round(job, number).await;
            assert_eq!((round.phase, round.reported, round.weight), (Phase::Committed, 4, 80), "{round:?}");
            by_hand(&mut models, &graph.edges(MEMBERS as u16, Seed(1)), mixes);
            assert_near(&world.weights(job, number).await, &mean(&models));
            let RoundRing { attempts, star, .. } = ring(&world, job, number).await;
            assert_eq!((attempts.len(), attempts[0].state, star), (1, RingState::Counted, None));
            let told: Vec<f64> = attempts[0].members.iter().filter_map(|member| member.distance).collect();
            assert!(told.len() > MEMBERS / 2, "{attempts:?}");
            if graph == Graph::Ring {
                assert!(told.iter().all(|distance| *distance > 1e-3 && *distance < 10.0), "{told:?}");
            }
        }
    }
}

/// Goal: members mix along the edges that the job names by clients' numbers, whose ranks are others.
#[tokio::test]
async fn members_mix_along_the_edges_that_a_job_names() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    let mut file = gossip(&json!({ "graph": "edges" }));
    file["group"]["edges"] = json!([[3, 1], [3, 2], [3, 4], [2, 4]]);
    let (job, _) = play(&world, &mut members, &file).await;
    let start: Vec<f64> = world.weights(job, 0).await.into_iter().map(f64::from).collect();
    let mut models = vec![start; MEMBERS];
    for number in 1..=ROUNDS {
        by_hand(&mut models, &[(0, 2), (1, 2), (1, 3), (2, 3)], 1);
        assert_near(&world.weights(job, number).await, &mean(&models));
        let distances = |members: &[RingPart]| members.iter().filter_map(|member| member.distance).collect::<Vec<_>>();
        let RoundRing { attempts, .. } = ring(&world, job, number).await;
        let told = distances(&attempts[0].members);
        // Client 3 has all others as neighbours, so that it has the mean.
        let apart = told.iter().filter(|distance| **distance > 1e-3).count();
        assert!(told.len() > MEMBERS / 2 && apart >= told.len() - 1, "{told:?}");
    }
}

/// Rounded models mix, too.
#[tokio::test]
async fn models_that_travel_rounded_make_a_version() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    let (job, ended) = play(&world, &mut members, &gossip(&json!({ "codec": "int8" }))).await;
    assert!(ended.iter().all(Option::is_some), "{ended:?}");
    for number in 1..=ROUNDS {
        let round = world.round(job, number).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, 4), "{round:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_on_several_threads_mix() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    let (job, ended) = play(&world, &mut members, &gossip(&json!({ "mixes": 2 }))).await;
    assert!(ended.iter().all(Option::is_some), "{ended:?}");
    assert_eq!(ring(&world, job, ROUNDS).await.attempts.len(), 1);
}

/// A member that is lost in the middle leaves the others, which go on mixing.
#[tokio::test]
async fn members_go_on_mixing_without_one_that_is_lost() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    members[2].trainer.lost_after = Some(8);
    let mut file = gossip(&json!({}));
    file["stop"]["rounds"] = json!(1);
    let (job, ended) = play(&world, &mut members, &file).await;
    assert!([0, 1, 3].iter().all(|place: &usize| ended[*place].is_some()), "{ended:?}");
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 3), "{round:?}");
    let RoundRing { attempts, star, .. } = ring(&world, job, 1).await;
    let states: Vec<_> = attempts.iter().map(|attempt| (attempt.state, attempt.members.len())).collect();
    assert_eq!((states, star), (vec![(RingState::Failed, 4), (RingState::Counted, 3)], None));
}

#[tokio::test]
async fn after_the_last_attempt_each_member_sends_its_own_model() {
    let world = World::start_driven().await;
    let mut members = members(&world, MEMBERS).await;
    members[0].trainer.fails_after = Some(8);
    let mut file = gossip(&json!({}));
    file["group"]["attempts"] = json!(1);
    file["stop"]["rounds"] = json!(1);
    let (job, _) = play(&world, &mut members, &file).await;
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Committed, 3), "{round:?}");
    assert_eq!(ring(&world, job, 1).await.star, Some(StarReason::Attempts));
}

#[tokio::test]
async fn jobs_that_cannot_mix_are_refused_with_the_reason() {
    let world = World::start().await;
    let momentum = json!({ "kind": "sgd", "learning_rate": 0.1, "momentum": 0.9 });
    let mut with_momentum = gossip(&json!({}));
    with_momentum["training"]["optimizer"] = momentum;
    for (file, reason) in [
        (with_momentum, "without moments"),
        (gossip(&json!({ "mixes": 0 })), "1 to 100"),
        (gossip(&json!({ "graph": "edges" })), "pairs of two clients' numbers"),
        (gossip(&json!({ "alone_ms": 700_000_000 })), "0 to 604800000"),
        (gossip(&json!({ "graph": { "random_regular": { "degree": 3 } } })), "2, 4, 6 or 8"),
    ] {
        let refused = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
        assert!(refused.detail.contains(reason), "{refused:?}");
    }
}
