//! Histories that failed once, and a few that must not be left to chance.

use super::op::Op::{
    AdvanceTime, BreakUpload, CheckIn, DriverOnce, Gather, KillClient, LoseRequest, LoseResponse, RepeatUpload,
    RestartServer, StopJob, ToUpload, TwoDrivers, Work,
};
use super::op::{Op, Setup};
use super::stage::play;

/// One client, one update for a round.
const ONE: Setup = Setup {
    clients: 1,
    updates_goal: 1,
    updates_min: 1,
    over_selection: 1.0,
    evaluated: false,
    delta: false,
    large: false,
    concurrency: None,
    slack: None,
};
/// Two clients, both needed.
const BOTH: Setup = Setup { clients: 2, updates_goal: 2, updates_min: 2, ..ONE };

/// Two clients in a buffered job; each update makes a version.
const BUFFERED: Setup = Setup { clients: 2, concurrency: Some(2), ..ONE };

/// Brings client 0 to the point where its upload is the next request.
const TO_UPLOAD: [Op; 3] = [CheckIn(0), DriverOnce, ToUpload(0)];

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
async fn an_upload_that_breaks_off_again_and_again_counts_once() {
    let breaks = [BreakUpload(0, 5), RestartServer, BreakUpload(0, 4), KillClient(0), BreakUpload(0, 0)];
    let end = [Work(0), RepeatUpload(0), DriverOnce, RepeatUpload(0), Work(0)];
    let ops = [[DriverOnce].as_slice(), &TO_UPLOAD, &breaks, &end].concat();
    for setup in [ONE, Setup { large: true, ..ONE }, Setup { large: true, delta: true, ..ONE }] {
        play(setup, ops.clone()).await;
    }
}

/// The slow one's update is in the network while buffers fill, models are made, coordinators restart and drivers meet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_that_arrives_in_a_later_buffer_counts_there_once() {
    let begin = [DriverOnce, CheckIn(0), CheckIn(1), DriverOnce, ToUpload(1)];
    for between in [
        vec![Work(0), DriverOnce],
        vec![Work(0), RestartServer, TwoDrivers],
        vec![LoseResponse(1), Work(0), DriverOnce],
        vec![Work(0), BreakUpload(1, 5), DriverOnce, RestartServer],
        vec![Work(0), LoseRequest(1), KillClient(1), DriverOnce, RepeatUpload(1), DriverOnce, RepeatUpload(1)],
        vec![
            Work(0),
            DriverOnce,
            Gather,
            Work(0),
            DriverOnce,
            Gather,
            Work(0),
            DriverOnce,
            Gather,
            Work(0),
            DriverOnce,
        ],
    ] {
        let end = [Work(1), RepeatUpload(1), DriverOnce, RepeatUpload(1), Work(0), TwoDrivers, Work(1)];
        let ops = [begin.as_slice(), &between, &end].concat();
        for setup in [BUFFERED, Setup { large: true, ..BUFFERED }, Setup { updates_goal: 2, ..BUFFERED }] {
            play(setup, ops.clone()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_stopped_in_mid_round_ends_it() {
    play(BOTH, vec![CheckIn(0), CheckIn(1), DriverOnce, Work(0), StopJob, Work(1), DriverOnce, RepeatUpload(0)]).await;
}

/// Failed once: the slower of two drivers found the updates gone that the faster one had made the model of, and took
/// that for a fault of the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_drivers_that_commit_a_round_the_slower_one_is_no_fault() {
    let setup = Setup { clients: 2, evaluated: true, ..ONE };
    play(setup, vec![Gather, CheckIn(0), DriverOnce, Gather, Work(1), TwoDrivers]).await;
}
