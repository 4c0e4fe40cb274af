//! A group over TLS, of which one link goes through the coordinator.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use tributary_client::Client;
use tributary_protocol::operator::{Job, RingAttempt, RoundDetail, RoundRing};
use tributary_protocol::state::{Phase, RingState};

use super::Listening;
use crate::rounds::ring::{MEMBERS, member};
use crate::rounds::ring_links::{NOWHERE, relaying};
use crate::support::{Answer, job_file, within_reason};

/// Goal: where clients and coordinator would speak HTTP/2, the call that becomes a link is made over HTTP/1.1, whose
/// `Upgrade` it needs. Method: nobody can connect to the third member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_through_the_coordinator_is_made_over_tls() {
    let listening = Listening::start().await;
    let mut members = Vec::new();
    for place in 0..MEMBERS {
        let builder = Client::builder(listening.url(), listening.enrolment.clone());
        members.push(member(builder, (place, Some((place == 2).then_some(NOWHERE)))).await);
    }
    let mut file = job_file(&relaying(MEMBERS, 4));
    file["population"] = json!("default");
    let created = listening.operate(Method::POST, "/jobs").json(&json!({ "job": file }));
    let job = Answer::to(created).await.ok::<Job>().head.id;
    let contributed = within_reason(join_all(members.iter_mut().map(|member| member.contribute(1)))).await;
    assert!(contributed.iter().all(Result::is_ok), "{contributed:?}");
    listening.until_completed(job).await;
    let detail: RoundDetail = listening.look(&format!("/jobs/{job}/rounds/1")).await.ok();
    assert_eq!((detail.round.phase, detail.round.reported as usize), (Phase::Committed, MEMBERS), "{detail:?}");
    let Some(RoundRing { attempts, star, .. }) = detail.ring else { panic!("a job with groups") };
    let Some(RingAttempt { state, members, .. }) = attempts.last() else { panic!("no group has formed") };
    assert_eq!((*state, members.iter().filter(|member| member.relayed).count(), star), (RingState::Counted, 1, None));
    assert_ne!(listening.model(job, 1).await.values(), listening.model(job, 0).await.values());
    listening.stop().await;
}
