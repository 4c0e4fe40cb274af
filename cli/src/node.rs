//! `tributary node`: the coordinators that share a database.

use std::collections::BTreeMap;

use clap::Subcommand;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Node;

use crate::api::{Api, collect};
use crate::error::CliError;
use crate::format::relative;
use crate::options::LimitArgs;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists the coordinators, whether each lives, the jobs that it drives, and the shards of sums that it adds up. A
    /// dead one stays in the list for a day.
    List {
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Checks that the coordinator can serve, for health checks of containers. Needs no token.
    Ready,
}

pub(crate) async fn run(command: NodeCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    let limit = match command {
        NodeCommand::List { limit } => limit,
        NodeCommand::Ready => return Ok(api.ready().await?),
    };
    let nodes = collect(limit.items_max(), async |page| api.nodes(page).await).await?;
    // Names, as on the page of the system; the objects of --json have the ids.
    let names: BTreeMap<JobId, String> = match output.json || nodes.items.iter().all(is_idle) {
        true => BTreeMap::new(),
        false => {
            let jobs = collect(None, async |page| api.jobs(None, page).await).await?.items;
            jobs.into_iter().map(|job| (job.head.id, job.file.name.to_string())).collect()
        }
    };
    let name_of = |job: JobId| names.get(&job).cloned().unwrap_or_else(|| job.to_string());
    output.list(&nodes.items, &["name", "state", "release", "started", "seen", "drives", "shards"], |node| {
        let jobs: Vec<String> = node.leases.iter().map(|lease| name_of(lease.job)).collect();
        let shards = node.shards.chunk_by(|one, other| one.job == other.job);
        let shards: Vec<_> = shards.map(|run| format!("{} of {}", run.len(), name_of(run[0].job))).collect();
        let (started, seen) = (relative(node.started_at_ms, output.now_ms), relative(node.seen_at_ms, output.now_ms));
        vec![
            node.id.to_string(),
            node.state.to_string(),
            node.version.clone(),
            started,
            seen,
            jobs.join(" "),
            shards.join(", "),
        ]
    })?;
    output.note_if_cut(nodes.is_cut);
    Ok(())
}

fn is_idle(node: &Node) -> bool {
    node.leases.is_empty() && node.shards.is_empty()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::testing::{Fake, job, output};

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: NodeCommand,
    }

    #[tokio::test]
    async fn a_coordinator_is_listed_with_the_names_of_its_jobs_and_their_ids_in_json() {
        let jobs = vec![job(1, "demo", "digits"), job(2, "demo", "text")];
        let id = jobs[0].head.id.to_string();
        let api = Fake { jobs, ..Fake::default() }.start().await;
        let list = async |json| {
            let (output, printed) = output(json);
            run(Line::parse_from(["node", "list"]).command, &api, &output).await.unwrap();
            printed.lock().unwrap().clone()
        };
        let text = list(false).await;
        assert!(text.contains("digits text") && !text.contains(&id), "{text}");
        assert!(list(true).await.contains(&id));
    }
}
