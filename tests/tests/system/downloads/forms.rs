//! Whole models in other forms: those that a job's clients fetch, and those that somebody asks for.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;

use super::{bits, changes, delta, device, expected_form, get, get_range, large, model_path, step_path};
use crate::streams::places;
use crate::support::{Answer, Device, WEIGHTS, World};

const FORMS: [ModelForm; 2] = [ModelForm::F16, ModelForm::Int8];

/// Goal: in each place for bodies, after each restart, a version's file is the same bytes, whole and in ranges across
/// the borders of its parts, and decodes to the nearest values that its form has.
#[tokio::test]
async fn a_version_is_stored_in_the_form_of_its_job_and_comes_whole_and_in_ranges() {
    for form in FORMS {
        for mut world in places().await {
            let name = form.as_str();
            let job = world.job(large(&[("download", json!({ "codec": name }))])).await;
            let device = device(&world).await;
            for version in 0..=1 {
                let [assignment] = world.assign([&device]).await;
                let file = assignment.form.unwrap();
                assert_eq!((assignment.model_version, file.form), (version, form));
                world.restart().await;
                let whole = get(&device, &model_path(job.head.id, version, name)).await;
                assert_eq!((whole.status, whole.body.len() as u64), (200, file.bytes));
                assert_eq!(Sha256Hash::of(&whole.body), file.sha256);
                assert_eq!(whole.header("etag"), format!("\"{}\"", file.sha256));
                let expected = expected_form(&world, &job, version, form).await;
                assert_eq!(bits(&whole.body, &job, form), bits(&expected, &job, form));

                let end = whole.body.len();
                for range in [5..(1 << 20) + 5, end - 3..end, 0..1] {
                    let range = range.start..range.end.min(end);
                    let header = format!("bytes={}-{}", range.start, range.end - 1);
                    let part = get_range(&device, &model_path(job.head.id, version, name), &header).await;
                    assert_eq!((part.status, part.body.len()), (206, range.len()));
                    assert!(part.body == whole.body[range]);
                }
                device.contribute(&assignment, &delta(version), 10).await;
                let fetched = &world.assignments(job.head.id, version + 1).await[0];
                assert!(fetched.traffic.bytes_down > file.bytes);
                let plain_bytes = world.model_file(job.head.id, version).await.len() as u64;
                let shrunk = fetched.traffic.raw_bytes_down as f64 / fetched.traffic.bytes_down as f64;
                let once = plain_bytes as f64 / file.bytes as f64;
                assert!((shrunk / once - 1.0).abs() < 1e-3, "{shrunk} instead of {once}");
                world.drive().await;
                assert_eq!(world.round(job.head.id, version + 1).await.phase, Phase::Committed);
            }
            world.check_books(job.head.id).await;
        }
    }
}

#[tokio::test]
async fn anybody_gets_any_form_that_is_not_stored_the_same_bytes_each_time() {
    for world in places().await {
        let job = world.job(large(&[])).await;
        let device = device(&world).await;
        for form in FORMS {
            let expected = expected_form(&world, &job, 0, form).await;
            let path = model_path(job.head.id, 0, form.as_str());
            let ask = |operator: bool| match operator {
                true => world.operator_request(Method::GET, &path),
                false => device.request(Method::GET, &path),
            };
            for operator in [false, true] {
                let whole = Answer::to(ask(operator)).await;
                assert_eq!((whole.status, whole.header("accept-ranges")), (200, "bytes"));
                assert_eq!(whole.header("content-length"), expected.len().to_string());
                assert!(whole.body == expected);
                let etag = whole.header("etag").to_owned();
                let cached = Answer::to(ask(operator).header("if-none-match", &etag)).await;
                assert_eq!((cached.status, cached.body.len()), (304, 0));
                for range in [0..1, 900_000..1_060_000, expected.len() - 7..expected.len()] {
                    let header = format!("bytes={}-{}", range.start, range.end - 1);
                    let part = Answer::to(ask(operator).header("range", header).header("if-range", &etag)).await;
                    assert_eq!(part.status, 206);
                    assert!(part.body == expected[range]);
                }
                let beyond = Answer::to(ask(operator).header("range", format!("bytes={}-", expected.len()))).await;
                beyond.refused(ProblemType::RangeNotSatisfiable);
            }
        }
        let plain = get(&device, &model_path(job.head.id, 0, "f32")).await;
        assert!(plain.body == world.model_file(job.head.id, 0).await);
    }
}

/// Goal: what is stored as one zstd frame is for clients; an operator gets a file that other tools read.
#[tokio::test]
async fn a_form_that_shrinks_is_sent_to_clients_as_a_frame_and_to_operators_as_a_file() {
    let world = World::start().await;
    let network = json!({ "parameters": [{ "name": "w", "shape": [700, 1000] }], });
    for form in FORMS {
        let file = json!({
            "name": form.as_str(), "model": network, "initial_model": "upload", "download": { "codec": form.as_str() },
        });
        let job = world.job(file).await;
        let values: Vec<f32> = (0..700_000).map(|index| (index / 10_000) as f32).collect();
        let upload = crate::support::bytes_of_tensors(&[("w", &[700, 1000], &values)], &[]);
        let request = world.operator_request(Method::PUT, &format!("/jobs/{}/models/0", job.head.id));
        Answer::to(request.body(upload)).await.value();
        let device = device(&world).await;
        let path = model_path(job.head.id, 0, form.as_str());
        let packed = get(&device, &path).await;
        assert_eq!(packed.header("content-type"), "application/zstd");
        assert!(packed.body.len() < 100_000, "{} bytes", packed.body.len());
        let plain = world.look(&path).await;
        assert_eq!(plain.header("content-type"), "application/octet-stream");
        assert!(plain.body == expected_form(&world, &job, 0, form).await);
        assert_eq!(bits(&packed.body, &job, form), bits(&plain.body, &job, form));
    }
}

#[tokio::test]
async fn a_form_that_there_is_not_is_refused() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = device(&world).await;
    for query in [
        "form=int4",
        "form=",
        "form=F16",
        "form=f16&form=int8",
        "form=..%2F..%2Fetc",
        "form=%00",
        "form=%FF",
        "form=f16%27%20or%201",
    ] {
        let path = format!("/jobs/{}/models/0?{query}", job.head.id);
        get(&device, &path).await.refused(ProblemType::Malformed);
        world.look(&path).await.refused(ProblemType::Malformed);
    }
    // A device may be newer than the coordinator; an operator has made a mistake.
    let unknown = format!("/jobs/{}/models/0?from=f16", job.head.id);
    assert_eq!(get(&device, &unknown).await.status, 200);
    world.look(&unknown).await.refused(ProblemType::Malformed);
    get(&device, &model_path(job.head.id, 7, "f16")).await.refused(ProblemType::NotFound);
    get(&device, &step_path(job.head.id, 0)).await.refused(ProblemType::NotFound);
    let refused =
        world.create_job(&crate::support::job_file(&changes(json!({ "codec": "int8", "delta": true })))).await;
    assert!(refused.refused(ProblemType::JobFileInvalid).detail.contains("[download] delta"));
}

#[tokio::test]
async fn a_client_that_cannot_read_the_form_is_not_drawn() {
    let world = World::start().await;
    let job = world.job(changes(json!({ "codec": "f16" }))).await;
    let (old, new) = (world.device().await, device(&world).await);
    assert!(world.gather(&[&old]).await[0].is_none());
    let [assignment] = world.assign([&new]).await;
    new.contribute(&assignment, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
}

/// Goal: readers that read nothing keep no place for long. Method: eight clients ask for a form that is larger than the
/// buffers on its way and read nothing of it.
#[tokio::test]
async fn readers_of_forms_that_read_nothing_make_room() {
    let world = World::start().await;
    let job = world.job(huge()).await;
    let path = model_path(job.head.id, 0, "f16");
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(begun(&device(&world).await, &path).await);
    }
    let honest = device(&world).await;
    let busy = get(&honest, &path).await.refused(ProblemType::Unavailable);
    assert!(busy.retry_after_ms.is_some());
    world.hand.advance_ms(5_000);
    assert!(get(&honest, &path).await.body.len() > 2 * HUGE);
    let ended = futures_util::future::join_all(stalled.into_iter().map(reqwest::Response::bytes)).await;
    assert_eq!(
        ended.iter().filter(|ended| ended.is_err()).count(),
        1,
        "a form that made room is not taken for a whole one"
    );
}

#[tokio::test]
async fn a_newer_request_of_a_client_ends_its_older_form_and_ranges_come_one_by_one() {
    let world = World::start().await;
    let job = world.job(huge()).await;
    let device = device(&world).await;
    let path = model_path(job.head.id, 0, "f16");
    let older = begun(&device, &path).await;
    for _ in 0..20 {
        let part = get_range(&device, &path, "bytes=0-9").await;
        assert_eq!((part.status, part.body.len()), (206, 10));
    }
    assert!(older.bytes().await.is_err());
    assert!(get(&device, &path).await.body.len() > 2 * HUGE);
}

/// Parameters of a model whose form is larger than the buffers of a connection.
const HUGE: usize = 8 << 20;

fn huge() -> Value {
    json!({ "model": { "parameters": [{ "name": "w", "shape": [HUGE] }] } })
}

/// A download of which only the head was read.
async fn begun(device: &Device, path: &str) -> reqwest::Response {
    let response = device.request(Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}
