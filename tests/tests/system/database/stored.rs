//! Something to ask about: a population with clients and a job, under ids that tests can name.

use serde_json::json;
use tributary_engine::round::{Opening, TaskPolicy, Tempo, Term};
use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::Attributes;
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, JobId, Name, TokenId};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Token;
use tributary_protocol::scalars::Scalars;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Role, Task, TokenKind};
use tributary_protocol::traffic::Traffic;
use tributary_server::db::{
    ClientRow, Db, Json, NewAssignment, NewJob, NewRound, ObjectRow, Report, RoundKey, Times, Tx,
};

use crate::support::job_file;

/// What rounds go by.
pub(super) const POLICY: TaskPolicy = TaskPolicy {
    goal: 2,
    minimum: 1,
    cohort_size: 3,
    available_min: 3,
    selection_timeout_ms: 100,
    deadline_ms: 1_000,
    tempo: Tempo::Cohort,
    adapted: None,
    adapted_goal: None,
    proximal: None,
    clip_norm: None,
    is_private: false,
    part_of: None,
    branch: None,
};

/// What rounds open with.
pub(super) const OPENING: Opening = Opening { policy: POLICY, seed: Seed(u64::MAX >> 11), norm_max: None };

pub(super) async fn knows_object(tx: &mut Tx, object: &str) -> bool {
    tx.known_objects(&[object.to_owned()]).await.unwrap().contains(object)
}

/// An object of 9 bytes under this key.
pub(super) fn object(key: &str) -> ObjectRow {
    ObjectRow::of(key.to_owned(), &[9; 9])
}

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(super) fn job_id(number: u8) -> JobId {
    JobId::from_random([number; 16])
}

pub(super) fn client_id(number: u8) -> ClientId {
    ClientId::from_random([number; 16])
}

pub(super) fn assignment_id(number: u8) -> AssignmentId {
    AssignmentId::from_random([number; 16])
}

/// The hash under which the secret of client or token `number` is stored.
pub(super) fn secret(number: u8) -> Sha256Hash {
    Sha256Hash::of(&[number])
}

pub(super) fn file(population: &str, job: &str) -> JobFile {
    serde_json::from_value(job_file(&json!({ "population": population, "name": job }))).unwrap()
}

pub(super) fn token(number: u8, population: Option<&str>, expires_at_ms: Option<i64>) -> Token {
    let kind = if population.is_some() { TokenKind::Enrolment } else { TokenKind::Operator };
    Token {
        population: population.map(name),
        role: population.is_none().then_some(Role::Admin),
        expires_at_ms,
        ..Token::unlimited(TokenId::from_random([number; 16]), kind, format!("token {number}"), 5)
    }
}

pub(super) async fn store_job(tx: &mut Tx, number: u8, population: &str, state: JobState) {
    let file = file(population, &format!("job-{number}"));
    let job = NewJob { id: job_id(number), file: &file, parameters: 6, state };
    tx.insert_job(&job, 10).await.unwrap();
}

pub(super) async fn store_client(tx: &mut Tx, number: u8, population: &str, by: &Token) {
    let client = ClientRow {
        id: client_id(number),
        population: name(population),
        number: tx.next_client_number(&name(population)).await.unwrap(),
        attributes: Json(Attributes::default()),
        granted: Json(Attributes::default()),
        standing: tributary_protocol::state::Standing::Active,
        sdk: None,
        sdk_version: None,
        abilities: Json(Abilities::FIRST),
        examples: 0,
        sets: Json(Vec::new()),
        created_at_ms: 20,
        last_seen_at_ms: 20,
    };
    tx.insert_client(&client, by.id, &secret(number), None).await.unwrap();
}

/// A population `people` with clients 1, 2, 3 and a running job 1.
pub(super) async fn population(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_population(&name("people"), 1).await.unwrap();
    let token = token(100, Some("people"), None);
    tx.insert_token(&token, &secret(100)).await.unwrap();
    for number in 1..=3 {
        store_client(&mut tx, number, "people", &token).await;
    }
    store_job(&mut tx, 1, "people", JobState::Running).await;
    tx.commit().await.unwrap();
}

pub(super) fn training(number: u32) -> RoundKey {
    RoundKey { job: job_id(1), task: Task::Train, number }
}

pub(super) fn evaluation(number: u32) -> RoundKey {
    RoundKey { job: job_id(1), task: Task::Evaluate, number }
}

/// Opens a round and draws clients 1 to `cohort`; the assignment of client `n` is `10 * round + n` (evaluations: 100
/// more).
pub(super) async fn start_round(tx: &mut Tx, key: RoundKey, cohort: u8) {
    let round = NewRound { key, base_version: 0, opening: OPENING };
    tx.insert_round(&round, 30).await.unwrap();
    assert!(tx.start_round(key, cohort.into(), 40, Some(1_040)).await.unwrap());
    let assignment = |client| NewAssignment {
        id: assigned(key, client),
        round: key,
        client: client_id(client),
        base_version: 0,
        examples: 0,
        places: 0,
        share: None,
        term: Term::Round,
    };
    tx.insert_assignments(&(1..=cohort).map(assignment).collect::<Vec<_>>(), 40).await.unwrap();
}

pub(super) fn assigned(key: RoundKey, client: u8) -> AssignmentId {
    let base = if key.task == Task::Evaluate { 100 } else { 0 };
    assignment_id(base + 10 * u8::try_from(key.number).unwrap() + client)
}

pub(super) fn report(examples: u32, loss: f64, accuracy: Option<f64>) -> Report {
    Report {
        figures: Figures {
            contribution: updates(1, examples),
            loss: Some(loss),
            norm: Some(0.5),
            steps: 3,
            metrics: Scalars::new(),
        },
        accuracy,
        work_ms: 12,
        classes: None,
        description: None,
        sha256: Sha256Hash::of(b"report"),
        traffic: traffic(7, 9),
        times: Times::default(),
        below: None,
    }
}

/// This many updates of these examples together.
pub(super) fn updates(updates: u32, examples: u32) -> Contribution {
    Contribution { weight: Weight::examples(examples), updates }
}

/// Bytes of plain files.
pub(super) fn traffic(bytes_up: u64, bytes_down: u64) -> Traffic {
    Traffic { bytes_up, bytes_down, raw_bytes_up: bytes_up, raw_bytes_down: bytes_down }
}
