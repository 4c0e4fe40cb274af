//! Histories that failed once, and a few that must not be left to chance.

use super::op::Op::{
    AdvanceTime, CheckIn, DriverOnce, Gather, KillClient, LoseRequest, LoseResponse, RepeatUpload, RestartServer, Step,
    StopJob, TwoDrivers, Work,
};
use super::op::{Op, Setup};
use super::stage::play;

/// One client, one update for a round.
const ONE: Setup = Setup { clients: 1, updates_goal: 1, updates_min: 1, over_selection: 1.0, evaluated: false };
/// Two clients, both needed.
const BOTH: Setup = Setup { clients: 2, updates_goal: 2, updates_min: 2, ..ONE };

/// Brings client 0 to the point where its upload is the next request: it checks in, is drawn, fetches the model, trains,
/// and asks whether the round still wants its update.
const TO_UPLOAD: [Op; 5] = [CheckIn(0), DriverOnce, Step(0), Step(0), Step(0)];

async fn after_upload_begins(ops: &[Op]) {
    play(ONE, [[DriverOnce].as_slice(), &TO_UPLOAD, ops].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_whose_answer_is_lost_counts_once() {
    after_upload_begins(&[LoseResponse(0), DriverOnce, Work(0), RepeatUpload(0), DriverOnce]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_arrives_after_its_client_died_counts_once() {
    after_upload_begins(&[LoseRequest(0), KillClient(0), RepeatUpload(0), RestartServer, Work(0), TwoDrivers]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_arrives_after_its_round_changes_nothing() {
    after_upload_begins(&[LoseRequest(0), AdvanceTime(10_000), RepeatUpload(0), DriverOnce, RepeatUpload(0), Work(0)])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_stopped_in_mid_round_ends_it() {
    play(BOTH, vec![CheckIn(0), CheckIn(1), DriverOnce, Work(0), StopJob, Work(1), DriverOnce, RepeatUpload(0)]).await;
}

/// Failed once: the slower of two drivers found the updates gone that the faster one had made the model of, and took that
/// for a fault of the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_drivers_that_commit_a_round_the_slower_one_is_no_fault() {
    let setup = Setup { clients: 2, evaluated: true, ..ONE };
    play(setup, vec![Gather, CheckIn(0), DriverOnce, Gather, Work(1), TwoDrivers]).await;
}
