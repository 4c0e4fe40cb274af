//! Clients with certificates of the coordinator in a masked job: their groups sign, and nobody sets anything.

use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Outcome};
use tributary_protocol::operator::{Job, RoundDetail};
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::state::GroupStage;
use tributary_server::devices::ClientAuth;

use super::world::TlsWorld;
use crate::support::{Adds, job_file, within_reason};

const CLIENTS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_clients_have_certificates_groups_sign_by_themselves() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let mut file = job_file(&json!({
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS },
        "aggregation": { "combine": "uniform_mean" },
        "secure_aggregation": {},
    }));
    file.as_object_mut().unwrap().remove("update");
    let job: Job = world.create(&file).await.ok();
    assert_eq!(job.file.secure_aggregation.as_ref().unwrap().trust, Some(GroupTrust::Signed));
    let directories: Vec<_> = (0..CLIENTS).map(|_| TempDir::new().unwrap()).collect();
    let sessions = directories.iter().map(|directory| {
        let client = world.sdk(directory.path()).wait(std::time::Duration::from_secs(60)).build().unwrap();
        tokio::spawn(async move { client.run_once(&mut Adds::new(0.5), &AlwaysOn).await })
    });
    let sessions: Vec<_> = sessions.collect();
    for outcome in within_reason(join_all(sessions)).await {
        let outcome = outcome.unwrap().unwrap();
        assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    }
    world.until_committed(&job).await;
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
    assert_eq!((detail.groups.len(), detail.groups[0].stage), (1, GroupStage::Summed));
    world.stop().await;
}

#[tokio::test]
async fn a_job_that_signs_needs_certificates_from_somebody() {
    let mut world = TlsWorld::start(ClientAuth::Bearer).await;
    let create = async |secure| {
        let mut file = job_file(&json!({
            "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS },
            "aggregation": { "combine": "uniform_mean" },
            "secure_aggregation": secure,
        }));
        file.as_object_mut().unwrap().remove("update");
        world.create(&file).await
    };
    for (secure, why) in [
        (json!({ "trust": "signed" }), "gives its clients no certificates"),
        (json!({ "peers_ca": "no certificate" }), "[secure_aggregation] peers_ca: "),
        (json!({ "peers_ca": "", "trust": "honest" }), "[secure_aggregation] peers_ca must be left out"),
    ] {
        let refused = create(secure).await.refused(tributary_protocol::problem::ProblemType::JobFileInvalid);
        assert!(refused.detail.contains(why), "{refused:?}");
    }
    let job: Job = create(json!({})).await.ok();
    assert_eq!(job.file.secure_aggregation.unwrap().trust, Some(GroupTrust::Honest));
    world.stop().await;
}
