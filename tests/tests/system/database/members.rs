//! Members of stale-synchronous jobs.

use tributary_engine::round::{Member, Term};
use tributary_protocol::seed::Seed;
use tributary_server::db::{Db, NewAssignment, Tx};

use super::stored::{assignment_id, client_id, population, training};

async fn members(tx: &mut Tx) -> Vec<(u32, bool, Option<i64>)> {
    let members = tx.members(training(1).job).await.unwrap();
    let mut found: Vec<_> = members
        .iter()
        .map(|Member { clock, is_working, missed_at_ms, .. }| (*clock, *is_working, *missed_at_ms))
        .collect();
    found.sort_unstable();
    found
}

pub(super) async fn a_member_comes_with_a_clock_and_leaves(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let (key, first, second) = (training(1), client_id(1), client_id(2));
    super::buffers::open(&mut tx, 1).await;
    tx.enter_member(key.job, first, 0).await.unwrap();
    tx.enter_member(key.job, second, 4).await.unwrap();
    let work = NewAssignment {
        id: assignment_id(1),
        round: key,
        client: second,
        base_version: 0,
        examples: 0,
        places: 0,
        share: None,
        term: Term::Own { deadline_at_ms: 900, seed: Seed(1) },
    };
    tx.insert_assignments(&[work], 50).await.unwrap();
    tx.tick_member(key.job, first).await.unwrap();
    assert_eq!(members(&mut tx).await, [(1, false, None), (4, true, None)]);
    tx.miss_member(key.job, first, 70).await.unwrap();
    tx.miss_member(key.job, first, 80).await.unwrap();
    assert_eq!(members(&mut tx).await, [(1, false, Some(70)), (4, true, None)]);
    tx.enter_member(key.job, first, 9).await.unwrap();
    tx.dismiss_member(key.job, first).await.unwrap();
    assert_eq!(members(&mut tx).await, [(1, false, None), (4, true, None)], "it came, with its own clock");
    tx.miss_member(key.job, first, 90).await.unwrap();
    tx.dismiss_member(key.job, first).await.unwrap();
    let clocks = tx.member_clocks(key.job).await.unwrap();
    let [clock] = clocks.as_slice() else { panic!("{clocks:?}") };
    assert_eq!((clock.client_number, clock.clock, clock.is_working, clock.missed_at_ms), (2, 4, true, None));
    tx.remove_member(key.job, second).await.unwrap();
    assert_eq!(tx.count_members(key.job).await.unwrap(), 0);
}
