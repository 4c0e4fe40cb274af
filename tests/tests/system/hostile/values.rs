//! A few bytes that stand for millions of values.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;

use crate::support::{World, delta_file, figures, within_reason};

const PARAMETERS: usize = 4 << 20;

/// Goal: coded updates that take long for their bytes never keep other requests from being answered. Method: this
/// runtime has one thread. Eight updates of a few hundred bytes for 4 million values each are sent at once, wrong only
/// in their last byte; while they are decoded, health checks are counted. Decoded on that thread, each would let at
/// most one through.
#[tokio::test]
async fn health_is_answered_while_coded_updates_are_decoded() {
    for codec in ["ternary", "qsgd"] {
        let world = World::start().await;
        let job = world
            .job(json!({
                "model": { "parameters": [{ "name": "w", "shape": [PARAMETERS] }] },
                "update": { "codec": codec },
                "round": { "updates_goal": 9, "updates_min": 1, "deadline_ms": 600_000 },
            }))
            .await;
        let devices: [_; 9] = world.devices().await;
        let devices = devices.map(|device| device.reading(&["f32", "ternary", "qsgd"]));
        let assignments = world.assign(std::array::from_fn::<_, 9, _>(|index| &devices[index])).await;
        let body = delta_file(&assignments[0], &vec![0.0; PARAMETERS]);
        assert!(body.len() < 2_000, "{} bytes", body.len());
        let hostile = devices[1..].iter().zip(&assignments[1..]).map(|(device, assignment)| {
            let mut body = delta_file(assignment, &vec![0.0; PARAMETERS]);
            body.push(0);
            async move { device.put_update(assignment.id, &figures(10), body).await }
        });
        let hostile = futures_util::future::join_all(hostile);
        tokio::pin!(hostile);
        let mut healthy = 0;
        let refused = within_reason(async {
            loop {
                tokio::select! {
                    biased;
                    refused = &mut hostile => return refused,
                    answer = world.request(Method::GET, "/healthz").send() => {
                        assert!(answer.unwrap().status().is_success());
                        healthy += 1;
                    }
                }
            }
        });
        for answer in refused.await {
            answer.refused(ProblemType::UpdateRejected);
        }
        assert!(healthy > 8, "{codec}: {healthy} health checks were answered meanwhile");
        devices[0].contribute(&assignments[0], &vec![0.0; PARAMETERS], 10).await;
        world.pass_ms(600_000).await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        world.check_books(job.head.id).await;
    }
}
