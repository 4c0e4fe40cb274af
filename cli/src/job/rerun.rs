//! `tributary job rerun`: the same training once more without some clients, from before their first update.
//!
//! A model that was released keeps what a client taught it. Only training again from a version that the client has no
//! part in makes one without it.

use tributary_protocol::download::ModelForm;
use tributary_protocol::id::{ClientId, JobId, Name};
use tributary_protocol::job_file::{InitialModel, JobFile};
use tributary_protocol::operator::{ClientAssignment, Job, ModelVersion};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Task};

use super::args::JobRerunArgs;
use super::export::download;
use super::find::find_job;
use crate::api::{Api, ApiError, collect};
use crate::error::CliError;
use crate::output::Output;

/// What the clients have had a part in.
#[derive(Debug, Default, PartialEq)]
struct Part {
    /// The first version with one of their updates; none where no update counted.
    first: Option<u32>,
    /// Updates that counted.
    updates: u64,
    /// Whether their tables are in the means by which the inputs are standardised.
    described: bool,
}

pub(super) async fn run(args: &JobRerunArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    if job.file.analysis.is_some() || job.file.only_evaluates() {
        let text = "it trains no model: create it again with the clients in [eligibility] without";
        return Err(CliError::BadSetting(text.into()));
    }
    let versions = collect(None, async |page| api.model_versions(job.head.id, page).await).await?.items;
    let part = match args.from {
        Some(version) => Part { first: Some(version + 1), ..Part::default() },
        None => part(api, job.head.id, &args.without, &versions).await?,
    };
    let from = base(&job, &part, &versions, args.from.is_some())?;
    let file = again(&job, from, part.described, &args.without, args.name.clone())?;
    let name = file.name.clone();
    let newest = versions.iter().map(|version| version.version).max().unwrap_or(0);
    let missing = newest.saturating_sub(from);
    let told = match part.updates {
        0 => String::new(),
        updates => format!("updates of these clients that counted: {updates}\n"),
    };
    let cost = format!("{told}{name} begins with version {from} of {}, and trains {missing} again", job.file.name);
    if !args.yes {
        let shown =
            serde_json::json!({ "from": from, "versions_again": missing, "updates": part.updates, "job": file });
        return output.object(&shown, || format!("{cost}\nnothing is created yet: repeat the command with --yes"));
    }
    // The model is there before the job: one that cannot be sent would make the job wait for ever.
    let folder = tempfile::tempdir().map_err(CliError::file("write", &std::env::temp_dir()))?;
    let path = folder.path().join("model.safetensors");
    let begins = file.initial_model == InitialModel::Upload;
    if let Some(version) = versions.iter().find(|version| version.version == from).filter(|_| begins) {
        download(api, job.head.id, version, ModelForm::F32, &path).await?;
    }
    let mut created = api.create_job(file).await?;
    if begins {
        api.upload_initial_model(created.head.id, &path).await?;
        created = api.job(created.head.id).await?;
    }
    output.object(&created, || {
        let id = created.head.id;
        format!("{cost}\ncreated the job {name} ({id})\nnext: `tributary job watch {name}`")
    })
}

/// What the histories of these clients say.
async fn part(api: &Api, job: JobId, clients: &[ClientId], versions: &[ModelVersion]) -> Result<Part, CliError> {
    // What retention has deleted may have been an earlier update of theirs.
    match api.round(job, 1, Task::Train).await {
        Err(ApiError::Problem(problem)) if matches!(problem.kind, ProblemType::NotFound | ProblemType::Deleted) => {
            let text = "the history of the first round is not there (any more): nobody knows who took part in it; say \
                        --from VERSION";
            return Err(CliError::BadSetting(text.into()));
        }
        fetched => drop(fetched?),
    }
    let mut part = Part::default();
    for client in clients {
        let fetched = collect(None, async |page| api.client_assignments(*client, page).await).await;
        let history = match fetched {
            Err(ApiError::Problem(problem)) if problem.kind == ProblemType::NotFound => {
                return Err(CliError::BadSetting(format!(
                    "there is no client {client}: of one that was erased nobody knows in which rounds it took part; say \
                     --from VERSION"
                )));
            }
            fetched => fetched?.items,
        };
        let counted =
            |entry: &&ClientAssignment| entry.job == job && entry.assignment.state == AssignmentState::Reported;
        for entry in history.iter().filter(counted) {
            match entry.task {
                Task::Train => {
                    // The update of a round that came to no model is in no version.
                    let of_round = |version: &&ModelVersion| version.round == Some(entry.round);
                    let Some(version) = versions.iter().find(of_round) else { continue };
                    part.updates += 1;
                    part.first = Some(part.first.map_or(version.version, |first| first.min(version.version)));
                }
                Task::Describe => part.described = true,
                Task::Evaluate => {}
            }
        }
    }
    Ok(part)
}

/// The version with which the new job begins: the newest that is there and has no part of the clients.
fn base(job: &Job, part: &Part, versions: &[ModelVersion], is_given: bool) -> Result<u32, CliError> {
    let first = match (part.described, part.first) {
        (true, _) => 1,
        (false, Some(first)) => first,
        (false, None) => {
            let text = format!("no update of these clients is in a model of {}: there is nothing to do", job.file.name);
            return Err(CliError::BadSetting(text));
        }
    };
    let is_kept = |version: &&ModelVersion| version.version < first && version.deleted_at_ms.is_none();
    let newest = versions.iter().filter(is_kept).map(|version| version.version).max();
    match newest {
        Some(newest) if !is_given || newest + 1 == first => Ok(newest),
        // Version 0 follows from the job's seed.
        _ if first == 1 && job.file.initial_model == InitialModel::Random => Ok(0),
        _ => Err(CliError::BadSetting(format!(
            "version {} of {} is not there (any more), nor is an earlier one: it cannot be trained again from there",
            first - 1,
            job.file.name
        ))),
    }
}

/// The file of the new job.
fn again(job: &Job, base: u32, described: bool, without: &[ClientId], name: Option<Name>) -> Result<JobFile, CliError> {
    let default = || format!("{}-rerun", job.file.name).parse();
    let name = name.map_or_else(default, Ok).map_err(|_| CliError::BadSetting("the job needs a --name".into()))?;
    let mut file = JobFile { name, ..job.file.clone() };
    file.eligibility.without.extend(without);
    file.eligibility.without.sort_unstable();
    file.eligibility.without.dedup();
    // The same seed draws the same version 0.
    if base > 0 {
        file.initial_model = InitialModel::Upload;
    }
    if let Some(rounds) = &mut file.stop.rounds {
        *rounds = rounds.saturating_sub(base).max(1);
    }
    if let Some(inputs) = file.model.inputs.as_mut().filter(|_| described) {
        inputs.forget_statistics();
    }
    if let Some(privacy) = &mut file.privacy {
        // What followed from the number of rounds follows anew.
        (privacy.noise_multiplier, privacy.separation) = (None, None);
        (privacy.releases_max, privacy.buffers) = (None, None);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;

    fn versions(kept: &[u32]) -> Vec<ModelVersion> {
        let version = |version: &u32| {
            let value =
                serde_json::json!({ "version": version, "sha256": "00".repeat(32), "bytes": 1, "created_at_ms": 0 });
            serde_json::from_value(value).unwrap()
        };
        kept.iter().map(version).collect()
    }

    #[test]
    fn a_rerun_begins_with_the_newest_version_without_the_clients() {
        let (job, with) = (job(1, "shop", "digits"), |first| Part { first: Some(first), updates: 1, described: false });
        for (first, kept, wanted) in [(5, &[0, 3, 4, 5, 6][..], 4), (5, &[0, 3, 5], 3), (1, &[1, 2], 0)] {
            assert_eq!(base(&job, &with(first), &versions(kept), false).unwrap(), wanted);
        }
        let described = Part { described: true, ..with(5) };
        assert_eq!(base(&job, &described, &versions(&[0, 4, 5]), false).unwrap(), 0, "its table is in all versions");
        let gone = base(&job, &with(3), &versions(&[3, 4]), false).unwrap_err().to_string();
        assert!(gone.contains("version 2") && gone.contains("not there"), "{gone}");
        assert!(base(&job, &with(5), &versions(&[0, 3]), true).is_err(), "that very version was asked for");
        let nothing = base(&job, &Part::default(), &versions(&[0, 1]), false).unwrap_err().to_string();
        assert!(nothing.contains("there is nothing to do"), "{nothing}");
    }

    #[test]
    fn a_rerun_has_the_rounds_that_are_left_and_a_budget_that_is_found_anew() {
        let mut job = job(1, "shop", "digits");
        job.file.stop.rounds = Some(10);
        let client = ClientId::from_random([1; 16]);
        let file = again(&job, 4, false, &[client, client], None).unwrap();
        assert_eq!((file.stop.rounds, file.initial_model), (Some(6), InitialModel::Upload));
        assert_eq!(file.eligibility.without, [client]);
        assert_eq!(file.name.as_str(), format!("{}-rerun", job.file.name));
        let first = again(&job, 0, true, &[client], Some("b".parse().unwrap())).unwrap();
        assert_eq!((first.initial_model, first.name.as_str()), (job.file.initial_model, "b"));
    }
}
