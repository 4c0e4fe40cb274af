//! The norm bound of updates: fixed, and adaptive.

use serde_json::json;
use tempfile::TempDir;
use tributary_client::Outcome;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase};

use crate::sdk::session;
use crate::support::{Adds, Device, WEIGHTS, World, delta_file, figures, sdk_client};

/// A delta of this norm.
fn delta(norm: f64) -> [f32; WEIGHTS] {
    [(norm / (WEIGHTS as f64).sqrt()) as f32; WEIGHTS]
}

#[tokio::test]
async fn a_device_clips_its_update_and_one_that_does_not_is_refused() {
    for codec in ["f32", "int8", "ternary", "top_k"] {
        let world = World::start().await;
        let job = world.job(json!({ "update": { "codec": codec, "norm_max": 2.0 } })).await;
        let directory = TempDir::new().unwrap();
        let client = sdk_client(&world, directory.path());
        // Its delta has a norm of 12.
        let outcome = session(&world, &client, &mut Adds::new(12.0 / (WEIGHTS as f32).sqrt())).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{codec}: {outcome:?}");
        let accepted = world.assignments(job.head.id, 1).await[0].update_norm.unwrap();
        assert!(accepted > 0.5 && accepted <= 2.0 * 1.01, "{codec}: {accepted}");
        let round = world.round(job.head.id, 1).await;
        assert_eq!((round.phase, round.norm_max), (Phase::Committed, Some(2.0)));
        let hostile = world.device().await.reading(&["f32", "int8", "ternary", "top_k"]);
        let [work] = world.assign([&hostile]).await;
        assert_eq!(work.plan.norm_max, Some(2.0));
        let body = delta_file(&work, &delta(12.0));
        hostile.put_update(work.id, &figures(10), body).await.refused(ProblemType::UpdateRejected);
        let refused = &world.assignments(job.head.id, 2).await[0];
        assert_eq!(refused.state, AssignmentState::Rejected);
        let reason = refused.reason.as_deref().unwrap();
        assert!(reason.contains("above the round's largest of 2"), "{codec}: {reason}");
        world.check_books(job.head.id).await;
    }
}

/// Goal: an update that is added while it arrives leaves nothing in the sum when its norm, which is known at its end,
/// is too large.
#[tokio::test]
async fn a_large_update_above_the_bound_is_taken_out_of_the_sum() {
    const VALUES: usize = 400_000;
    let with_offender = async |has_offender: bool| {
        let world = World::start().await;
        let job = world
            .job(json!({
                "model": { "parameters": [{ "name": "w", "shape": [VALUES] }] },
                "update": { "norm_max": 500.0 },
                "round": { "updates_goal": 2, "updates_min": 1 },
            }))
            .await;
        let [bad, good] = world.devices().await;
        let [theirs, ours] = world.assign([&bad, &good]).await;
        if has_offender {
            // The norm is 632.
            let body = delta_file(&theirs, &vec![1.0; VALUES]);
            bad.put_update(theirs.id, &figures(10), body).await.refused(ProblemType::UpdateRejected);
        }
        good.contribute(&ours, &vec![0.25; VALUES], 10).await;
        world.pass_ms(10_000).await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        world.check_books(job.head.id).await;
        world.weights(job.head.id, 1).await
    };
    assert!(with_offender(true).await == with_offender(false).await);
}

async fn contribute(world: &World, devices: &[Device; 5], norms: [f64; 5]) {
    let work = world.assign(std::array::from_fn::<_, 5, _>(|index| &devices[index])).await;
    for ((device, work), norm) in devices.iter().zip(&work).zip(norms) {
        device.contribute(work, &delta(norm), 10).await;
    }
    world.drive().await;
}

#[tokio::test]
async fn an_adaptive_bound_follows_the_norms_of_recent_rounds_and_survives_a_restart() {
    let mut world = World::start().await;
    let job = world
        .job(json!({
            "update": { "norm_max": { "quantile": 0.5, "factor": 2.0, "rounds": 1 } },
            "round": { "updates_goal": 5, "updates_min": 3 },
        }))
        .await;
    let devices: [Device; 5] = world.devices().await;
    contribute(&world, &devices, [1.0, 2.0, 3.0, 4.0, 15.0]).await;
    assert_eq!(world.round(job.head.id, 1).await.norm_max, None, "the first round has no norms to follow");
    let work = world.assign(std::array::from_fn::<_, 5, _>(|index| &devices[index])).await;
    let bound = world.round(job.head.id, 2).await.norm_max.unwrap();
    assert!((bound - 6.0).abs() < 1e-6, "twice the median: {bound}");
    assert_eq!(work[0].plan.norm_max, None, "devices do not know it");
    world.restart().await;
    for (device, work) in devices[..2].iter().zip(&work) {
        let body = delta_file(work, &delta(6.5));
        device.put_update(work.id, &figures(10), body).await.refused(ProblemType::UpdateRejected);
    }
    for (device, work) in devices[2..].iter().zip(&work[2..]) {
        device.contribute(work, &delta(5.0), 10).await;
    }
    world.drive().await;
    let round = world.round(job.head.id, 2).await;
    assert_eq!((round.phase, round.reported, round.rejected, round.norm_max), (Phase::Committed, 3, 2, Some(bound)));
    let assignments = world.assignments(job.head.id, 2).await;
    let reason = assignments.iter().find_map(|assignment| assignment.reason.as_deref()).unwrap();
    assert!(reason.contains("above the round's largest of"), "{reason}");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn honest_norms_that_outgrow_an_adaptive_bound_are_accepted_after_abandoned_rounds() {
    let world = World::start().await;
    let job = world
        .job(json!({
            "update": { "norm_max": { "quantile": 1.0, "factor": 1.0, "rounds": 10 } },
            "round": { "updates_goal": 5, "updates_min": 5 },
        }))
        .await;
    let devices: [Device; 5] = world.devices().await;
    contribute(&world, &devices, [1.0; 5]).await;
    for (round, bound) in [(2, 1.0), (3, 2.0)] {
        let work = world.assign(std::array::from_fn::<_, 5, _>(|index| &devices[index])).await;
        for (device, work) in devices.iter().zip(&work) {
            let body = delta_file(work, &delta(3.0));
            device.put_update(work.id, &figures(10), body).await.refused(ProblemType::UpdateRejected);
        }
        world.drive().await;
        let ended = world.round(job.head.id, round).await;
        assert_eq!((ended.phase, ended.reason), (Phase::Abandoned, Some(AbandonReason::TooFewReports)));
        assert!((ended.norm_max.unwrap() - bound).abs() < 1e-6, "{:?}", ended.norm_max);
        world.pass_ms(4_000).await;
    }
    contribute(&world, &devices, [3.0; 5]).await;
    assert_eq!(world.round(job.head.id, 4).await.phase, Phase::Committed);
    contribute(&world, &devices, [3.0; 5]).await;
    let settled = world.round(job.head.id, 5).await.norm_max.unwrap();
    assert!((settled - 3.0).abs() < 1e-6, "{settled}");
    world.check_books(job.head.id).await;
}
