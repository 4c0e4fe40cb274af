//! `tributary job compare`: the results of jobs side by side, and the settings that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tributary_protocol::operator::{BestVersion, Job, MeasuredOn, Round};
use tributary_protocol::state::Task;

use super::args::{JobArgs, JobCompareArgs};
use super::find::find_job;
use super::progress::rounds_done;
use crate::api::Api;
use crate::error::CliError;
use crate::format::{bytes, duration_ms, measured, or_dash, spread};
use crate::output::{self, Output};
use crate::round::list;

/// Settings that always differ or say nothing about results.
const LEFT_OUT: [&str; 1] = ["name"];

/// A job with its rounds and evaluations.
struct Entry {
    job: Job,
    rounds: Vec<Round>,
    evaluations: Vec<Round>,
    settings: BTreeMap<String, String>,
}

pub(super) async fn run(args: &JobCompareArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let mut entries = Vec::new();
    for wanted in &args.jobs {
        let wanted = JobArgs { job: wanted.clone(), population: args.population.clone() };
        let job = find_job(api, &wanted).await?;
        let rounds = list::newest(api, job.head.id, Task::Train, None).await?;
        let evaluations = list::newest(api, job.head.id, Task::Evaluate, None).await?;
        let settings = settings(&serde_json::to_value(&job.file).unwrap_or_default());
        entries.push(Entry { job, rounds, evaluations, settings });
    }
    let different = different(&entries);
    let object = json!({
        "jobs": entries.iter().map(Entry::json).collect::<Vec<_>>(),
        "settings": different,
    });
    output.object(&object, || text(&entries, &different, output.width))
}

impl Entry {
    fn accuracy(&self) -> Option<(f64, Option<MeasuredOn>)> {
        self.evaluations.iter().rev().find_map(|round| Some((round.accuracy?, round.measured_on)))
    }

    /// The coordinator's choice, so that every page and command names the same round.
    fn best(&self) -> Option<BestVersion> {
        self.job.progress.as_ref()?.best.filter(|best| best.accuracy.is_some())
    }

    fn loss(&self) -> Option<f64> {
        let evaluated = self.evaluations.iter().rev().find_map(|round| round.loss);
        evaluated.or_else(|| self.rounds.iter().rev().find_map(|round| round.training_loss))
    }

    fn bytes_up(&self) -> u64 {
        self.rounds.iter().chain(&self.evaluations).map(|round| round.traffic.bytes_up).sum()
    }

    /// From the job's creation to the end of its last round.
    fn took_ms(&self) -> Option<u64> {
        let last = self.rounds.iter().filter_map(|round| round.ended_at_ms).max()?;
        Some(last.abs_diff(self.job.head.created_at_ms))
    }

    fn json(&self) -> Value {
        json!({
            "job": self.job.head.id, "name": self.job.file.name, "state": self.job.head.state,
            "rounds_committed": self.job.head.rounds_committed, "accuracy": self.accuracy().map(|(accuracy, _)| accuracy),
            "measured_on": self.accuracy().and_then(|(_, on)| on),
            "best_accuracy": self.best().and_then(|best| best.accuracy), "best_round": self.best().map(|best| best.round),
            "best_measured_on": self.best().and_then(|best| best.measured_on),
            "loss": self.loss(), "bytes_up": self.bytes_up(), "took_ms": self.took_ms(),
        })
    }
}

fn text(entries: &[Entry], different: &BTreeMap<String, Vec<String>>, width: Option<u16>) -> String {
    let names = entries.iter().map(|entry| entry.job.file.name.to_string());
    let header: Vec<String> = std::iter::once(String::new()).chain(names).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let figure = |name: &str, of: &dyn Fn(&Entry) -> String| {
        std::iter::once(name.to_owned()).chain(entries.iter().map(of)).collect::<Vec<_>>()
    };
    let figures = [
        figure("state", &|entry| entry.job.head.state.to_string()),
        figure("rounds", &|entry| rounds_done(&entry.job)),
        figure("accuracy", &|entry| or_dash(entry.accuracy(), |(accuracy, on)| measured(accuracy, on))),
        figure("best", &|entry| {
            or_dash(entry.best().and_then(|best| Some((best.accuracy?, best))), |(accuracy, best)| {
                format!("{} in round {}", measured(accuracy, best.measured_on), best.round)
            })
        }),
        figure("clients", &|entry| or_dash(entry.accuracy().and_then(|(_, on)| spread(on)), |spread| spread)),
        figure("loss", &|entry| or_dash(entry.loss(), |loss| format!("{loss:.4}"))),
        figure("sent up", &|entry| bytes(entry.bytes_up())),
        figure("took", &|entry| or_dash(entry.took_ms(), duration_ms)),
    ];
    let figures = output::table(&header, figures, width);
    if different.is_empty() {
        return format!("{figures}\n\nall settings are the same");
    }
    let rows = different.iter().map(|(key, values)| [vec![key.clone()], values.clone()].concat());
    format!("{figures}\n\nsettings that differ:\n\n{}", output::table(&header, rows, width))
}

/// The settings that differ, each with its value in every job.
fn different(entries: &[Entry]) -> BTreeMap<String, Vec<String>> {
    let keys: BTreeSet<&String> = entries.iter().flat_map(|entry| entry.settings.keys()).collect();
    let values = |key: &String| -> Vec<String> {
        entries.iter().map(|entry| entry.settings.get(key).cloned().unwrap_or_else(|| "-".into())).collect()
    };
    let compared = keys.into_iter().map(|key| (key.clone(), values(key)));
    compared
        .filter(|(key, values)| !LEFT_OUT.contains(&key.as_str()) && values.windows(2).any(|pair| pair[0] != pair[1]))
        .collect()
}

/// The values of a job file by their keys: `round.deadline_ms`. A list is one value.
fn settings(file: &Value) -> BTreeMap<String, String> {
    fn walk(prefix: &str, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    walk(&key, member, found);
                }
            }
            Value::String(text) => drop(found.insert(prefix.to_owned(), text.clone())),
            other => drop(found.insert(prefix.to_owned(), other.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    walk("", file, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, job, output, round};
    use tributary_protocol::operator::Progress;
    use tributary_protocol::state::Phase;

    #[tokio::test]
    async fn results_stand_side_by_side_with_the_settings_that_differ() {
        let (mut slow, mut fast) = (job(1, "demo", "slow"), job(2, "demo", "fast"));
        let measured_on =
            Some(MeasuredOn { examples: 20, clients: 1, low: 0.699, high: 0.972, worst: None, p10: None });
        let best = |round| BestVersion { version: round, round, accuracy: Some(0.9), measured_on, loss: Some(0.5) };
        fast.file.round.deadline_ms = 7;
        slow.progress = Some(Progress { best: Some(best(2)), ..Progress::default() });
        fast.progress = Some(Progress { best: Some(best(1)), ..Progress::default() });
        let evaluation =
            |number, accuracy| Round { accuracy: Some(accuracy), ..round(Task::Evaluate, number, Phase::Committed) };
        let rounds = vec![
            round(Task::Train, 1, Phase::Committed),
            evaluation(1, 0.9),
            round(Task::Train, 2, Phase::Committed),
            evaluation(2, 0.9),
        ];
        let api = Fake { jobs: vec![slow, fast], rounds, ..Fake::default() }.start().await;
        let args = JobCompareArgs { jobs: vec!["slow".into(), "fast".into()], population: None };
        let (output, printed) = output(false);
        run(&args, &api, &output).await.unwrap();
        let text = printed.lock().unwrap().clone();
        // Of equal accuracies, those that the coordinator names.
        let best = |round| format!("90.00 % (20 examples, 69 to 98 %) in round {round}");
        assert!(text.contains(&format!("best      {}  {}", best(2), best(1))), "{text}");
        assert!(text.contains("round.deadline_ms  600000  7"), "{text}");
        assert!(!text.contains("population"), "{text}");
    }
}
