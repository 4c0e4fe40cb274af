//! Downloading a model version: caches, ranges, and whose it is.

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tributary_protocol::operator::{Job, ModelVersion, Page};
use tributary_protocol::problem::ProblemType;

use crate::support::{Answer, World, job_file};

async fn get(request: RequestBuilder, header: &str, value: &str) -> Answer {
    Answer::to(request.header(header, value)).await
}

#[tokio::test]
async fn a_model_can_be_cached_for_ever_and_fetched_in_parts() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let path = format!("/jobs/{}/models/0", job.head.id);
    let models: Page<ModelVersion> = world.look(&format!("/jobs/{}/models", job.head.id)).await.ok();
    let known = &models.items[0];
    for request in [
        |w: &World, p: &str, _: &_| w.operator_request(Method::GET, p),
        |_: &World, p: &str, d: &crate::support::Device| d.request(Method::GET, p),
    ] {
        let ask = || request(&world, &path, &device);
        let whole = Answer::to(ask()).await;
        assert_eq!((whole.status, whole.body.len() as u64), (200, known.bytes));
        let etag = whole.header("etag").to_owned();
        assert_eq!(etag, format!("\"{}\"", known.sha256));
        assert!(whole.header("cache-control").contains("immutable"));
        assert_eq!(whole.header("accept-ranges"), "bytes");

        for fresh in [etag.as_str(), "*", &format!("\"x\", {etag}")] {
            let cached = get(ask(), "if-none-match", fresh).await;
            assert_eq!((cached.status, cached.body.len(), cached.header("etag")), (304, 0, &*etag), "{fresh}");
        }
        assert_eq!(get(ask(), "if-none-match", "\"x\"").await.status, 200);

        let last = known.bytes - 1;
        for (range, part) in [
            ("bytes=0-9", 0..10),
            ("bytes=10-", 10..whole.body.len()),
            ("bytes=-4", whole.body.len() - 4..whole.body.len()),
        ] {
            let answer = get(ask(), "range", range).await;
            assert_eq!((answer.status, &answer.body[..]), (206, &whole.body[part.clone()]), "{range}");
            let expected = format!("bytes {}-{}/{}", part.start, part.end - 1, known.bytes);
            assert_eq!(answer.header("content-range"), expected);
        }
        let beyond = get(ask(), "range", &format!("bytes={}-", last + 1)).await;
        assert_eq!((beyond.status, beyond.header("content-range")), (416, &*format!("bytes */{}", known.bytes)));
    }
}

#[tokio::test]
async fn a_model_of_another_population_or_version_does_not_exist() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    world.operate(Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    let theirs: Job = world.create_job(&job_file(&json!({ "population": "others" }))).await.ok();
    let device = world.device().await;
    let fetch = |path: String| Answer::to(device.request(Method::GET, &path));
    fetch(format!("/jobs/{}/models/0", theirs.head.id)).await.refused(ProblemType::NotFound);
    fetch(format!("/jobs/{}/models/1", job.head.id)).await.refused(ProblemType::NotFound);
    fetch(format!("/jobs/job_{}/models/0", "0".repeat(32))).await.refused(ProblemType::NotFound);
    fetch(format!("/jobs/{}/models/latest", job.head.id)).await.refused(ProblemType::Malformed);
    world.look(&format!("/jobs/{}/models/1", job.head.id)).await.refused(ProblemType::NotFound);
}

/// The parts that a body is stored in must not show: the model here is larger than two of them.
#[tokio::test]
async fn a_model_of_several_parts_comes_whole_and_in_ranges_across_their_borders() {
    let world = World::start().await;
    let numbers = 600_000;
    let mut file = job_file(&json!({}));
    file["model"] = json!({ "parameters": [{ "name": "w", "shape": [numbers] }] });
    let job: Job = world.create_job(&file).await.ok();
    let whole = world.model_file(job.head.id, 0).await;
    assert!(whole.len() > 4 * numbers);
    let path = format!("/jobs/{}/models/0", job.head.id);
    let border = 1 << 20;
    let range = format!("bytes={}-{}", border - 3, 2 * border + 5);
    let part = get(world.operator_request(Method::GET, &path), "range", &range).await;
    assert_eq!((part.status, &part.body[..]), (206, &whole[border - 3..=2 * border + 5]));
    world.check_books(job.head.id).await;
}
