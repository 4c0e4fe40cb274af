//! Sample jobs and rounds, and an output that keeps its text.

use std::sync::{Arc, Mutex};

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::{Job, JobHead, Round};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{JobState, Phase, Task};
use tributary_protocol::traffic::Traffic;

use crate::output::Output;

pub(crate) const JOB_FILE: &str = r#"
    name = "digits"
    population = "demo"
    [model]
    input = [64]
    layers = [{ kind = "linear", out_features = 10 }]
    [training]
    epochs = 1
    optimizer = { kind = "sgd", learning_rate = 0.1 }
"#;

/// A running job; `number` makes its id.
pub(crate) fn job(number: u8, population: &str, name: &str) -> Job {
    let mut file = JobFile::parse(JOB_FILE).unwrap();
    file.population = population.parse().unwrap();
    file.name = name.parse().unwrap();
    let head = JobHead {
        id: JobId::from_random([number; 16]),
        state: JobState::Running,
        model_version: Some(0),
        parameters: 650,
        rounds_opened: 0,
        rounds_committed: 0,
        created_at_ms: 0,
        ended_at_ms: None,
        rounds_not_before_ms: None,
        tags: Vec::new(),
        notes: String::new(),
        archived_at_ms: None,
    };
    Job { head, file, plan_hash: Sha256Hash::of(b"plan"), health: vec![], progress: None }
}

/// The job in another state.
pub(crate) fn in_state(job: &Job, state: JobState) -> Job {
    Job { head: JobHead { state, ..job.head.clone() }, ..job.clone() }
}

/// A round of 13 clients without reports.
pub(crate) fn round(task: Task, number: u32, phase: Phase) -> Round {
    // Evaluations end a moment after their round.
    let ended_at_ms = i64::from(number) * 10 + i64::from(task == Task::Evaluate);
    Round {
        adapted: None,
        adapted_goal: None,
        number,
        task,
        phase,
        reason: None,
        base_version: number - 1,
        seed: Seed(7),
        goal: 10,
        minimum: 5,
        cohort: 13,
        buffer: None,
        reported: 0,
        rejected: 0,
        failed: 0,
        expired: 0,
        spare: 0,
        saved_ms: 0,
        opened_at_ms: 0,
        selected_at_ms: None,
        deadline_at_ms: None,
        closed_at_ms: None,
        assigned: 0,
        clients_ms: 0,
        ended_at_ms: (!phase.is_open()).then_some(ended_at_ms),
        weight: 0,
        folded: None,
        training_loss: None,
        loss: None,
        accuracy: None,
        measured_on: None,
        traffic: Traffic::default(),
        step_norm: None,
        diversity: None,
        norm_max: None,
        clip_norm: None,
        mu: None,
        metrics: Vec::new(),
        evaluation_metrics: Vec::new(),
        classes: None,
    }
}

/// An output that is no terminal, and the text that was printed to it.
pub(crate) fn output(json: bool) -> (Output, Arc<Mutex<String>>) {
    Output::kept(json)
}
