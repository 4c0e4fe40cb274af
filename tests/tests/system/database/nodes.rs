//! Coordinators that share a database: nodes, leases, seats.

use std::collections::BTreeMap;
use tributary_engine::round::Candidate;

use tributary_protocol::abilities::{Abilities, Ability};
use tributary_protocol::device::Attributes;
use tributary_protocol::example_sets::ExampleSet;
use tributary_protocol::operator::Node;
use tributary_protocol::state::{AssignmentState, JobState, NodeState};
use tributary_protocol::traffic::Traffic;
use tributary_protocol::update::CodecName;
use tributary_server::db::Db;

use super::stored::{assigned, client_id, job_id, name, population, start_round, store_job, traffic, training};

fn candidate(number: u8) -> Candidate {
    Candidate {
        client: client_id(number),
        number: number.into(),
        attributes: Attributes::default(),
        examples: 10,
        sets: BTreeMap::from([(name("typing"), ExampleSet::of(4))]).try_into().unwrap(),
        codecs: vec![CodecName::F32],
        abilities: Abilities::FIRST.without(Ability::Gru),
        schema: None,
        answers: true,
        masks: true,
        signs: true,
        relay: Some(7),
        share: None,
    }
}

pub(super) async fn nodes_are_known_while_they_are_seen(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.node_seen(&name("b"), "0.1.0", 5, 10, 16, None).await.unwrap();
    tx.node_seen(&name("a"), "0.1.0", 6, 20, 15, None).await.unwrap();
    tx.node_seen(&name("b"), "0.2.0", 7, 30, 80, None).await.unwrap();
    let nodes = tx.nodes("", 10, 35).await.unwrap();
    let told: Vec<_> =
        nodes.iter().map(|node| (node.id.as_str(), &*node.version, node.started_at_ms, node.seen_at_ms)).collect();
    assert_eq!(told, [("a", "0.1.0", 6, 20), ("b", "0.2.0", 7, 30)]);
    let states = |nodes: Vec<Node>| nodes.into_iter().map(|node| node.state).collect::<Vec<_>>();
    // Leases of 15 and 80 ms, which are renewed after 1 and 10: a fifth of them is a renewal that was missed.
    assert_eq!(states(tx.nodes("", 10, 22).await.unwrap()), [NodeState::Alive, NodeState::Alive]);
    assert_eq!(states(tx.nodes("", 10, 23).await.unwrap()), [NodeState::Late, NodeState::Alive]);
    assert_eq!(states(tx.nodes("", 10, 35).await.unwrap()), [NodeState::Dead, NodeState::Alive]);
    assert_eq!(tx.nodes("a", 1, 35).await.unwrap(), nodes[1..]);
    tx.forget_nodes(30, 30).await.unwrap();
    assert_eq!(tx.nodes("", 10, 35).await.unwrap(), nodes[1..]);
}

pub(super) async fn a_lease_has_one_holder_until_it_expires(db: &Db) {
    population(db).await;
    let (a, b) = (name("a"), name("b"));
    let mut tx = db.begin().await.unwrap();
    assert_eq!(tx.holder(job_id(1)).await.unwrap(), None);
    assert!(tx.take_lease(job_id(1), &a, 0, 100).await.unwrap());
    assert!(!tx.take_lease(job_id(1), &b, 99, 199).await.unwrap(), "it has not expired");
    assert!(tx.take_lease(job_id(1), &a, 50, 150).await.unwrap(), "its holder renews it");
    assert_eq!(
        tx.holder(job_id(1)).await.unwrap().map(|holder| (holder.node, holder.expires_at_ms)),
        Some((a.clone(), 150))
    );
    let held = |leases: Vec<(tributary_protocol::id::Name, tributary_protocol::operator::Lease)>| {
        leases.into_iter().map(|(node, lease)| (node, lease.job, lease.token, lease.expires_at_ms)).collect::<Vec<_>>()
    };
    assert_eq!(held(tx.leases().await.unwrap()), [(a.clone(), job_id(1), 1, 150)]);
    assert_eq!(tx.renew_leases(&b, 400).await.unwrap(), [], "it holds none");
    assert_eq!(tx.renew_leases(&a, 150).await.unwrap(), [job_id(1)]);
    assert!(tx.take_lease(job_id(1), &b, 150, 250).await.unwrap());
    assert_eq!(tx.renew_leases(&a, 400).await.unwrap(), [], "another node has taken it");
    assert_eq!(held(tx.leases().await.unwrap()), [(b.clone(), job_id(1), 2, 250)], "the token rises with the hands");
    tx.node_seen(&b, "0.1.0", 0, 0, 10, None).await.unwrap();
    tx.node_leaves(&b).await.unwrap();
    assert!(tx.leases().await.unwrap().is_empty() && tx.nodes("", 10, 35).await.unwrap().is_empty());
    assert_eq!(tx.holder(job_id(1)).await.unwrap(), None, "it was given up");
    assert_eq!(tx.renew_leases(&b, 400).await.unwrap(), []);
    assert!(tx.take_lease(job_id(1), &a, 151, 251).await.unwrap(), "at once, for it was given up");
    assert_eq!(held(tx.leases().await.unwrap()), [(a, job_id(1), 3, 251)], "no takeover has the token of another");
}

pub(super) async fn held_clients_are_seen_by_every_node(db: &Db) {
    population(db).await;
    let (a, b) = (name("a"), name("b"));
    let mut tx = db.begin().await.unwrap();
    for node in [&a, &b] {
        tx.node_seen(node, "0.1.0", 0, 100, 10, None).await.unwrap();
    }
    tx.sit(&a, &[(&name("people"), &candidate(1))], 100).await.unwrap();
    tx.sit(&b, &[(&name("people"), &candidate(2))], 200).await.unwrap();
    let mut seated = tx.seated(&name("people"), 99).await.unwrap();
    seated.sort_by_key(|candidate| candidate.number);
    assert_eq!(seated, [candidate(1), candidate(2)]);
    assert_eq!(tx.seated(&name("people"), 100).await.unwrap(), [candidate(2)], "its time is up");
    assert!(tx.seated(&name("others"), 0).await.unwrap().is_empty());

    tx.sit(&b, &[(&name("people"), &candidate(1))], 300).await.unwrap();
    tx.stand_up(&a, &[client_id(1)]).await.unwrap();
    assert_eq!(tx.seated(&name("people"), 250).await.unwrap(), [candidate(1)], "it sits elsewhere by now");
    tx.stand_up(&b, &[client_id(1)]).await.unwrap();
    tx.stand_up_everywhere(&[client_id(2)]).await.unwrap();
    assert!(tx.seated(&name("people"), 0).await.unwrap().is_empty());

    tx.sit(&a, &[(&name("people"), &candidate(1))], 300).await.unwrap();
    tx.sit(&b, &[(&name("people"), &candidate(2))], 300).await.unwrap();
    tx.node_leaves(&a).await.unwrap();
    assert_eq!(tx.seated(&name("people"), 0).await.unwrap(), [candidate(2)]);
    tx.forget_nodes(0, 101).await.unwrap();
    assert!(tx.seated(&name("people"), 0).await.unwrap().is_empty(), "a node that is gone holds nobody");
}

pub(super) async fn clients_at_work_are_known_by_job(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    store_job(&mut tx, 2, "people", JobState::Running).await;
    start_round(&mut tx, training(1), 2).await;
    let done = assigned(training(1), 1);
    tx.count_download(client_id(1), 1 << 40, 1 << 41).await.unwrap();
    tx.count_download(client_id(3), 7, 7).await.unwrap();
    let ended = tx.end_assignment(done, AssignmentState::Failed, None, traffic(0, 5), 50).await.unwrap();
    let fetched = Traffic { raw_bytes_down: (1 << 41) + 5, ..traffic(0, (1 << 40) + 5) };
    assert_eq!(ended, Some(fetched), "what was fetched at any node");
    assert_eq!(tx.working_clients(job_id(1)).await.unwrap(), [client_id(2)]);
    assert!(tx.working_clients(job_id(2)).await.unwrap().is_empty());
    assert_eq!(tx.working_clients_of_all().await.unwrap(), [client_id(2)]);
}

pub(super) async fn news_and_haste_do_not_change_what_is_stored(db: &Db) {
    let mut tx = db.begin_losable().await.unwrap();
    tx.insert_population(&name("people"), 1).await.unwrap();
    tx.notify("people").await.unwrap();
    tx.commit().await.unwrap();
    assert!(db.read().await.unwrap().population(&name("people")).await.unwrap().is_some());
}

/// Goal: whoever gives up while a transaction begins leaves no connection in it.
pub(super) async fn a_beginning_that_is_given_up_leaves_nothing_open(db: &Db) {
    for turns in 0..100 {
        let mut reading = Box::pin(db.read());
        for _ in 0..turns % 5 {
            if futures_util::poll!(&mut reading).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(reading);
        let mut tx = db.begin().await.unwrap();
        tx.insert_population(&name(&format!("people-{turns}")), 1).await.unwrap();
        tx.commit().await.unwrap();
    }
}
