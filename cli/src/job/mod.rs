//! `tributary job`: jobs from their file to their model.

pub(crate) mod args;
mod check;
mod compare;
mod create;
mod evaluate;
pub(crate) mod export;
pub mod file;
mod filing;
pub(crate) mod find;
mod policy;
mod progress;
mod rerun;
pub(crate) mod scalars;
mod sinks;
mod stale;
pub(crate) mod test_set;
mod versions;
pub(crate) mod watch;

use std::cmp::Ordering;

use tributary_protocol::id::Name;
use tributary_protocol::job_file::StopPolicy;
use tributary_protocol::operator::{Health, Job, Progress, Round};
use tributary_protocol::state::{JobState, Severity, Task};

use crate::api::{Api, JobChange, collect_sorted};
use crate::error::CliError;
use crate::format::{count, duration_ms, measured, or_dash, percent, relative, spread, timestamp};
use crate::output::{self, Output};
use crate::population::check_population;
use crate::round::{list, text as round_text};

use args::{JobArgs, JobCommand, JobSort};
use find::find_job;
use progress::rounds_done;
use scalars::figure;

/// Rounds that `job show` prints.
const LAST_ROUNDS: usize = 10;

pub(crate) async fn run(command: JobCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        JobCommand::Create(args) => create::run(&args, api, output).await,
        JobCommand::List { population, tag, archived, sort, reverse, limit } => {
            let fetch = async |page| {
                let mut page = api.jobs(population.as_ref(), page).await?;
                page.items.retain(|job| archived || job.head.archived_at_ms.is_none());
                page.items.retain(|job| tag.as_ref().is_none_or(|tag| job.head.tags.contains(tag)));
                Ok(page)
            };
            let order =
                |a: &Job, b: &Job| if reverse.reverse { compare_jobs(sort, b, a) } else { compare_jobs(sort, a, b) };
            let jobs = collect_sorted(limit.items_max(), order, fetch).await?;
            if let Some(population) = population.as_ref().filter(|_| jobs.items.is_empty()) {
                // An empty list may mean that the name is mistyped.
                check_population(population, api).await?;
            }
            let header =
                ["name", "state", "health", "population", "rounds", "version", "parameters", "tags", "created", "id"];
            output.list(&jobs.items, &header, |job| row(job, output.now_ms))?;
            output.note_if_cut(jobs.is_cut);
            Ok(())
        }
        JobCommand::Check { file } => check::run(file::read(&file)?, api, output).await,
        JobCommand::Show(args) => show(&args, api, output).await,
        JobCommand::Watch { job, last } => watch::run(&find_job(api, &job).await?, last, api, output).await,
        JobCommand::File(args) => {
            let job = find_job(api, &args).await?;
            output.object(&job.file, || job.file.text().trim_end().to_owned())
        }
        JobCommand::TestSet { command } => test_set::run(command, api, output).await,
        JobCommand::Stale(args) => stale::run(&args, api, output).await,
        JobCommand::Metrics(args) => scalars::run(&args, api, output).await,
        JobCommand::Compare(args) => compare::run(&args, api, output).await,
        JobCommand::Rerun(args) => rerun::run(&args, api, output).await,
        JobCommand::Evaluate(args) => evaluate::create(&args, api, output).await,
        JobCommand::Sites(args) => evaluate::sites(&args, api, output).await,
        JobCommand::Policy(args) => policy::run(&args, api, output).await,
        JobCommand::Pause(args) => change(&args, JobChange::Pause, api, output).await,
        JobCommand::Resume(args) => change(&args, JobChange::Resume, api, output).await,
        JobCommand::Stop(args) => change(&args, JobChange::Stop, api, output).await,
        JobCommand::Rename(args) => filing::rename(&args, api, output).await,
        JobCommand::Tag(args) => filing::tag(&args, api, output).await,
        JobCommand::Note(args) => filing::note(&args, api, output).await,
        JobCommand::Archive(args) => filing::archive(&args, api, output).await,
        JobCommand::Delete(args) => filing::delete(&args, api, output).await,
        JobCommand::Versions(args) => versions::list(&args, api, output).await,
        JobCommand::Pin(args) => versions::pin(&args, true, api, output).await,
        JobCommand::Unpin(args) => versions::pin(&args, false, api, output).await,
        JobCommand::Export(args) => {
            if args.sinks.any() {
                sinks::run(&find_job(api, &args.job).await?, &args.sinks, api, output).await?;
            }
            if args.wants_model() { export::run(&args, api, output).await } else { Ok(()) }
        }
    }
}

/// The order of a list; the newest first among equals.
fn compare_jobs(sort: JobSort, a: &Job, b: &Job) -> Ordering {
    let urgency = |job: &Job| job.health.first().map_or(Severity::Ok, |health| health.severity);
    let by_key = match sort {
        JobSort::Newest => Ordering::Equal,
        JobSort::Name => a.file.name.cmp(&b.file.name),
        JobSort::State => a.head.state.cmp(&b.head.state),
        JobSort::Health => urgency(b).cmp(&urgency(a)),
        JobSort::Population => (&a.file.population, &a.file.name).cmp(&(&b.file.population, &b.file.name)),
        JobSort::Rounds => b.head.rounds_committed.cmp(&a.head.rounds_committed),
        JobSort::Parameters => b.head.parameters.cmp(&a.head.parameters),
    };
    by_key.then(b.head.created_at_ms.cmp(&a.head.created_at_ms))
}

async fn show(args: &JobArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, args).await?;
    let rounds = list::newest(api, job.head.id, Task::Train, Some(LAST_ROUNDS)).await?;
    let object = serde_json::json!({ "job": &job, "rounds": &rounds });
    output.object(&object, || text(&job, &rounds, output))
}

async fn change(args: &JobArgs, change: JobChange, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, args).await?;
    let job = api.change_job(job.head.id, change).await?;
    output.object(&job, || format!("the job {} is now {}", job.file.name, job.head.state))
}

fn row(job: &Job, now_ms: i64) -> Vec<String> {
    vec![
        job.file.name.to_string(),
        job.head.state.to_string(),
        health_words(&job.health),
        job.file.population.to_string(),
        rounds_done(job),
        or_dash(job.head.model_version, |version| version.to_string()),
        count(job.head.parameters),
        or_dash((!job.head.tags.is_empty()).then_some(&job.head.tags), |tags| tag_words(tags)),
        relative(job.head.created_at_ms, now_ms),
        job.head.id.to_string(),
    ]
}

fn tag_words(tags: &[Name]) -> String {
    tags.iter().map(Name::as_str).collect::<Vec<_>>().join(" ")
}

/// `ok`, or what the most severe line is about: `trouble: rounds abandoned`. `job show` has all lines.
fn health_words(health: &[Health]) -> String {
    let Some(Health { severity, kind, .. }) = health.first() else { return String::new() };
    let others = health.iter().skip(1).filter(|line| line.severity >= Severity::Warning).count();
    match (severity, others) {
        (Severity::Ok, _) => "ok".to_owned(),
        (severity, 0) => format!("{severity}: {}", kind.as_str().replace('_', " ")),
        (severity, others) => format!("{severity}: {} and {others} more", kind.as_str().replace('_', " ")),
    }
}

/// A line of `job show` for each line of its health, with what helps.
fn health_pairs(health: &[Health]) -> Vec<(&'static str, String)> {
    let lines = health.iter().flat_map(|line| {
        let text = Some(("health", format!("{}: {}", line.severity, line.text)));
        text.into_iter().chain(line.remedy.clone().map(|remedy| ("remedy", remedy)))
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { vec![("health", "-".to_owned())] } else { lines }
}

fn text(job: &Job, rounds: &[Round], output: &Output) -> String {
    let useful_updates = job.progress.as_ref().and_then(|progress| progress.useful_updates.as_ref());
    let measured_on = job.progress.as_ref().and_then(|progress| progress.measured_on);
    let mut pairs = vec![
        ("name", job.file.name.to_string()),
        ("id", job.head.id.to_string()),
        ("population", job.file.population.to_string()),
        ("state", job.head.state.to_string()),
    ];
    pairs.extend(health_pairs(&job.health));
    pairs.extend([
        ("model version", or_dash(job.head.model_version, |version| version.to_string())),
        ("parameters", job.head.parameters.to_string()),
        ("rounds", format!("{} committed of {} opened", job.head.rounds_committed, job.head.rounds_opened)),
        ("accuracy", accuracy(job.progress.as_ref())),
        ("clients", or_dash(spread(measured_on), |spread| spread)),
        ("next round", next_round(job, output.now_ms)),
        ("time left", time_left(job.progress.as_ref())),
        ("advice", or_dash(useful_updates.as_ref(), |useful| useful.text.clone())),
        ("ends after", ends_after(&job.file.stop)),
        ("seed", or_dash(job.file.seed, |seed| seed.0.to_string())),
        ("plan", job.plan_hash.to_string()),
        ("tags", or_dash((!job.head.tags.is_empty()).then_some(&job.head.tags), |tags| tag_words(tags))),
        ("notes", or_dash((!job.head.notes.is_empty()).then(|| job.head.notes.clone()), |notes| notes)),
        ("created", timestamp(job.head.created_at_ms)),
        ("ended", or_dash(job.head.ended_at_ms, timestamp)),
    ]);
    let fields = output::fields(&pairs, output.width);
    if rounds.is_empty() {
        return format!("{fields}\n\nno round yet");
    }
    let rounds = output::table(&round_text::HEADER, rounds.iter().map(round_text::row), output.width);
    format!("{fields}\n\n{}", output.coloured(rounds))
}

/// `94.99 % (900 examples, 93 to 97 %) now, 96.10 % (900 examples, 94 to 98 %) best in round 17`.
fn accuracy(progress: Option<&Progress>) -> String {
    let now = progress.and_then(|progress| Some(format!("{} now", measured(progress.accuracy?, progress.measured_on))));
    let best = progress.and_then(|progress| progress.best);
    let best = best
        .and_then(|best| Some(format!("{} best in round {}", measured(best.accuracy?, best.measured_on), best.round)));
    let words: Vec<String> = now.into_iter().chain(best).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

fn time_left(progress: Option<&Progress>) -> String {
    match progress {
        Some(Progress { awaits_evaluation: true, .. }) => "waits for its last evaluation".to_owned(),
        _ => or_dash(progress.and_then(|progress| progress.ends_in_ms), about),
    }
}

fn about(ms: u64) -> String {
    format!("about {}", duration_ms(ms))
}

/// When the next training round may start.
fn next_round(job: &Job, now_ms: i64) -> String {
    let schedule = job.file.schedule.as_ref();
    let minutes = schedule.map_or(String::new(), |schedule| format!(" ({} {})", schedule.rounds, schedule.time_zone));
    match (job.head.state, job.head.rounds_not_before_ms) {
        (JobState::Running, None) => format!("at any time{minutes}"),
        (JobState::Running, Some(at_ms)) => {
            format!("not before {}, {}{minutes}", timestamp(at_ms), relative(at_ms, now_ms))
        }
        (JobState::Relaying, _) => "when the parent opens one".into(),
        (JobState::Paused, _) => "after `tributary job resume`".into(),
        (JobState::AwaitingModel, _) => "after version 0 is uploaded".into(),
        (JobState::Stopped | JobState::Completed, _) => "none".into(),
    }
}

fn ends_after(stop: &StopPolicy) -> String {
    let rounds = stop.rounds.map(|rounds| format!("{rounds} committed rounds"));
    let accuracy = stop.accuracy.map(|accuracy| format!("an accuracy of {}", percent(accuracy)));
    let metric = stop.metric.as_ref().map(|name| match (stop.at_least, stop.at_most) {
        (Some(bound), _) => format!("a mean {name} of at least {}", figure(bound)),
        (None, bound) => format!("a mean {name} of at most {}", or_dash(bound, figure)),
    });
    let limits: Vec<String> = rounds.into_iter().chain(accuracy).chain(metric).collect();
    if limits.is_empty() { "`tributary job stop`".into() } else { limits.join(" or ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, job, output, round};
    use clap::Parser;
    use tributary_protocol::job_file::Schedule;
    use tributary_protocol::operator::MeasuredOn;
    use tributary_protocol::state::{HealthKind, Phase};

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: JobCommand,
    }

    #[test]
    fn a_job_says_when_its_next_round_may_start() {
        let schedule = Some(Schedule { rounds: "* 22-23 * * *".into(), time_zone: "Europe/Berlin".into() });
        let mut job = job(1, "demo", "digits");
        assert_eq!(next_round(&job, 0), "at any time");
        job.file.schedule = schedule;
        assert_eq!(next_round(&job, 0), "at any time (* 22-23 * * * Europe/Berlin)");
        job.head.rounds_not_before_ms = Some(7_200_000);
        let waits = "not before 1970-01-01 02:00:00Z, in 2 h (* 22-23 * * * Europe/Berlin)";
        assert_eq!(next_round(&job, 0), waits);
        job.head.state = JobState::Stopped;
        assert_eq!(next_round(&job, 0), "none");
    }

    #[test]
    fn a_job_with_its_rounds_says_that_it_waits_for_its_evaluation() {
        let waits = Progress { awaits_evaluation: true, ..Progress::default() };
        assert_eq!(time_left(Some(&waits)), "waits for its last evaluation");
        assert_eq!(time_left(Some(&Progress { ends_in_ms: Some(60_000), ..Progress::default() })), about(60_000));
        assert_eq!([time_left(Some(&Progress::default())), time_left(None)], ["-", "-"]);
    }

    #[test]
    fn a_job_says_what_ends_it() {
        let stop = |rounds, accuracy| ends_after(&StopPolicy { rounds, accuracy, ..StopPolicy::default() });
        assert_eq!(stop(None, None), "`tributary job stop`");
        assert_eq!(stop(Some(30), Some(0.97)), "30 committed rounds or an accuracy of 97.00 %");
        let metric = "auc".parse().ok();
        let auc = StopPolicy { metric, at_least: Some(0.9), ..StopPolicy::default() };
        assert_eq!(ends_after(&auc), "a mean auc of at least 0.9");
    }

    #[tokio::test]
    async fn a_population_without_jobs_is_a_list_and_a_missing_one_is_not_found() {
        let api = Fake::default().start().await;
        let list = async |name| {
            let line = Line::parse_from(["job", "list", "--population", name]);
            run(line.command, &api, &output(true).0).await
        };
        assert!(list("demo").await.is_ok());
        let error = list("demos").await.expect_err("mistyped");
        assert_eq!(error.exit_code(), crate::error::exit::NOT_FOUND);
        assert!(error.hint().unwrap().starts_with("did you mean demo?"));
    }

    #[tokio::test]
    async fn lists_and_details_are_tables_for_people_and_lines_for_programs() {
        let mut digits = job(1, "demo", "digits");
        digits.file.stop.rounds = Some(30);
        let line = |severity, kind, text: &str, remedy: &str| Health {
            severity,
            kind,
            text: text.into(),
            remedy: Some(remedy.into()),
        };
        digits.health = vec![
            line(
                Severity::Trouble,
                HealthKind::RoundsAbandoned,
                "3 of the last 5 rounds were abandoned.",
                "start more clients",
            ),
            line(Severity::Warning, HealthKind::DiskFills, "the disk fills", "give it a larger disk"),
        ];
        let on = MeasuredOn { examples: 19, clients: 2, low: 0.8318, high: 1.0, worst: Some(1.0), p10: Some(1.0) };
        digits.progress =
            Some(Progress { accuracy: Some(1.0), measured_on: Some(on), best: None, ..Progress::default() });
        let rounds = (1..=12).map(|number| round(Task::Train, number, Phase::Committed)).collect();
        let api = Fake { jobs: vec![digits, job(2, "demo", "text")], rounds, ..Fake::default() }.start().await;
        let print = async |line: &str, json| {
            let (output, printed) = output(json);
            let words = ["job"].into_iter().chain(line.split(' '));
            run(Line::try_parse_from(words).unwrap().command, &api, &output).await.unwrap();
            printed.lock().unwrap().clone()
        };
        let list = print("list", false).await;
        let heads = "NAME    STATE    HEALTH                                POPULATION  ROUNDS";
        assert!(list.starts_with(heads), "{list}");
        assert!(list.contains("digits  running  trouble: rounds abandoned and 1 more  demo        0/30"), "{list}");
        assert_eq!(print("list", true).await.lines().count(), 2);
        let show = print("show digits", false).await;
        assert!(show.contains("ends after     30 committed rounds"), "{show}");
        assert!(show.contains("health         trouble: 3 of the last 5 rounds were abandoned."), "{show}");
        assert!(show.contains("remedy         start more clients"), "{show}");
        assert!(show.contains("health         warning: the disk fills"), "{show}");
        assert!(show.contains("accuracy       100.00 % (19 examples, 83 to 100 %) now"), "{show}");
        assert!(show.contains("clients        worst client 100.00 %, a tenth at most 100.00 %, of 2"), "{show}");
        let json: serde_json::Value = serde_json::from_str(&print("show digits", true).await).unwrap();
        assert_eq!((&json["job"]["file"]["name"], &json["rounds"][9]["number"]), (&"digits".into(), &12.into()));
    }
}
