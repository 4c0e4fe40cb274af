//! Links between members of a group that go through the coordinator.
//!
//! Goal: a member to which nobody can connect takes part, the model has the bits of the star, and nobody but the two
//! members of a link can use it.

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder, StatusCode, Upgraded};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_protocol::group::messages::LINK_UPGRADE;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::RoundRing;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{Phase, RingState, StallKind, StarReason};

use super::ring::{Ghost, MEMBERS, brisk, drawn_ghosts, ended, members_at, ring, star_model};
use crate::support::{Answer, Device, World, within_reason};

/// An address at which nobody listens.
pub(crate) const NOWHERE: &str = "127.0.0.1:9";

/// A job whose updates are larger than what is around them, so that bytes are compared and not headers.
pub(crate) fn changes() -> Value {
    json!({ "model": { "parameters": [{ "name": "w", "shape": [50, 40] }] } })
}

pub(crate) fn relaying(members: usize, attempts: u32) -> Value {
    let mut file = brisk(&changes());
    file["group"] = json!({ "topology": { "kind": "ring" }, "frame_ms": 1_000, "links": "any", "attempts": attempts });
    file["round"]["updates_goal"] = json!(members);
    file
}

/// Plays the only round of a job in which the members with these places tell an address at which they are not.
async fn played(members: usize, hidden: &[usize]) -> (World, JobId, RoundRing) {
    let world = World::start_driven().await;
    let addresses: Vec<_> = (0..members).map(|place| Some(hidden.contains(&place).then_some(NOWHERE))).collect();
    let mut members = members_at(&world, &addresses).await;
    let job = world.job(relaying(members.len(), 8)).await.head.id;
    let played = within_reason(join_all(members.iter_mut().map(|member| member.contribute(1)))).await;
    assert!(played.iter().all(Result::is_ok), "{played:?}");
    within_reason(ended(&world, job)).await;
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported as usize), (Phase::Committed, members.len()), "{round:?}");
    let ring = settled(&world, job).await;
    (world, job, ring)
}

/// The groups of a round, once what its links have passed on is counted.
async fn settled(world: &World, job: JobId) -> RoundRing {
    let mut changes = world.app().signals.watch();
    loop {
        let ring = ring(world, job, 1).await;
        let last = ring.attempts.last().unwrap();
        if last.state != RingState::Counted
            || last.members.iter().all(|part| part.relayed == part.relayed_bytes.is_some())
        {
            return ring;
        }
        within_reason(changes.changed()).await.unwrap();
    }
}

#[tokio::test]
async fn a_member_that_nobody_reaches_adds_up_through_the_coordinator() {
    let (world, job, ring) = played(MEMBERS, &[2]).await;
    let (last, failed) = ring.attempts.split_last().unwrap();
    assert_eq!((last.state, last.members.len(), ring.star), (RingState::Counted, MEMBERS, None), "{ring:?}");
    assert!(!failed.is_empty() && failed.iter().all(|attempt| attempt.members.len() == MEMBERS), "nobody is left out");
    let stalls: Vec<_> = failed.iter().flat_map(|attempt| &attempt.members).filter_map(|part| part.stall).collect();
    assert!(stalls.iter().all(|stall| stall.what == StallKind::Unreachable), "{stalls:?}");
    // One link is relayed, and carries 2 (m - 1) / m sums, each of more than 2 bytes a value.
    let relayed: Vec<u64> = last.members.iter().filter_map(|part| part.relayed_bytes).collect();
    assert!(relayed.len() == 1 && (6_400..40_000).contains(&relayed[0]), "{relayed:?}");
    assert_eq!(Sha256Hash::of(&world.model_file(job, 1).await), star_model(MEMBERS, &changes()).await);
}

#[tokio::test]
async fn a_group_whose_links_would_all_be_relayed_is_a_star_and_says_why() {
    let (world, job, ring) = played(3, &[0, 1, 2]).await;
    assert_eq!(ring.star, Some(StarReason::Links), "{ring:?}");
    assert!(ring.attempts.iter().all(|attempt| attempt.state == RingState::Failed), "{ring:?}");
    let detail: Value = world.look(&format!("/jobs/{job}/rounds/1")).await.ok();
    let told = detail["explanation"].as_str().unwrap();
    assert!(told.contains("would send more through the coordinator"), "{told}");
    assert_eq!(Sha256Hash::of(&world.model_file(job, 1).await), star_model(3, &changes()).await);
}

/// Four members played by hand, of which the first cannot connect to the second one.
async fn apart(world: &World) -> (JobId, Vec<Ghost>, String) {
    let (job, mut ghosts) = drawn_ghosts(world, 4, &relaying(4, 8)).await;
    ghosts.sort_by_key(|ghost| ghost.device.id.to_string());
    let mut tx = world.app().db.begin().await.unwrap();
    // All ways but one are fine.
    let mut numbered = Vec::new();
    for ghost in &ghosts {
        numbered.push((tx.client(ghost.device.id).await.unwrap().unwrap().number, ghost.device.id));
    }
    numbered.sort_unstable();
    tx.ring_unreachable(numbered[0].1, numbered[1].1, world.app().clock.now_ms()).await.unwrap();
    tx.commit().await.unwrap();
    ghosts.sort_by_key(|ghost| numbered.iter().position(|(_, id)| *id == ghost.device.id));
    let formed = within_reason(join_all(ghosts.iter().map(|ghost| ghost.ready(0)))).await;
    for (rank, answer) in formed.iter().enumerate() {
        let value = answer.value();
        assert_eq!((value["rank"].as_u64(), &value["relayed"]), (Some(rank as u64), &json!([0])), "{answer:?}");
    }
    let group = formed[0].value()["group"].as_str().unwrap().to_owned();
    (job, ghosts, group)
}

fn link(device: &Device, group: &str, rank: u16) -> RequestBuilder {
    let request = device.request(Method::GET, &format!("/groups/{group}/links/{rank}"));
    request.header("connection", "upgrade").header("upgrade", LINK_UPGRADE)
}

async fn upgraded(request: RequestBuilder) -> Upgraded {
    let response = within_reason(request.send()).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS, "{response:?}");
    response.upgrade().await.unwrap()
}

/// Both ends of the link of the first member.
async fn both(ghosts: &[Ghost], group: &str) -> [Upgraded; 2] {
    let [one, other] = [0, 1].map(|rank| upgraded(link(&ghosts[rank].device, group, 0)));
    let (one, other) = within_reason(futures_util::future::join(one, other)).await;
    [one, other]
}

/// What is left to read of a link that has ended.
async fn rest(stream: &mut Upgraded) -> Vec<u8> {
    let mut read = Vec::new();
    // The coordinator closes it, in whatever way.
    let _ = within_reason(stream.read_to_end(&mut read)).await;
    read
}

#[tokio::test]
async fn a_link_is_for_its_two_members_alone() {
    let world = World::start_driven().await;
    let (_, ghosts, group) = apart(&world).await;
    let stranger = world.device().await;
    let [first, third] = [0, 2].map(|rank| &ghosts[rank].device);
    let refused = async |request: RequestBuilder, problem| drop(Answer::to(request).await.refused(problem));
    refused(link(&stranger, &group, 0), ProblemType::Forbidden).await;
    refused(link(third, &group, 0), ProblemType::Forbidden).await;
    refused(link(first, &group, 3), ProblemType::WrongState).await;
    refused(link(first, &group, 9), ProblemType::NotFound).await;
    refused(link(first, &format!("group_{}", "7".repeat(32)), 0), ProblemType::NotFound).await;
    refused(first.request(Method::GET, &format!("/groups/{group}/links/0")), ProblemType::Malformed).await;
    // Nobody else has come.
    refused(link(first, &group, 0), ProblemType::WrongState).await;
    let [mut one, mut other] = both(&ghosts, &group).await;
    // A second one for a side of a link that both have.
    refused(link(first, &group, 0), ProblemType::WrongState).await;
    refused(link(&ghosts[1].device, &group, 0), ProblemType::WrongState).await;
    // Whatever it is: the coordinator understands none of it.
    one.write_all(&[0xA5; 100_000]).await.unwrap();
    one.flush().await.unwrap();
    let mut read = vec![0; 100_000];
    within_reason(other.read_exact(&mut read)).await.unwrap();
    assert_eq!(read, [0xA5; 100_000]);
    drop(one);
    assert!(rest(&mut other).await.is_empty());
}

#[tokio::test]
async fn a_link_that_is_silent_ends_and_so_does_one_whose_group_has_ended() {
    let world = World::start_driven().await;
    let (_, ghosts, group) = apart(&world).await;
    // Nobody says anything for `frame_ms`.
    let [mut one, mut other] = both(&ghosts, &group).await;
    assert_eq!((rest(&mut one).await, rest(&mut other).await), (vec![], vec![]));
    let [mut one, mut other] = both(&ghosts, &group).await;
    let stall = json!({ "attempt": 1, "rank": 3, "what": "closed", "step": 0 });
    ghosts[2].put("ring/stall", &stall).await;
    let talks = async { while one.write_all(b"I live").await.is_ok() && one.flush().await.is_ok() {} };
    let hears = async {
        let mut bytes = [0; 1024];
        while other.read(&mut bytes).await.is_ok_and(|bytes| bytes > 0) {}
    };
    within_reason(futures_util::future::join(talks, hears)).await;
    Answer::to(link(&ghosts[0].device, &group, 0)).await.refused(ProblemType::WrongState);
}
