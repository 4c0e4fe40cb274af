//! What leaves the coordinator tells no figure of a single client of a private job.
//!
//! Goal: no answer, export, metric, notification or line of the log has such a figure, and no answer has a member that
//! nobody decided about. Method: clients report figures that come from nowhere else. Everything that the document of
//! the API lets an operator read is read, at several moments, and searched for these figures, for what follows from
//! them, and for members by their names. The same search finds the figures of a job without `[privacy]`.

mod document;
mod figures;
mod members;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::device::{Assignment, ReportAccepted};
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{JobState, Phase};
use tributary_server::notify::Sender;

use super::private::{often, private};
use super::private_buffered::private as buffered_private;
use crate::support::{Answer, Device, Log, WEIGHTS, Webhook, World, delta_file, job_file};
use document::{Document, Members, schema};
use figures::{
    EXAMPLES, EXAMPLES_FAILED, EXAMPLES_REFUSED, EXAMPLES_TOLD, LOSSES, NORMS, VALUE_REFUSED, figures_in, reported,
};
use members::{Member, NEVER_TOLD, TOLD, members};

/// All that was told.
#[derive(Default)]
struct Found {
    /// Of the answers about jobs.
    members: Members,
    /// Path or kind, and text.
    texts: Vec<(String, String)>,
}

impl Found {
    /// Reads everything that the document lets an operator read of a job with so many rounds.
    async fn read(&mut self, world: &World, document: &Document, job: &Job, (client, rounds): (&Device, u32)) {
        for (path, call) in document.reads() {
            let filled: BTreeSet<String> =
                (1..=rounds).map(|round| filled(path, job, client).replace("{number}", &round.to_string())).collect();
            for path_told in filled.iter().flat_map(|path| with_parameters(path, call, job)) {
                let answer = Answer::to(world.request(Method::GET, &path_told).bearer_auth(&world.operator)).await;
                assert!(answer.status == 200, "{path_told}: {}", answer.status);
                // A model is what a job releases.
                if answer.header("content-type") == "application/octet-stream" {
                    continue;
                }
                let text = String::from_utf8(answer.body.to_vec()).unwrap();
                if answer.header("content-type") == "application/json" && is_about_jobs(path) {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    document.walk("", schema(call), &value, &mut self.members);
                }
                self.texts.push((path_told, text));
            }
        }
        let metrics = Answer::to(world.request(Method::GET, "/metrics")).await;
        self.texts.push(("/metrics".to_owned(), String::from_utf8(metrics.body.to_vec()).unwrap()));
    }

    /// The figures of clients that were told, and where.
    fn figures(&self) -> Vec<(f64, &str)> {
        let figures = |(path, text): &'_ (String, String)| {
            // What clients say of themselves is told of clients, and of no job.
            let is_of_clients = path.starts_with("/operator/v1/clients");
            figures_in(text).into_iter().filter(move |figure| !(is_of_clients && *figure == EXAMPLES_TOLD))
        };
        self.texts.iter().flat_map(|told| figures(told).map(|figure| (figure, told.0.as_str()))).collect()
    }

    /// The members of a list that are told with a value.
    fn told(&self, list: &[(&str, &str)]) -> Vec<(&Member, &Value)> {
        let list = members(list);
        let is_value = |value: &&Value| ![json!(null), json!(0), json!(0.0), json!([]), json!({})].contains(value);
        let told = self.members.values.iter().filter(|(member, _)| list.contains(*member));
        told.filter_map(|(member, values)| Some((member, values.iter().find(is_value)?))).collect()
    }
}

fn is_about_jobs(path: &str) -> bool {
    let parts = ["/jobs", "/events", "/overview", "/clients/{client}/assignments"];
    parts.iter().any(|part| path.strip_prefix("/operator/v1").unwrap().starts_with(part))
}

fn filled(path: &str, job: &Job, client: &Device) -> String {
    path.replace("{job}", &job.head.id.to_string())
        .replace("{client}", &client.id.to_string())
        .replace("{account}", "ada")
        .replace("{population}", "devices")
        .replace("{version}", "0")
}

/// A path with the parameters that its call needs, or that make it tell more; in each format.
fn with_parameters(path: &str, call: &Value, job: &Job) -> Vec<String> {
    let mut parameters = Vec::new();
    for parameter in call["parameters"].as_array().into_iter().flatten().filter(|item| item["in"] == "query") {
        let name = parameter["name"].as_str().unwrap();
        let value = match name {
            "population" => "devices",
            "job" => &job.head.id.to_string(),
            "attribute" => "x",
            "actor" => "oidc:x",
            // Pages of a thousand hold all that there is.
            "limit" => "1000",
            _ => continue,
        };
        parameters.push(format!("{name}={value}"));
    }
    let formats: &[&str] = if path.ends_with("/metrics") { &["format=json&", "format=csv&"] } else { &[""] };
    formats.iter().map(|format| format!("{path}?{format}{}", parameters.join("&"))).collect()
}

/// Plays a job of three clients to its end: a round to which all contribute, one to which none does, and one more.
async fn played(file: &Value) -> Found {
    let log = Log::start();
    let (webhook, settings) = Webhook::start().await;
    let mut world = World::start().await;
    world.set_notify(settings.clone());
    world.restart().await;
    let account = json!({ "name": "ada", "role": "viewer", "password": "correct horse battery" });
    world.operate(Method::POST, "/accounts", &account).await.value();
    let (document, mut found) = (Document::of(&world).await, Found::default());
    let job: Job = world.create_job(file).await.ok();
    let devices: [Device; 3] = world.devices().await.map(|device| device.holding(EXAMPLES_TOLD as u64).with("x", "y"));
    let [a, b, c] = &devices;

    for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
        contribute(device, &assignment, place).await;
        found.read(&world, &document, &job, (a, 1)).await;
    }
    world.drive().await;
    found.read(&world, &document, &job, (a, 1)).await;

    let [first, second, third] = world.assign([a, b, c]).await;
    let failure = json!({ "reason": "does_not_fit", "detail": format!("it has {EXAMPLES_FAILED} examples") });
    let _: ReportAccepted = a.fail_with(first.id, &failure).await.ok();
    let (heavy, small) = (reported(EXAMPLES_REFUSED, 1), delta_file(&second, &[0.25; WEIGHTS]));
    b.put_update(second.id, &heavy, small).await.refused(ProblemType::UpdateRejected);
    let (light, large) = (reported(EXAMPLES[2], 2), delta_file(&third, &[VALUE_REFUSED as f32; WEIGHTS]));
    c.put_update(third.id, &light, large).await.refused(ProblemType::UpdateRejected);
    let last = match file["round"]["mode"].is_null() {
        // A buffer waits for others.
        false => 2,
        true => {
            world.pass_ms(10_000).await;
            assert_eq!(world.round(job.head.id, 2).await.phase, Phase::Abandoned);
            // The longest pause after an abandoned round.
            world.pass_ms(4_000).await;
            3
        }
    };

    for (place, (device, assignment)) in devices.iter().zip(world.assign([a, b, c]).await).enumerate() {
        contribute(device, &assignment, place).await;
    }
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    found.read(&world, &document, &job, (a, last)).await;
    Sender::new(settings).unwrap().send_due(world.app()).await.unwrap();

    let bodies = webhook.taken.lock().unwrap().iter().map(|(body, _)| body.to_string()).collect::<Vec<_>>();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    found.texts.extend(bodies.into_iter().map(|body| ("the webhook".to_owned(), body)));
    world.stop().await;
    let lines = log.text();
    assert!(lines.contains("answered") && lines.contains("an operator acts"), "{lines}");
    found.texts.push(("the log".to_owned(), lines));
    found
}

/// Sends an update with the figures of this place.
async fn contribute(device: &Device, assignment: &Assignment, place: usize) {
    let delta = [(NORMS[place] / (WEIGHTS as f64).sqrt()) as f32; WEIGHTS];
    let figures = reported(EXAMPLES[place], place);
    assert_eq!(device.put_update(assignment.id, &figures, delta_file(assignment, &delta)).await.status, 200);
}

/// The job with room for these figures.
fn with_figures(mut file: Value) -> Value {
    file["update"]["weight_max"] = json!(100_000);
    file
}

#[tokio::test]
async fn no_answer_about_a_private_job_tells_a_figure_of_a_single_client() {
    let gaussian = often(&json!({}));
    let mode = json!({ "buffer": 3, "concurrency": 3 });
    for (privacy, file) in [
        ("gaussian", private(2, &gaussian)),
        ("blt", private(2, &json!({ "separation": 1 }))),
        ("buffered", buffered_private(&mode, 2, &gaussian)),
    ] {
        let found = played(&with_figures(file)).await;
        let figures = found.figures();
        assert!(figures.is_empty(), "{privacy}: {figures:#?}");
        let told = found.told(NEVER_TOLD);
        assert!(told.is_empty(), "{privacy}: {told:#?}");
        assert!(found.members.undeclared.is_empty(), "not in the document: {:#?}", found.members.undeclared);
        assert!(found.members.values.len() > 100, "{:?}", found.members.values.keys());
    }
}

/// The test above would find what it looks for.
#[tokio::test]
async fn the_answers_about_other_jobs_tell_these_figures() {
    let sections = json!({ "round": { "updates_goal": 3 }, "stop": { "rounds": 2 } });
    let found = played(&with_figures(job_file(&sections))).await;
    let figures = found.figures();
    let is_told =
        |wanted: f64, part: &str| figures.iter().any(|(figure, path)| *figure == wanted && path.contains(part));
    for figure in LOSSES.into_iter().chain(EXAMPLES).chain(NORMS) {
        assert!(is_told(figure, "/rounds/1/assignments"), "{figure}: {figures:?}");
    }
    for figure in [EXAMPLES_FAILED, EXAMPLES_REFUSED, VALUE_REFUSED] {
        assert!(is_told(figure, "/rounds/2/assignments"), "{figure}: {figures:?}");
    }
    for figure in [EXAMPLES_REFUSED, VALUE_REFUSED] {
        assert!(is_told(figure, "/audit"), "{figure}: {figures:?}");
    }
    let told: BTreeSet<_> = found.told(NEVER_TOLD).into_iter().map(|((_, name), _)| name.as_str()).collect();
    let wanted = ["cosine", "diversity", "loss", "metrics", "seed", "training_loss", "update_norm"];
    assert!(wanted.iter().all(|name| told.contains(name)), "{told:?}");
}

/// A new member of an answer about jobs is added to one of the lists: somebody decides if a private job may have it.
#[tokio::test]
async fn each_member_of_the_answers_about_jobs_may_be_told_of_a_private_job_or_never() {
    let world = World::start().await;
    let document = Document::of(&world).await;
    let mut declared = BTreeSet::new();
    for (_, call) in document.reads().into_iter().filter(|(path, _)| is_about_jobs(path)) {
        document.declared("", schema(call), &mut declared);
    }
    let (told, never) = (members(TOLD), members(NEVER_TOLD));
    assert!(told.is_disjoint(&never), "{:?}", told.intersection(&never));
    let listed: BTreeSet<Member> = told.union(&never).cloned().collect();
    let unknown: Vec<_> = declared.difference(&listed).collect();
    assert!(unknown.is_empty(), "add these to a list: {unknown:#?}");
    let gone: Vec<_> = listed.difference(&declared).collect();
    assert!(gone.is_empty(), "take these from the lists: {gone:#?}");
}
