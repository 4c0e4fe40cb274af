//! `tributary analysis`: questions to the tables of a population's clients.

use std::path::PathBuf;

use clap::Subcommand;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::{Answer, Estimate, Job, JobAnswers};

use crate::api::Api;
use crate::error::CliError;
use crate::format::{count, or_dash};
use crate::job::args::JobArgs;
use crate::job::file;
use crate::job::find::find_job;
use crate::job::watch;
use crate::output::{self, Output};

#[derive(Debug, Subcommand)]
pub(crate) enum AnalysisCommand {
    /// Asks what a job file with [analysis] says.
    Run {
        /// The job file, in TOML or JSON; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Follows the rounds, and shows the answers at the end.
        #[arg(long)]
        watch: bool,
    },
    /// Shows the answers, with the 95 % intervals of their noise.
    Show {
        #[command(flatten)]
        job: JobArgs,
        /// Prints the means and deviations as the columns of a job file's [model.inputs] instead.
        #[arg(long)]
        inputs: bool,
    },
}

pub(crate) async fn run(command: AnalysisCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        AnalysisCommand::Run { file, watch } => start(file::read(&file)?, watch, api, output).await,
        AnalysisCommand::Show { job, inputs } => {
            let job = find_job(api, &job).await?;
            let answers = answers(&job, api).await?;
            match inputs {
                true => output.object(&inputs_json(&answers)?, || inputs_text(&answers)),
                false => output.object(&answers, || text(&answers, output)),
            }
        }
    }
}

async fn start(file: JobFile, is_watched: bool, api: &Api, output: &Output) -> Result<(), CliError> {
    if file.analysis.is_none() {
        return Err(CliError::BadSetting(
            "the file has no [analysis]; `tributary job create` makes jobs that train".into(),
        ));
    }
    let job = api.create_job(file).await?;
    if !is_watched {
        let name = &job.file.name;
        return output.object(&job, || format!("asked as {name}\nnext: `tributary analysis show {name}`"));
    }
    watch::run(&job, 0, api, output).await?;
    let answers = answers(&job, api).await?;
    output.object(&answers, || text(&answers, output))
}

async fn answers(job: &Job, api: &Api) -> Result<JobAnswers, CliError> {
    match job.file.analysis {
        Some(_) => Ok(api.answers(job.head.id).await?),
        None => Err(CliError::BadSetting(format!("{} is no analysis: it trains a model", job.file.name))),
    }
}

fn text(answers: &JobAnswers, output: &Output) -> String {
    let JobAnswers { rounds, rounds_needed, clients, answers } = answers;
    if *rounds == 0 {
        return format!("no answers yet: round 1 of {rounds_needed} is not done");
    }
    let mut text =
        format!("{} clients answered; {rounds} of {rounds_needed} rounds are done", count((*clients).into()));
    let rows = answers.iter().flat_map(|answer| {
        let epsilon = or_dash(answer.epsilon, |epsilon| format!("{epsilon:.3}"));
        let row = move |estimate: &Estimate| {
            let value = or_dash(estimate.value, shown);
            let interval =
                estimate.low.zip(estimate.high).map(|(low, high)| format!("{} to {}", shown(low), shown(high)));
            let few = || "too few rows for the noise".to_owned();
            let (name, label) = (answer.name.to_string(), estimate.label.clone());
            vec![name, label, value, interval.unwrap_or_else(few), epsilon.clone()]
        };
        answer.estimates.iter().map(row)
    });
    text.push_str("\n\n");
    text.push_str(
        output::table(&["query", "of", "estimate", "95 % interval", "epsilon"], rows, output.width).trim_end(),
    );
    let unknown = answers.iter().filter(|answer| answer.estimates.is_empty()).map(|answer| answer.name.as_str());
    let unknown: Vec<&str> = unknown.collect();
    if !unknown.is_empty() {
        text.push_str(&format!("\n\nfound nothing above the noise: {}", unknown.join(", ")));
    }
    text
}

/// A number with as many places as help.
fn shown(number: f64) -> String {
    match number.abs() {
        magnitude if magnitude >= 100.0 => format!("{number:.0}"),
        magnitude if magnitude >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

/// Column, mean and deviation of the queries for means.
fn moments(answers: &JobAnswers) -> Vec<(&str, f64, f64)> {
    let of = |answer: &'_ Answer| match &answer.estimates[..] {
        [mean, deviation] if answer.kind == "mean" => Some((mean.value?, deviation.value?)),
        _ => None,
    };
    answers
        .answers
        .iter()
        .filter_map(|answer| of(answer).map(|(mean, of_it)| (answer.column.as_str(), mean, of_it)))
        .collect()
}

fn inputs_json(answers: &JobAnswers) -> Result<serde_json::Value, CliError> {
    let columns: Vec<_> = moments(answers)
        .into_iter()
        .map(|(name, mean, deviation)| serde_json::json!({ "name": name, "mean": mean, "deviation": deviation }))
        .collect();
    match columns.is_empty() {
        true => Err(CliError::BadSetting("the analysis has no mean that is known".into())),
        false => Ok(serde_json::json!({ "columns": columns })),
    }
}

fn inputs_text(answers: &JobAnswers) -> String {
    let columns = moments(answers).into_iter().map(|(name, mean, deviation)| {
        let name = toml::Value::from(name);
        format!("  {{ name = {name}, mean = {mean:?}, deviation = {deviation:?} }},\n")
    });
    format!("[model.inputs]\ncolumns = [\n{}]", columns.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::output;

    fn estimate(label: &str, value: Option<f64>) -> Estimate {
        Estimate {
            label: label.into(),
            value,
            low: value.map(|value| value - 1.0),
            high: value.map(|value| value + 1.0),
        }
    }

    fn answered() -> JobAnswers {
        let answer = |name: &str, kind: &str, estimates| Answer {
            name: name.parse().unwrap(),
            kind: kind.into(),
            column: "years".into(),
            epsilon: Some(0.5),
            noise: 4.2,
            estimates,
        };
        JobAnswers {
            rounds: 1,
            rounds_needed: 1,
            clients: 2_000,
            answers: vec![
                answer("age", "mean", vec![estimate("mean", Some(41.25)), estimate("deviation", Some(0.5))]),
                answer("ages", "histogram", vec![estimate("0 to 18", Some(312.0)), estimate("18 to 99", None)]),
                answer("words", "heavy_hitters", vec![]),
            ],
        }
    }

    #[test]
    fn answers_are_a_table_with_their_intervals() {
        let text = text(&answered(), &output(false).0);
        for wanted in [
            "2.0 k clients answered; 1 of 1 rounds",
            "41.25",
            "40.25 to 42.25",
            "312",
            "too few rows for the noise",
            "found nothing above the noise: words",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let early = JobAnswers { rounds_needed: 3, ..JobAnswers::default() };
        assert!(super::text(&early, &output(false).0).contains("round 1 of 3"));
    }

    #[test]
    fn means_become_the_columns_of_a_job_file() {
        #[derive(serde::Deserialize)]
        struct File {
            model: Model,
        }
        #[derive(serde::Deserialize)]
        struct Model {
            inputs: tributary_protocol::inputs::Inputs,
        }
        let file: File = toml::from_str(&inputs_text(&answered())).unwrap();
        let [column] = &file.model.inputs.columns[..] else { panic!("one mean") };
        assert_eq!((column.name.as_str(), column.mean, column.deviation), ("years", Some(41.25), Some(0.5)));
        assert!(inputs_json(&JobAnswers::default()).is_err());
    }
}
