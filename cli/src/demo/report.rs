//! The output of the demo: a line per round, and a summary at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;
use tributary_protocol::job_file::EvaluationPolicy;
use tributary_protocol::operator::{Job, MeasuredOn, Round};
use tributary_protocol::state::{Phase, Task};

use super::fleet::{Fault, Member};
use crate::error::CliError;
use crate::format::{bytes, count, measured, or_dash, percent};
use crate::output::{Output, TaggedLine};

/// The first line. Programs rely on the names of its members.
#[derive(Debug, Serialize)]
pub(super) struct Start {
    /// Of the dashboard and the APIs.
    pub(super) url: String,
    /// Opens the dashboard signed in: the token is in the fragment, which browsers do not send.
    pub(super) dashboard_url: String,
    /// Of the database and the model file.
    pub(super) directory: PathBuf,
    /// Clients that train; the evaluator is one more.
    pub(super) clients: u32,
    pub(super) cohort: u32,
    pub(super) parameters: usize,
    /// Committed rounds that end the demo.
    pub(super) rounds: Option<u32>,
    /// The only one of the demo's coordinator.
    pub(super) operator_token: Secret,
}

/// The last line. Programs rely on the names of its members.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// Of the newest evaluated model on the held-out examples.
    accuracy: Option<f64>,
    /// What that accuracy was measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_on: Option<MeasuredOn>,
    /// Mean over the held-out examples.
    loss: Option<f64>,
    /// Committed rounds.
    rounds: u32,
    /// The first round whose model reached the target accuracy.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds_to_target: Option<u32>,
    /// Bytes of updates.
    bytes_up: u64,
    /// Bytes of downloaded models, including the evaluator's.
    bytes_down: u64,
    /// Wall time.
    seconds: f64,
    /// Assignments of living clients that had not reported when their rounds closed.
    stragglers: u32,
    /// Assignments without a result: failed, rejected, or of the client that died.
    failed: u32,
    /// Of the newest model.
    model_path: PathBuf,
    model_sha256: Sha256Hash,
}

/// Collects the rounds for the summary, and prints.
pub(super) struct Report<'a> {
    output: &'a Output,
    /// Names and faults by client number, from 1.
    members: Vec<(String, Fault)>,
    /// Training rounds that wait for their evaluation, by number.
    waiting: BTreeMap<u32, Round>,
    evaluated: BTreeMap<u32, Round>,
    printed: Vec<Round>,
    /// Rounds in which a client was a straggler, by its number.
    expired: BTreeMap<u64, Vec<u32>>,
    /// Up and down.
    bytes_of_evaluations: (u64, u64),
}

impl<'a> Report<'a> {
    pub(super) fn new(output: &'a Output, members: &[Member]) -> Self {
        Self {
            output,
            members: members.iter().map(|member| (member.name.clone(), member.fault)).collect(),
            waiting: BTreeMap::new(),
            evaluated: BTreeMap::new(),
            printed: Vec::new(),
            expired: BTreeMap::new(),
            bytes_of_evaluations: (0, 0),
        }
    }

    pub(super) fn started(&self, start: &Start) -> Result<(), CliError> {
        let event = TaggedLine { event: "start", object: start };
        self.output.object(&event, || {
            let cohort = format!("{} clients, {} selected each round", start.clients, start.cohort);
            let model = format!("a model of {} parameters", count(start.parameters as u64));
            let directory = start.directory.display();
            format!("dashboard  {}\ndatabase   {directory}\n{cohort}; {model}\n", start.dashboard_url)
        })
    }

    /// Adds an ended round. Returns the training rounds that can be printed now, with the evaluations of their models.
    pub(super) fn ended_round(&mut self, round: Round, evaluation: Option<&EvaluationPolicy>) -> Vec<Round> {
        match round.task {
            Task::Evaluate => {
                self.bytes_of_evaluations.0 += round.traffic.bytes_up;
                self.bytes_of_evaluations.1 += round.traffic.bytes_down;
                self.evaluated.insert(round.number, round);
            }
            // The demo's jobs have no inputs to fix.
            Task::Describe => {}
            Task::Train => {
                self.waiting.insert(round.number, round);
            }
        }
        let mut ready = Vec::new();
        while let Some(first) = self.waiting.first_entry() {
            let round = first.get();
            let is_evaluated =
                round.phase == Phase::Committed && evaluation.is_some_and(|policy| policy.every_rounds == 1);
            // Where evaluating is slower than training, versions are skipped: then a later one has an evaluation.
            if is_evaluated && self.evaluated.range(round.number..).next().is_none() {
                break;
            }
            let mut round = first.remove();
            if let Some(evaluation) = self.evaluated.get(&round.number) {
                (round.loss, round.accuracy) = (evaluation.loss, evaluation.accuracy);
                round.measured_on = evaluation.measured_on;
            }
            ready.push(round);
        }
        ready
    }

    /// Prints a round; `stragglers` are client numbers.
    pub(super) fn round(&mut self, round: &Round, stragglers: Vec<u64>) -> Result<(), CliError> {
        for client in &stragglers {
            self.expired.entry(*client).or_default().push(round.number);
        }
        self.printed.push(round.clone());
        let names: Vec<&str> = stragglers.iter().filter_map(|number| self.name(*number)).collect();
        self.output.object(
            &TaggedLine { event: "round", object: &RoundLine { round, seconds: seconds(round), stragglers: &names } },
            || line(round),
        )
    }

    pub(super) fn summary(&self, job: &Job, model_path: PathBuf, model_sha256: Sha256Hash, took: Duration) -> Summary {
        let evaluated = self.printed.iter().rev().find(|round| round.accuracy.is_some() || round.loss.is_some());
        let target = job.file.stop.accuracy;
        // As the job itself ends: by what the measurement makes sure of.
        let sure = |round: &Round| round.measured_on.map(|on| on.low).or(round.accuracy);
        let reached = |round: &&Round| matches!((sure(round), target), (Some(got), Some(wanted)) if got >= wanted);
        let of_dead: u32 = self.assignments_of(Fault::Dies);
        let expired: u32 = self.printed.iter().map(|round| round.expired).sum();
        Summary {
            accuracy: evaluated.and_then(|round| round.accuracy),
            measured_on: evaluated.and_then(|round| round.measured_on),
            loss: evaluated.and_then(|round| round.loss),
            rounds: job.head.rounds_committed,
            rounds_to_target: self.printed.iter().find(reached).map(|round| round.number),
            bytes_up: self.printed.iter().map(|round| round.traffic.bytes_up).sum::<u64>()
                + self.bytes_of_evaluations.0,
            bytes_down: self.printed.iter().map(|round| round.traffic.bytes_down).sum::<u64>()
                + self.bytes_of_evaluations.1,
            seconds: took.as_secs_f64(),
            stragglers: expired - of_dead,
            failed: self.printed.iter().map(|round| round.failed + round.rejected).sum::<u32>() + of_dead,
            model_path,
            model_sha256,
        }
    }

    pub(super) fn ended(&self, summary: &Summary) -> Result<(), CliError> {
        self.output.object(&TaggedLine { event: "summary", object: summary }, || self.summary_text(summary))
    }

    fn summary_text(&self, summary: &Summary) -> String {
        let mut lines = vec![String::new()];
        lines.extend(self.fault_lines());
        let accuracy = or_dash(summary.accuracy, |accuracy| measured(accuracy, summary.measured_on));
        let loss = or_dash(summary.loss, |loss| format!("{loss:.4}"));
        lines.push(format!("accuracy {accuracy}, loss {loss} on the held-out examples"));
        if let Some(round) = summary.rounds_to_target {
            lines.push(format!("the target was reached in round {round}"));
        }
        let (up, down) = (bytes(summary.bytes_up), bytes(summary.bytes_down));
        lines.push(format!("{} rounds in {:.1} s, {up} up, {down} down", summary.rounds, summary.seconds));
        lines.push(format!("model     {}", summary.model_path.display()));
        lines.push(format!("SHA-256   {}", summary.model_sha256));
        lines.join("\n")
    }

    /// A line for each of the two faulty clients.
    fn fault_lines(&self) -> Vec<String> {
        let described = (1u64..).zip(&self.members).filter_map(|(number, (name, fault))| {
            let what = match fault {
                Fault::None => return None,
                Fault::Slow => "was too slow: dropped as a straggler",
                Fault::Dies => "died while it trained: its round closed without it",
            };
            Some(match self.expired.get(&number) {
                Some(rounds) => format!("{name} {what} ({})", rounds_text(rounds)),
                None => format!("{name} would have failed, but was never selected"),
            })
        });
        described.collect()
    }

    fn name(&self, number: u64) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.members.get(index).map(|(name, _)| name.as_str())
    }

    fn assignments_of(&self, wanted: Fault) -> u32 {
        let numbers = (1u64..).zip(&self.members).filter(|(_, (_, fault))| *fault == wanted).map(|(number, _)| number);
        numbers.filter_map(|number| self.expired.get(&number)).map(|rounds| rounds.len() as u32).sum()
    }
}

/// A round with the names of its stragglers.
#[derive(Serialize)]
struct RoundLine<'a> {
    #[serde(flatten)]
    round: &'a Round,
    seconds: Option<f64>,
    stragglers: &'a [&'a str],
}

fn seconds(round: &Round) -> Option<f64> {
    round.ended_at_ms.map(|ended_at_ms| (ended_at_ms - round.opened_at_ms) as f64 / 1000.0)
}

fn rounds_text(rounds: &[u32]) -> String {
    let numbers: Vec<String> = rounds.iter().map(ToString::to_string).collect();
    format!("round{} {}", if rounds.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

fn line(round: &Round) -> String {
    let end = match round.reason {
        Some(reason) => format!("abandoned: {reason}"),
        None => format!(
            "loss {:>6}  accuracy {:>6}",
            or_dash(round.loss, |loss| format!("{loss:.4}")),
            or_dash(round.accuracy, percent)
        ),
    };
    format!(
        "round {:>3}  cohort {:>3}  updates {:>3}  stragglers {:>2}  {end}  up {:>8}  down {:>8}  {:>5} s",
        round.number,
        round.cohort,
        round.reported,
        round.expired,
        bytes(round.traffic.bytes_up),
        bytes(round.traffic.bytes_down),
        or_dash(seconds(round), |seconds| format!("{seconds:.2}")),
    )
}
