//! `tributary node`: the coordinators that share a database.

use clap::Subcommand;

use crate::api::{Api, collect};
use crate::error::CliError;
use crate::format::relative;
use crate::options::LimitArgs;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Lists the coordinators, whether each lives, and the jobs that it drives. A dead one stays in the list for a day.
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
    output.list(&nodes.items, &["name", "state", "release", "started", "seen", "drives"], |node| {
        let jobs: Vec<String> = node.leases.iter().map(|lease| lease.job.to_string()).collect();
        let (started, seen) = (relative(node.started_at_ms, output.now_ms), relative(node.seen_at_ms, output.now_ms));
        vec![node.id.to_string(), node.state.to_string(), node.version.clone(), started, seen, jobs.join(" ")]
    })?;
    output.note_if_cut(nodes.is_cut);
    Ok(())
}
