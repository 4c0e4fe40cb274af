//! `tributary privacy`: what a job's privacy comes to, and what it has spent.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::{BudgetError, resolve, spent_by};
use tributary_engine::story::{PlanPoint, course, explained};
use tributary_protocol::analysis::{Analysis, Query};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{JobFile, Mechanism};
use tributary_protocol::operator::{EpsilonPair, JobPrivacy, check_ledger};
use tributary_protocol::seed::Seed;

use crate::error::{CliError, Failure};
use crate::format::{count, relative};
use crate::job::args::JobArgs;
use crate::job::file;
use crate::job::find::find_job;
use crate::options::GlobalArgs;
use crate::output::{self, Output};
use crate::profile;

/// Above this the model is mostly noise.
const RATIO_MAX: f64 = 1.0;
/// Epsilons that differ by less come from the same releases: a JSON number keeps its bits, the accountants may not
/// agree on another machine's last digits.
const SAME: f64 = 1e-6;

#[derive(Debug, Subcommand)]
pub(crate) enum PrivacyCommand {
    /// Says what the [privacy] of a job file comes to: noise, epsilon over the rounds, clients needed. Needs no
    /// coordinator.
    Plan {
        /// The job file, in TOML or JSON; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Shows what a job has spent, release by release.
    Ledger {
        #[command(flatten)]
        job: JobArgs,
        /// Checks that no entry was changed, removed or moved, and computes what was spent from the entries alone.
        #[arg(long)]
        verify: bool,
    },
}

impl Failure for BudgetError {
    fn hint(&self) -> Option<String> {
        Some("docs/privacy.md says what follows from a budget".into())
    }
}

/// A plan as it is printed in JSON.
#[derive(Serialize)]
struct Plan {
    #[serde(flatten)]
    privacy: JobPrivacy,
    course: Vec<Course>,
}

#[derive(Serialize)]
struct Course {
    rounds: u32,
    #[serde(flatten)]
    epsilon: EpsilonPair,
}

pub(crate) async fn run(command: PrivacyCommand, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    match command {
        PrivacyCommand::Plan { file } => plan(file::read(&file)?, output),
        PrivacyCommand::Ledger { job, verify } => {
            let api = profile::resolved(global)?.operator_api(output)?;
            let job = find_job(&api, &job).await?;
            let Some(privacy) = api.privacy(job.head.id).await?.privacy else {
                return Err(CliError::BadSetting(format!("{} has no [privacy]", job.file.name)));
            };
            if verify {
                verified(&privacy)?;
            }
            output.object(&privacy, || ledger_text(&privacy, verify, output))
        }
    }
}

fn plan(mut file: JobFile, output: &Output) -> Result<(), CliError> {
    if file.privacy.is_none() {
        return Err(CliError::BadSetting("the file has no [privacy]: its models are not private".into()));
    }
    resolve(&mut file)?;
    file.seed = file.seed.or(Some(Seed(0)));
    let spec =
        JobSpec::new(JobId::from_random([0; 16]), file).map_err(|error| CliError::BadSetting(error.to_string()))?;
    let course = course(&spec).map_err(|error| CliError::Internal(error.to_string()))?;
    let Some(privacy) = explained(&spec, Vec::new(), None) else { return Ok(()) };
    let text = plan_text(&spec, &privacy, &course, output);
    let course = course.into_iter().map(|PlanPoint { rounds, epsilon }| Course { rounds, epsilon }).collect();
    output.object(&Plan { privacy, course }, || text)
}

fn plan_text(spec: &JobSpec, privacy: &JobPrivacy, course: &[PlanPoint], output: &Output) -> String {
    let JobPrivacy { terms, noise_ratio, units_needed, .. } = privacy;
    let noise = terms.noise_multiplier.unwrap_or(0.0);
    let unit = spec.file.unit_attribute().unwrap_or("client");
    let goal = spec.file.round.updates_goal;
    let to = match &spec.file.secure_aggregation {
        Some(secure) => format!("by clients to the sum of their group of at most {}", secure.group(goal)),
        None if terms.mechanism == Mechanism::Local => "by each client to its own answer".to_owned(),
        None => format!("to the sum of {goal} updates"),
    };
    let mut text = format!(
        "noise: {noise:.4} clips ({}), added {to}\nclip: {}\n\
         each {unit} contributes at most {} updates, {} versions apart at least: {} of them are needed\n",
        terms.mechanism.as_str(),
        terms.clip.start(),
        terms.participations_max,
        terms.separation.unwrap_or(1),
        count(*units_needed),
    );
    match &spec.file.analysis {
        Some(analysis) => text.push_str(&counts(analysis)),
        None => text
            .push_str(&format!("noise in the last model: {noise_ratio:.2} of the longest way that it can have gone\n")),
    }
    text.push('\n');
    let rows = course.iter().map(|PlanPoint { rounds, epsilon }| {
        vec![rounds.to_string(), format!("{:.3}", epsilon.models), format!("{:.3}", epsilon.cohorts)]
    });
    let columns = ["rounds", "epsilon", against(terms.mechanism)];
    text.push_str(output::table(&columns, rows, output.width).trim_end());
    if *noise_ratio > RATIO_MAX && spec.file.analysis.is_none() {
        text.push_str(
            "\n\nnote: the model would be mostly noise: take more updates into a round, train a smaller model, or allow \
             a larger epsilon",
        );
    }
    text
}

/// What the second epsilon is against.
fn against(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Distributed | Mechanism::Local => "epsilon, coordinator",
        Mechanism::Blt | Mechanism::Gaussian => "epsilon, cohorts known",
    }
}

/// The noise of a count of each query.
fn counts(analysis: &Analysis) -> String {
    let line = |(index, query): (usize, &Query)| {
        format!("noise of a count of {}: {:.1} rows\n", query.name(), analysis.deviation(index, 1))
    };
    analysis.queries.iter().enumerate().map(line).collect()
}

/// Checks the chain, and what the coordinator says was spent.
fn verified(privacy: &JobPrivacy) -> Result<(), CliError> {
    check_ledger(&privacy.ledger)?;
    let from_rows =
        spent_by(&privacy.ledger, privacy.terms.delta).map_err(|error| CliError::Internal(error.to_string()))?;
    match privacy.spent {
        Some(told)
            if (told.models - from_rows.models).abs() > SAME || (told.cohorts - from_rows.cohorts).abs() > SAME =>
        {
            let (models, told) = (from_rows.models, told.models);
            Err(CliError::BadSetting(format!("the entries spend {models:.6}, and the coordinator says {told:.6}")))
        }
        _ => Ok(()),
    }
}

fn ledger_text(privacy: &JobPrivacy, is_verified: bool, output: &Output) -> String {
    let JobPrivacy { terms, spent, is_spent, ledger, .. } = privacy;
    let mut text = match spent {
        Some(EpsilonPair { models, cohorts }) => {
            let (budget, delta) = (terms.epsilon, terms.delta);
            // The budget of noise that clients add is kept against the coordinator.
            match terms.mechanism.is_of_clients() {
                true => format!(
                    "spent: epsilon {cohorts:.4} of {budget} against the coordinator, {models:.4} against who sees the \
                     models; delta {delta:e}"
                ),
                false => format!(
                    "spent: epsilon {models:.4} of {budget} against who sees the models, {cohorts:.4} against who also \
                     knows the cohorts; delta {delta:e}"
                ),
            }
        }
        None => "spent: without a bound, because the noise has a test_key that everybody may know".to_owned(),
    };
    if *is_spent {
        text.push_str("\nthe budget allows no further round");
    }
    if is_verified {
        text.push_str(&format!("\n{} entries, none changed, missing or moved", count(ledger.len() as u64)));
    }
    if !ledger.is_empty() {
        let rows = ledger.iter().map(|entry| {
            vec![
                entry.number.to_string(),
                relative(entry.at_ms, output.now_ms),
                entry.round.to_string(),
                entry.version.to_string(),
                format!("{:.4}", entry.noise_multiplier),
                entry.participations.to_string(),
            ]
        });
        let columns = ["#", "when", "round", "version", "noise", "most updates of one unit"];
        text.push_str("\n\n");
        text.push_str(output::table(&columns, rows, output.width).trim_end());
    }
    text
}
