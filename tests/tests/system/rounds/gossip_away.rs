//! Groups whose members mix their models while the coordinator is away, over a transport that can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, join};
use serde_json::{Value, json};
use tributary_client::HttpTransport;
use tributary_client::transport::{Request, Response, Transport, TransportError};
use tributary_protocol::graph::Graph;
use tributary_protocol::operator::RoundRing;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{Phase, RingState};

use super::gossip::{ROUNDS, by_hand, gossip, mean};
use super::lockstep::{MEMBERS, assert_near, members_over, play, ring};
use crate::support::{World, http, within_reason};

/// Trainings without the coordinator.
const ALONE: u32 = 10;

/// The way to a coordinator that can be away.
#[derive(Debug)]
struct Way {
    http: HttpTransport,
    is_cut: Arc<AtomicBool>,
}

impl Transport for Way {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        match self.is_cut.load(Ordering::SeqCst) {
            false => self.http.send(request),
            true => Box::pin(async { Err(TransportError::Failed("the coordinator is away".to_owned())) }),
        }
    }
}

/// Goal: members that lose the coordinator before they can tell it their sum train and mix on; it gets that sum when it
/// is back, and a round later the mean that they have come to. Method: it is away from the end of the first training to
/// the end of the eleventh; every version is compared with decentralised SGD by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_mix_on_while_the_coordinator_is_away_and_report_their_mean_afterwards() {
    let world = World::start_driven().await;
    let is_cut = Arc::new(AtomicBool::new(false));
    let way = || Arc::new(Way { http: HttpTransport::new(http()), is_cut: Arc::clone(&is_cut) });
    let mut members = members_over(&world, MEMBERS, |builder| builder.transport(way())).await;
    let (trained, cut) = (Arc::new(AtomicU32::new(0)), Arc::clone(&is_cut));
    let count = Arc::clone(&trained);
    members[0].trainer.on_trained = Some(Box::new(move || {
        let trained = count.fetch_add(1, Ordering::SeqCst) + 1;
        cut.store(trained <= ALONE, Ordering::SeqCst);
    }));
    let (job, ended) = play(&world, &mut members, &gossip(&json!({}))).await;
    assert!(ended.iter().all(Option::is_some), "{ended:?}");
    assert_eq!(trained.load(Ordering::SeqCst), ALONE + ROUNDS);

    let start: Vec<f64> = world.weights(job, 0).await.into_iter().map(f64::from).collect();
    let mut models = vec![start; MEMBERS];
    let edges = Graph::Ring.edges(MEMBERS as u16, Seed(1));
    by_hand(&mut models, &edges, 1);
    assert_near(&world.weights(job, 1).await, &mean(&models));
    (0..ALONE + 1).for_each(|_| by_hand(&mut models, &edges, 1));
    assert_near(&world.weights(job, 2).await, &mean(&models));
    for number in 1..=ROUNDS {
        let round = world.round(job, number).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, 4), "{round:?}");
        let RoundRing { attempts, star, .. } = ring(&world, job, number).await;
        assert_eq!((attempts.len(), attempts[0].state, star), (1, RingState::Counted, None));
    }
}

/// Goal: a member that alone has lost the coordinator keeps nobody from going on, and its model counts. Method: its way
/// is cut from the end of its training until the round has been committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_alone_has_lost_the_coordinator_keeps_nobody_waiting() {
    let world = World::start_driven().await;
    let is_cut: [Arc<AtomicBool>; MEMBERS] = Default::default();
    let places = AtomicUsize::new(0);
    let mut members = members_over(&world, MEMBERS, |builder| {
        let is_cut = Arc::clone(&is_cut[places.fetch_add(1, Ordering::SeqCst)]);
        builder.transport(Arc::new(Way { http: HttpTransport::new(http()), is_cut }))
    })
    .await;
    let cut = Arc::clone(&is_cut[2]);
    members[2].trainer.on_trained = Some(Box::new(move || cut.store(true, Ordering::SeqCst)));
    let mut file = gossip(&json!({}));
    file["stop"]["rounds"] = json!(1);
    let mut changes = world.app().signals.watch();
    let mends = async {
        loop {
            let jobs: Value = world.look("/jobs").await.value();
            if jobs["items"][0]["state"] == "completed" {
                return is_cut[2].store(false, Ordering::SeqCst);
            }
            changes.changed().await.unwrap();
        }
    };
    let ((job, ended), ()) = join(play(&world, &mut members, &file), within_reason(mends)).await;
    assert!(ended.iter().all(Option::is_some), "{ended:?}");
    assert_eq!(world.round(job, 1).await.reported, 4);
    let RoundRing { attempts, star, .. } = ring(&world, job, 1).await;
    assert_eq!((attempts.len(), attempts[0].state, star), (1, RingState::Counted, None));
}
