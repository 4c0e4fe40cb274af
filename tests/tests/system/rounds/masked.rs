//! Secure aggregation: groups of clients whose masked updates the coordinator adds up, members that are lost at each
//! stage, restarts, and messages that are refused.

use std::pin::pin;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tributary_client::StoredKey;
use tributary_client::secure::{CertifiedPeers, Member, Next, Signers, Terms, system_entropy};
use tributary_protocol::device::{Assignment, CheckInResponse};
use tributary_protocol::operator::{GroupProgress, Job, RoundDetail, RoundGroupMember};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::secure::messages::{Agreement, Formed, Inbox};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::Told;
use tributary_protocol::secure::{NO_MODEL, Survivors, Words};
use tributary_protocol::seed::SecretStream;
use tributary_protocol::state::{AbandonReason, AssignmentState, GroupFailure, GroupStage, Phase};

use crate::support::{Device, WEIGHTS, World, delta_file, figures, job_file};

pub(super) const CLIENTS: usize = 5;
/// So fine that rounding is below the tolerance of the tests.
pub(super) const LEVELS: u32 = 4_096;
/// Above the norm of every update.
pub(super) const CLIP: f64 = 2.0;

/// A job whose rounds are one group of five, which bears one lost member.
pub(super) fn masked() -> Value {
    let mut file = job_file(&json!({
        "round": { "updates_goal": CLIENTS, "updates_min": 3 },
        "aggregation": { "combine": "uniform_mean" },
        "secure_aggregation": { "clip": CLIP, "levels": LEVELS },
    }));
    file.as_object_mut().unwrap().remove("update");
    file
}

pub(super) fn delta(place: usize) -> Vec<f32> {
    (0..WEIGHTS).map(|index| 0.05 * (index + 3 * place) as f32 - 0.4).collect()
}

/// What a client signs with.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) keys: StoredKey,
    pub(super) peers: CertifiedPeers,
}

impl Signing {
    fn signers(&self) -> Signers<'_> {
        Signers { keys: &self.keys, peers: &self.peers }
    }
}

/// A client in the course of its exchange.
pub(super) struct Seat {
    pub(super) device: Device,
    pub(super) assignment: Assignment,
    pub(super) member: Member,
    pub(super) place: usize,
    /// In groups whose members sign.
    pub(super) signing: Option<Signing>,
}

impl Seat {
    pub(super) fn new(device: Device, assignment: Assignment, place: usize) -> Self {
        Self::signing(device, assignment, place, None)
    }

    pub(super) fn signing(device: Device, assignment: Assignment, place: usize, signing: Option<Signing>) -> Self {
        let masking = assignment.plan.masking.unwrap();
        let terms = Terms {
            job: assignment.job,
            round: assignment.round.into(),
            model: if masking.any_version { NO_MODEL } else { assignment.model_sha256 },
            plan: assignment.plan.hash(),
            length: quantiser().coordinates(),
            trust: masking.trust,
            members_min: masking.group_min as u16,
            survivors_min: 0,
            degree_min: 2,
            dropouts: masking.dropouts,
            corrupt: masking.corrupt,
        };
        let certificate = signing.as_ref().map_or(&[][..], |signing| signing.peers.own());
        let member = Member::join(terms, certificate, &mut system_entropy).unwrap();
        Self { device, assignment, member, place, signing }
    }

    /// The status of a call, and its answer.
    pub(super) async fn call(&self, method: Method, call: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
        let path = format!("/assignments/{}/group{call}", self.assignment.id);
        let answer = self.device.request(method, &path).body(body).send().await.unwrap();
        (answer.status(), answer.bytes().await.unwrap().to_vec())
    }

    pub(super) async fn taken(&self, method: Method, call: &str, body: Vec<u8>) -> Vec<u8> {
        let (status, body) = self.call(method, call, body).await;
        assert_eq!(status, StatusCode::OK, "{call}: {}", String::from_utf8_lossy(&body));
        body
    }

    pub(super) async fn join(&mut self) -> Vec<u8> {
        let formed = self.taken(Method::PUT, "", self.member.request()).await;
        let formed = Formed::from_bytes(&formed).unwrap();
        let signers = self.signing.as_ref().map(Signing::signers);
        self.member.formed(&formed, signers, &mut system_entropy).unwrap()
    }

    pub(super) async fn share(&mut self, shares: Vec<u8>) {
        let inbox = self.taken(Method::PUT, "/shares", shares).await;
        let signers = self.signing.as_ref().map(Signing::signers);
        self.member.inbox(&Inbox::from_bytes(&inbox).unwrap(), signers).unwrap();
    }

    /// The body of its update.
    fn masked(&mut self) -> Vec<u8> {
        let values = self.quantised(&delta(self.place));
        self.masked_as(&values)
    }

    /// An update as the integers that are masked.
    pub(super) fn quantised(&self, delta: &[f32]) -> Vec<i64> {
        let roster = self.member.roster().unwrap();
        quantiser().quantise(delta, &roster, &mut SecretStream::of([7; 32])).unwrap().values
    }

    /// The body with these integers, whatever they are.
    pub(super) fn masked_as(&mut self, values: &[i64]) -> Vec<u8> {
        let told = Told { is_whole: true, examples: 10, loss: Some(0.5) };
        let words = Words::of(self.member.bits().unwrap(), values);
        self.member.masked(words, told.slots().to_vec()).unwrap()
    }

    pub(super) async fn send(&mut self) {
        let body = self.masked();
        self.taken(Method::PUT, "/update", body).await;
    }

    /// Learns who survived. The result opens the sum.
    pub(super) async fn survive(&mut self) -> Vec<u8> {
        match self.learn().await {
            Next::Unmask(unmask) => unmask.to_bytes(),
            Next::Agreement(signature) => self.agree(signature.to_vec()).await,
        }
    }

    /// Learns who survived.
    pub(super) async fn learn(&mut self) -> Next {
        let survivors = self.taken(Method::GET, "/survivors", Vec::new()).await;
        let signers = self.signing.as_ref().map(Signing::signers);
        self.member.survivors(&Survivors::from_bytes(&survivors).unwrap(), signers).unwrap()
    }

    /// Signs who survived. The result opens the sum.
    pub(super) async fn agree(&mut self, signature: Vec<u8>) -> Vec<u8> {
        let agreement = self.taken(Method::PUT, "/agreement", signature).await;
        let signers = self.signing.as_ref().map(Signing::signers);
        self.member.agreement(&Agreement::from_bytes(&agreement).unwrap(), signers).unwrap().to_bytes()
    }

    pub(super) async fn give_up(&self) {
        self.device.fail(self.assignment.id, "interrupted").await.value();
    }
}

fn quantiser() -> Quantiser {
    Quantiser::new(WEIGHTS, CLIP, LEVELS, 1.0).unwrap()
}

/// Five clients with work.
pub(super) async fn seats(world: &World) -> Vec<Seat> {
    let devices: [Device; CLIENTS] = world.devices().await;
    let [a, b, c, d, e] = &devices;
    let assignments = world.assign([a, b, c, d, e]).await;
    let seats = devices.iter().zip(assignments).zip(0..);
    seats.map(|((device, assignment), place)| Seat::new(device.clone(), assignment, place)).collect()
}

pub(super) async fn detail(world: &World, job: &Job) -> RoundDetail {
    world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok()
}

/// The stages at the beginning of which clients give up, by their places.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    sharing: &'static [usize],
    masking: &'static [usize],
    unmasking: &'static [usize],
}

/// Plays a round in which these clients are lost, with a restart of the coordinator before each stage where asked for.
async fn played(lost: Lost, restarts: bool) -> (World, Job) {
    let mut world = World::start().await;
    let job: Job = world.create_job(&masked()).await.ok();
    let mut seats = seats(&world).await;
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    if restarts {
        world.restart().await;
    }
    let mut with_shares: Vec<(Seat, Vec<u8>)> = seats.into_iter().zip(shares).collect();
    for (seat, _) in with_shares.extract_if(.., |(seat, _)| lost.sharing.contains(&seat.place)) {
        seat.give_up().await;
    }
    let sharing = with_shares.iter_mut().map(|(seat, shares)| seat.share(shares.clone()));
    world.driven(join_all(sharing)).await;
    if restarts {
        world.restart().await;
    }
    let mut seats: Vec<Seat> = with_shares.into_iter().map(|(seat, _)| seat).collect();
    for seat in seats.extract_if(.., |seat| lost.masking.contains(&seat.place)) {
        seat.give_up().await;
    }
    world.driven(join_all(seats.iter_mut().map(Seat::send))).await;
    if restarts {
        world.restart().await;
    }
    let opening = world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        match lost.unmasking.contains(&seat.place) {
            true => seat.give_up().await,
            false => drop(seat.taken(Method::PUT, "/unmask", unmask).await),
        }
        if restarts {
            world.restart().await;
        }
    }
    world.drive().await;
    (world, job)
}

/// Checks that version 1 is the mean of these clients' updates.
pub(super) async fn check_mean(world: &World, job: &Job, members: &[usize]) {
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        let mean = members.iter().map(|place| delta(*place)[index]).sum::<f32>() / members.len() as f32;
        assert!((after - before - mean).abs() < 1e-3, "{index}: {} instead of {mean}", after - before);
    }
    world.check_books(job.head.id).await;
}

/// Goal: the model is the mean of the updates whose bodies came, whoever is lost at which stage.
#[tokio::test]
async fn the_sum_of_a_group_is_that_of_its_survivors() {
    let cases = [
        (Lost::default(), &[0, 1, 2, 3, 4][..], 5),
        (Lost { sharing: &[3], ..Lost::default() }, &[0, 1, 2, 4], 4),
        (Lost { masking: &[0], ..Lost::default() }, &[1, 2, 3, 4], 4),
        // Its update is in the sum, and the client has failed.
        (Lost { unmasking: &[1], ..Lost::default() }, &[0, 1, 2, 3, 4], 4),
    ];
    for (lost, members, reported) in cases {
        let (world, job) = played(lost, false).await;
        let RoundDetail { round, groups, .. } = detail(&world, &job).await;
        assert_eq!((round.phase, round.reported), (Phase::Committed, reported), "{lost:?}");
        assert_eq!((groups.len(), groups[0].stage), (1, GroupStage::Summed));
        let gone = groups[0].members.iter().filter(|member| member.came == GroupProgress::Lost).count();
        assert_eq!(gone, CLIENTS - members.len(), "{lost:?}: {groups:?}");
        check_mean(&world, &job, members).await;
        assert!((round.training_loss.unwrap() - 0.5).abs() < 1e-3, "the mean of what members told");
    }
}

#[tokio::test]
async fn a_restart_before_each_step_changes_nothing() {
    let (world, job) = played(Lost { masking: &[2], ..Lost::default() }, true).await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    check_mean(&world, &job, &[0, 1, 3, 4]).await;
}

#[tokio::test]
async fn a_group_that_loses_one_more_has_no_sum_and_says_so() {
    let (world, job) = {
        let world = World::start().await;
        let job: Job = world.create_job(&masked()).await.ok();
        let mut seats = seats(&world).await;
        let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
        world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
        for seat in &seats[3..] {
            seat.give_up().await;
        }
        world.drive().await;
        let body = seats[0].masked();
        assert_eq!(seats[0].call(Method::PUT, "/update", body).await.0, StatusCode::GONE);
        let (status, problem) = seats[0].call(Method::GET, "/survivors", Vec::new()).await;
        let problem: Value = serde_json::from_slice(&problem).unwrap();
        assert_eq!((status, &problem["type"]), (StatusCode::GONE, &json!(ProblemType::GroupFailed.uri())));
        (world, job)
    };
    let RoundDetail { round, groups, explanation, .. } = detail(&world, &job).await;
    assert_eq!((groups[0].stage, groups[0].reason), (GroupStage::Failed, Some(GroupFailure::TooFewSurvivors)));
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::TooFewReports)));
    assert!(explanation.contains("0 of the 4 it needs sent their masked updates"), "{explanation}");
    world.check_books(job.head.id).await;
}

/// A member that stays away without a word is waited for as long as the stage lasts.
#[tokio::test]
async fn a_silent_member_costs_the_time_of_a_stage_and_its_update() {
    let world = World::start().await;
    let job: Job = world.create_job(&masked()).await.ok();
    let mut seats = seats(&world).await;
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    seats.pop();
    {
        let sharing = seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares));
        let mut sharing = pin!(join_all(sharing));
        let mut changes = world.app().signals.watch();
        loop {
            world.drive().await;
            let groups = detail(&world, &job).await.groups;
            let is_here = |member: &&RoundGroupMember| member.came == GroupProgress::Shared;
            if groups[0].members.iter().filter(is_here).count() == CLIENTS - 1 {
                world.pass_ms(30_000).await;
            }
            tokio::select! {
                _ = &mut sharing => break,
                changed = changes.changed() => changed.unwrap(),
            }
        }
    }
    world.driven(join_all(seats.iter_mut().map(Seat::send))).await;
    let opening = world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        seat.taken(Method::PUT, "/unmask", unmask).await;
    }
    world.drive().await;
    check_mean(&world, &job, &[0, 1, 2, 3]).await;
    let lost = world.assignments(job.head.id, 1).await;
    let lost: Vec<_> = lost.iter().filter(|assignment| assignment.state == AssignmentState::Expired).collect();
    assert!(lost.len() == 1 && lost[0].reason.as_ref().unwrap().starts_with("lost:"), "{lost:?}");
}

#[tokio::test]
async fn what_does_not_belong_to_a_stage_is_refused_and_changes_nothing() {
    let world = World::start().await;
    let job: Job = world.create_job(&masked()).await.ok();
    let mut seats = seats(&world).await;
    let first = &seats[0];
    let refused = async |seat: &Seat, method: Method, call: &str, body: Vec<u8>| {
        let (status, problem) = seat.call(method, call, body).await;
        let problem: Value = serde_json::from_slice(&problem).unwrap();
        (status.as_u16(), problem["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned())
    };
    let plain = delta_file(&first.assignment, &delta(0));
    let answer = first.device.put_update(first.assignment.id, &figures(10), plain).await;
    answer.refused(ProblemType::WrongState);
    assert_eq!(refused(first, Method::PUT, "", vec![1; 160]).await, (400, "malformed".into()));
    assert_eq!(refused(first, Method::PUT, "/shares", vec![]).await, (400, "malformed".into()));
    assert_eq!(refused(first, Method::GET, "/survivors", vec![]).await, (409, "wrong-state".into()), "not joined");
    assert_eq!(refused(first, Method::PUT, "/update", vec![1; 99]).await, (409, "wrong-state".into()));
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    let (first, second) = (&seats[0], &seats[1]);
    let other = Seat::new(first.device.clone(), first.assignment.clone(), 0);
    let record = other.member.record().to_vec();
    assert_eq!(refused(first, Method::PUT, "", record).await, (409, "update-conflict".into()), "another record");
    let foreign = shares[1].clone();
    assert_eq!(refused(first, Method::PUT, "/shares", foreign).await.0, 400, "the shares of another member");
    assert_eq!(refused(first, Method::PUT, "/update", vec![1; 99]).await, (410, "group-closed".into()), "too early");
    assert_eq!(refused(second, Method::PUT, "/unmask", vec![0, 0]).await, (410, "group-closed".into()), "too early");
    world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
    let mut body = seats[0].masked();
    body.pop();
    assert_eq!(refused(&seats[0], Method::PUT, "/update", body).await, (422, "update-rejected".into()), "cut off");
    let (one, others) = (seats.remove(0), &mut seats);
    world.driven(join_all(others.iter_mut().map(Seat::send))).await;
    let opening = world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    let mut wrong_kind = opening[0].clone();
    // Count, owner, then the kind: the other secret of the same neighbour.
    wrong_kind[4] = 3 - wrong_kind[4];
    assert_eq!(refused(&seats[0], Method::PUT, "/unmask", wrong_kind).await.0, 400, "never both secrets");
    for (seat, unmask) in seats.iter().zip(opening) {
        seat.taken(Method::PUT, "/unmask", unmask).await;
    }
    world.drive().await;
    check_mean(&world, &job, &[1, 2, 3, 4]).await;
    drop(one);
}

/// Goal: nobody trains in vain. A client that has opened its part checks in before the others have opened theirs.
#[tokio::test]
async fn a_client_is_handed_no_work_while_the_sum_with_its_update_is_not_open() {
    let world = World::start().await;
    let job: Job = world.create_job(&masked()).await.ok();
    let mut seats = seats(&world).await;
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    assert_eq!(seats[0].device.work().await.id, seats[0].assignment.id, "a client that was killed goes on");
    world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
    world.driven(join_all(seats.iter_mut().map(Seat::send))).await;
    let opening = world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        assert!(matches!(seat.device.check_in(0).await, CheckInResponse::Retry { .. }), "its update is here");
        seat.taken(Method::PUT, "/unmask", unmask).await;
        assert!(matches!(seat.device.check_in(0).await, CheckInResponse::Retry { .. }), "the sum is not open");
    }
    world.drive().await;
    check_mean(&world, &job, &[0, 1, 2, 3, 4]).await;
}
