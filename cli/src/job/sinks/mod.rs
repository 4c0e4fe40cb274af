//! `tributary job export --metrics|--mlflow|--tensorboard`: the metrics of a job's rounds, for other tools.
//!
//! Each sink keeps track of what it has, so that a job can be exported again, or followed while it runs.

mod curve;
mod mlflow;
mod table;
mod tensorboard;

use serde_json::json;
use tributary_protocol::operator::Job;
use tributary_protocol::state::Task;

use crate::api::Api;
use crate::error::CliError;
use crate::job::args::MetricsSinks;
use crate::job::watch::{Follower, News, retry_delay};
use crate::output::Output;

use mlflow::Mlflow;
use table::Table;
use tensorboard::EventFile;

enum Sink {
    Table(Table),
    Mlflow(Box<Mlflow>),
    TensorBoard(EventFile),
}

impl Sink {
    /// Writes the news. After an error it is called again with the same news.
    async fn take(&mut self, news: &News) -> Result<(), CliError> {
        match self {
            Self::Table(table) => table.take(news),
            Self::Mlflow(run) => run.take(news).await,
            Self::TensorBoard(file) => file.take(news),
        }
    }

    fn place(&self) -> String {
        match self {
            Self::Table(table) => table.path().display().to_string(),
            Self::Mlflow(run) => run.place(),
            Self::TensorBoard(file) => file.path().display().to_string(),
        }
    }
}

/// Exports the metrics of all ended rounds; with `--follow` also of those that end until the job does.
pub(crate) async fn run(job: &Job, wanted: &MetricsSinks, api: &Api, output: &Output) -> Result<(), CliError> {
    let mut sinks = open(job, wanted).await?;
    let mut follower = Follower::from_the_first(api, job.head.id);
    let (mut rounds, mut evaluations) = (0, 0);
    let mut failures = 0;
    let mut waiting: Option<(News, usize)> = None;
    loop {
        match step(&mut follower, &mut sinks, &mut waiting).await {
            Ok(news) => {
                failures = 0;
                let trained = news.ended.iter().filter(|round| round.task == Task::Train).count();
                rounds += trained;
                evaluations += news.ended.len() - trained;
                if !wanted.follow || news.job.head.state.is_final() {
                    break;
                }
            }
            Err(error) => {
                let delay = retry_delay(&error, failures).filter(|_| wanted.follow);
                let Some(delay) = delay else { return Err(error) };
                output.note(&format!("{error}; trying again in {} s", delay.as_secs()));
                failures += 1;
                tokio::time::sleep(delay).await;
            }
        }
    }
    let places: Vec<String> = sinks.iter().map(Sink::place).collect();
    let exported = json!({ "job": job.head.id, "rounds": rounds, "evaluations": evaluations, "to": places });
    output.object(&exported, || {
        format!("exported {rounds} rounds, {evaluations} of them evaluated, to {}", places.join(", "))
    })
}

/// Passes the next news to every sink. When a sink fails, the news wait with the number of sinks that have written
/// them.
async fn step(
    follower: &mut Follower<'_>,
    sinks: &mut [Sink],
    waiting: &mut Option<(News, usize)>,
) -> Result<News, CliError> {
    let (news, taken) = match waiting.take() {
        Some(waiting) => waiting,
        None => (follower.next().await?, 0),
    };
    for (index, sink) in sinks.iter_mut().enumerate().skip(taken) {
        if let Err(error) = sink.take(&news).await {
            *waiting = Some((news, index));
            return Err(error);
        }
    }
    Ok(news)
}

async fn open(job: &Job, wanted: &MetricsSinks) -> Result<Vec<Sink>, CliError> {
    let mut sinks = Vec::new();
    if let Some(path) = &wanted.metrics {
        sinks.push(Sink::Table(Table::new(path)?));
    }
    if let Some(folder) = &wanted.tensorboard {
        sinks.push(Sink::TensorBoard(EventFile::create(folder, job)?));
    }
    if let Some(server) = &wanted.mlflow {
        let run = Mlflow::open(server.url(), wanted.mlflow_token.as_ref(), &wanted.experiment, job).await?;
        sinks.push(Sink::Mlflow(Box::new(run)));
    }
    Ok(sinks)
}
