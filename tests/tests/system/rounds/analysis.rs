//! Analyses: questions to the clients' tables on the rounds of a job without a model.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tributary_client::{Cell, Client, HttpTransport, Outcome, PrivacyFloor, Table, TrainError};
use tributary_engine::analysis::answers;
use tributary_engine::privacy::{NOISE_PLACES, Normal, block_key, spent_by};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::Mechanism;
use tributary_protocol::operator::{Job, JobAnswers, JobPrivacyState, check_ledger};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{JobState, Phase};

use crate::support::{Adds, JumpingClock, World, draw_everybody};

const KEY: [u8; 32] = [7; 32];

/// Rows of age and pet.
#[derive(Debug)]
struct Rows(Vec<(f64, &'static str)>);

impl Table for Rows {
    fn rows(&self, columns: &[&str]) -> Result<Vec<Vec<Cell>>, TrainError> {
        let cell = |name: &&str, (age, pet): &(f64, &str)| match *name {
            "age" => Ok(Cell::from(*age)),
            "pet" => Ok(Cell::from(*pet)),
            other => Err(TrainError::DoesNotFit(format!("the app has no column {other}"))),
        };
        self.0.iter().map(|row| columns.iter().map(|name| cell(name, row)).collect()).collect()
    }
}

fn queries() -> Value {
    json!([
        { "name": "age", "kind": "mean", "column": "age", "range": [0, 100] },
        { "name": "ages", "kind": "histogram", "column": "age", "edges": [0, 18, 65, 100] },
        { "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] },
    ])
}

fn analysis(queries: &Value, clients: usize, further: &Value) -> Value {
    let mut file = json!({
        "name": "census", "population": "devices", "seed": 7,
        "analysis": { "queries": queries },
        "round": { "updates_goal": clients, "updates_min": clients, "over_selection": 1.0 },
    });
    file.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    file
}

struct Fleet {
    world: World,
    clients: Vec<Client>,
    _folders: Vec<tempfile::TempDir>,
}

impl Fleet {
    /// Enrolled clients with these tables.
    async fn of(tables: Vec<Rows>) -> Self {
        let world = World::start().await;
        let (mut clients, mut folders) = (Vec::new(), Vec::new());
        for table in tables {
            let folder = tempfile::tempdir().unwrap();
            let client = Client::builder(world.server(), world.enrolment.clone())
                .state_dir(folder.path())
                .transport(Arc::new(HttpTransport::new(world.http.clone())))
                .clock(Arc::new(JumpingClock::default()))
                .wait(Duration::ZERO)
                .table(Arc::new(table))
                .build()
                .unwrap();
            client.enrol().await.unwrap();
            // Its number of rows is known from a check-in.
            client.run_once(&mut Adds::new(1.0), &tributary_client::AlwaysOn).await.unwrap();
            clients.push(client);
            folders.push(folder);
        }
        Self { world, clients, _folders: folders }
    }

    async fn round(&self) {
        draw_everybody(&self.world).await;
        for client in &self.clients {
            let outcome = client.run_once(&mut Adds::new(1.0), &tributary_client::AlwaysOn).await.unwrap();
            assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        }
        self.world.drive().await;
    }

    async fn answers(&self, job: JobId) -> JobAnswers {
        self.world.look(&format!("/jobs/{job}/answers")).await.ok()
    }
}

fn tables() -> Vec<Rows> {
    vec![
        Rows((0..6).map(|row| (10.0 * f64::from(row), "cat")).collect()),
        Rows((0..5).map(|row| (60.0 + f64::from(row), "dog")).collect()),
        Rows((0..7).map(|row| (70.0, if row == 0 { "cat" } else { "fish" })).collect()),
    ]
}

/// The numbers of an answer.
fn values(answers: &JobAnswers, query: usize) -> Vec<f64> {
    answers.answers[query].estimates.iter().map(|estimate| estimate.value.unwrap()).collect()
}

/// A survey of silos: without privacy, all rows count, and answers are exact.
#[tokio::test]
async fn a_survey_is_exact_over_all_rows() {
    let fleet = Fleet::of(tables()).await;
    let job: Job = fleet.world.create_job(&analysis(&queries(), 3, &json!({}))).await.ok();
    let before = fleet.answers(job.head.id).await;
    assert_eq!((before.rounds, before.rounds_needed, before.answers[0].estimates.len()), (0, 1, 0));
    fleet.round().await;
    let answers = fleet.answers(job.head.id).await;
    assert_eq!((answers.rounds, answers.clients), (1, 3));
    let ages: Vec<f64> = tables().iter().flat_map(|table| table.0.iter().map(|(age, _)| *age)).collect();
    let mean = ages.iter().sum::<f64>() / ages.len() as f64;
    let deviation = (ages.iter().map(|age| (age - mean).powi(2)).sum::<f64>() / ages.len() as f64).sqrt();
    let got = values(&answers, 0);
    assert!((got[0] - mean).abs() < 1e-4 && (got[1] - deviation).abs() < 1e-3, "{got:?} {mean} {deviation}");
    assert_eq!((values(&answers, 1), values(&answers, 2)), (vec![2.0, 9.0, 7.0], vec![7.0]));
    let now = fleet.world.job_now(job.head.id).await;
    assert_eq!(now.head.state, JobState::Completed);
    fleet.world.check_books(job.head.id).await;
}

/// Goal: a private answer is the sum of one row of each client with exactly the noise of the key. Method: the same
/// numbers from the formulas; the answers are those of the released vector.
#[tokio::test]
async fn a_private_analysis_releases_one_row_of_each_client_with_noise() {
    let fleet = Fleet::of(tables()).await;
    let privacy = json!({ "epsilon": 8.0, "delta": 1e-6, "test_key": Sha256Hash(KEY).to_string() });
    let counts = json!([
        { "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] },
        { "name": "pets", "kind": "histogram", "column": "pet", "categories": ["cat", "dog", "fish"] },
    ]);
    let job: Job = fleet.world.create_job(&analysis(&counts, 3, &json!({ "privacy": privacy }))).await.ok();
    let analysis = job.file.analysis.clone().unwrap();
    let noise = analysis.noise.unwrap();
    assert_eq!(job.file.privacy.as_ref().unwrap().noise_multiplier, Some(noise));
    fleet.round().await;
    let id = job.head.id;
    let released = fleet.world.weights(id, 1).await;
    let mut normal = Normal::new(block_key(&KEY, &7u64.to_le_bytes(), 1, 0));
    let drawn: Vec<f64> =
        (0..4).map(|_| noise * normal.rounded(NOISE_PLACES) as f64 / f64::from(1u32 << NOISE_PLACES)).collect();
    let counts: Vec<f64> =
        released.iter().zip(drawn).map(|(got, noise)| (f64::from(*got) - noise) / 0.5f64.sqrt()).collect();
    assert!(counts.iter().all(|count| (count - count.round()).abs() < 1e-3), "{counts:?}");
    assert!((counts[1..].iter().sum::<f64>() - 3.0).abs() < 1e-2, "one row of each client: {counts:?}");
    assert!((counts[0] - counts[1]).abs() < 1e-2, "{counts:?}");
    let told = fleet.answers(id).await;
    assert_eq!(told.answers, answers(&analysis, 1, &released, None));
    assert_eq!(told.answers[0].epsilon, None, "a test key promises nothing");
    let privacy: JobPrivacyState = fleet.world.look(&format!("/jobs/{id}/privacy")).await.ok();
    let ledger = privacy.privacy.unwrap().ledger;
    assert_eq!((ledger.len(), check_ledger(&ledger)), (1, Ok(())));
    fleet.world.check_books(id).await;
}

/// Goal: with noise of its own no client sends an exact answer, what it sends is charged whether or not the round comes
/// to an answer, and an app counts for itself. Method: a round of four clients of which one never reports; then one of
/// the other clients alone.
#[tokio::test]
async fn answers_with_noise_of_single_clients_are_charged_when_they_are_sent() {
    let tables = (0..7).map(|_| Rows(vec![(30.0, "cat")])).collect();
    let fleet = Fleet::of(tables).await;
    let privacy = json!({ "epsilon": 8.0, "delta": 1e-3, "mechanism": "local" });
    let cats = json!([{ "name": "cats", "kind": "histogram", "column": "pet", "categories": ["cat", "dog"] }]);
    let round =
        json!({ "updates_goal": 4, "updates_min": 4, "over_selection": 1.0, "deadline_ms": 10_000, "backoff_ms": 1 });
    let job: Job =
        fleet.world.create_job(&analysis(&cats, 4, &json!({ "privacy": privacy, "round": round }))).await.ok();
    let asked = job.file.analysis.clone().unwrap();
    assert_eq!((asked.noised_by, asked.own_noise()), (Some(4), job.file.privacy.as_ref().unwrap().noise_multiplier));
    let (world, id) = (&fleet.world, job.head.id);
    let privacy = async || {
        let state: JobPrivacyState = world.look(&format!("/jobs/{id}/privacy")).await.ok();
        state.privacy.unwrap()
    };
    let answer =
        async |client: &Client| client.run_once(&mut Adds::new(1.0), &tributary_client::AlwaysOn).await.unwrap();
    draw_everybody(world).await;
    let mut asked_first = 0;
    for client in &fleet.clients {
        if asked_first < 3 {
            asked_first += usize::from(matches!(answer(client).await, Outcome::Contributed { .. }));
        }
    }
    assert!(privacy().await.ledger.is_empty(), "charged when the round ends");
    world.pass_ms(10_000).await;
    world.drive().await;
    assert_eq!(world.round(id, 1).await.phase, Phase::Abandoned);
    let ledger = privacy().await.ledger;
    assert_eq!((ledger.len(), ledger[0].mechanism, ledger[0].participations), (1, Mechanism::Local, 1));
    assert_eq!(ledger[0].sensitivity.to_bits(), 0.5f64.to_bits(), "the sum of four has twice the noise");
    // Those three have given what they may, so the next round has the other four.
    world.pass_ms(100).await;
    draw_everybody(world).await;
    let mut contributed = 0;
    for client in &fleet.clients {
        contributed += usize::from(matches!(answer(client).await, Outcome::Contributed { .. }));
    }
    world.drive().await;
    assert_eq!((contributed, world.round(id, 2).await.phase), (4, Phase::Committed));
    let privacy = privacy().await;
    assert_eq!((privacy.ledger.len(), check_ledger(&privacy.ledger)), (2, Ok(())));
    let spent = privacy.spent.unwrap();
    assert_eq!(spent, spent_by(&privacy.ledger, 1e-3).unwrap());
    assert!(spent.models < spent.cohorts && spent.cohorts <= 8.0 + 1e-6, "{spent:?}");
    let told = fleet.answers(id).await;
    let released = world.weights(id, 1).await;
    assert_eq!(told.answers, answers(&asked, 1, &released, Some(1e-3)));
    let counts = values(&told, 0);
    let deviation = told.answers[0].noise;
    assert!((counts[0] - 4.0).abs() < 6.0 * deviation && counts[1].abs() < 6.0 * deviation, "{counts:?} {deviation}");
    assert!(counts.iter().all(|count| (count - count.round()).abs() > 1e-9), "nothing is exact: {counts:?}");
    world.check_books(id).await;
}

/// Goal: an app that allows less than a job's own noise promises refuses it, and is not asked again at once.
#[tokio::test]
async fn an_app_that_allows_less_than_an_answer_spends_is_not_asked_again() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut floor = PrivacyFloor::default();
    floor.epsilon_max = Some(0.5);
    let client = Client::builder(world.server(), world.enrolment.clone())
        .state_dir(folder.path())
        .transport(Arc::new(HttpTransport::new(world.http.clone())))
        .clock(Arc::new(JumpingClock::default()))
        .wait(Duration::ZERO)
        .table(Arc::new(Rows(vec![(30.0, "cat")])))
        .privacy_floor(floor)
        .build()
        .unwrap();
    client.enrol().await.unwrap();
    let cats = json!([{ "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] }]);
    let privacy = json!({ "epsilon": 8.0, "delta": 1e-3, "mechanism": "local" });
    let job: Job = world.create_job(&analysis(&cats, 1, &json!({ "privacy": privacy }))).await.ok();
    draw_everybody(&world).await;
    let refused = client.run_once(&mut Adds::new(1.0), &tributary_client::AlwaysOn).await.unwrap_err();
    assert!(refused.to_string().contains("one more update spends epsilon"), "{refused}");
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Abandoned);
    world.pass_ms(600_000).await;
    draw_everybody(&world).await;
    let next = world.round(job.head.id, 2).await;
    assert_eq!((next.phase, next.cohort), (Phase::Selecting, 0), "it would only refuse again");
}

/// Words take a round for each letter, and what one round asks for leaves the answers of others as they are.
#[tokio::test]
async fn frequent_words_are_found_in_as_many_rounds_as_they_have_letters() {
    let fleet =
        Fleet::of((0..8).map(|number| Rows(vec![(1.0, if number < 7 { "cat" } else { "dog" })])).collect()).await;
    let queries = json!([
        { "name": "pets", "kind": "heavy_hitters", "column": "pet", "length_max": 4, "alphabet": "acdgot" },
        { "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] },
    ]);
    let privacy = json!({ "epsilon": 99.0, "delta": 1e-3 });
    let job: Job = fleet.world.create_job(&analysis(&queries, 8, &json!({ "privacy": privacy }))).await.ok();
    let mut of_count = Vec::new();
    for number in 1..=4 {
        fleet.round().await;
        assert_eq!(fleet.world.round(job.head.id, number).await.phase, Phase::Committed);
        of_count.push(values(&fleet.answers(job.head.id).await, 1));
    }
    assert!(of_count.windows(2).all(|pair| pair[0] == pair[1]), "{of_count:?}");
    let answers = fleet.answers(job.head.id).await;
    assert_eq!((answers.rounds, answers.rounds_needed), (4, 4));
    let words: Vec<&str> = answers.answers[0].estimates.iter().map(|estimate| estimate.label.as_str()).collect();
    assert_eq!(words, ["cat"], "one dog is below the noise");
    assert_eq!(fleet.world.job_now(job.head.id).await.head.state, JobState::Completed);
}

#[tokio::test]
async fn a_client_without_a_table_is_not_asked_and_a_column_that_is_missing_is_named() {
    let fleet = Fleet::of(vec![Rows(vec![(1.0, "cat"); 5])]).await;
    let [plain] = fleet.world.devices().await;
    let queries = json!([{ "name": "q", "kind": "count", "column": "colour", "values": ["red"] }]);
    let job: Job = fleet.world.create_job(&analysis(&queries, 1, &json!({}))).await.ok();
    assert_eq!(fleet.world.gather(&[&plain]).await, [None]);
    draw_everybody(&fleet.world).await;
    let error = fleet.clients[0].run_once(&mut Adds::new(1.0), &tributary_client::AlwaysOn).await.unwrap_err();
    assert!(error.to_string().contains("no column colour"), "{error}");
    let told: Value = fleet.world.look(&format!("/jobs/{}/rounds/1/assignments", job.head.id)).await.ok();
    assert!(told.to_string().contains("no column colour"), "{told}");
}

#[tokio::test]
async fn what_no_analysis_can_ask_is_refused_by_name() {
    let world = World::start().await;
    for (queries, named) in [
        (json!([{ "name": "w", "kind": "heavy_hitters", "column": "a" }]), "[privacy]"),
        (
            json!([{ "name": "q", "kind": "quantiles", "column": "a", "range": [0, 1], "at": [0.5], "levels": 99 }]),
            "levels",
        ),
        (json!([]), "queries"),
    ] {
        let refused = world.create_job(&analysis(&queries, 1, &json!({}))).await;
        let problem = refused.refused(ProblemType::JobFileInvalid);
        assert!(problem.detail.contains("[analysis]") && problem.detail.contains(named), "{problem:?}");
    }
}
