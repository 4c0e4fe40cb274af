//! `tributary population`, `tributary client list` and `tributary node list`: who could learn, and who coordinates.

use tributary_protocol::device::Attributes;
use tributary_protocol::id::Name;

use crate::api::{Api, collect};
use crate::args::{LimitArgs, PopulationCommand};
use crate::error::CliError;
use crate::format::{count, relative};
use crate::output::Output;

/// Runs one of the population commands.
///
/// # Errors
/// Those of the calls, and a standard output that is gone.
pub(crate) async fn run(command: PopulationCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        PopulationCommand::Create { name } => {
            let population = api.create_population(name).await?;
            output.object(&population, || {
                let name = &population.name;
                format!("made population {name}\nnext: `tributary token create --population {name}` for its apps")
            })
        }
        PopulationCommand::List { limit } => {
            let populations = collect(limit.items_max(), async |page| api.populations(page).await).await?;
            output.list(&populations.items, &["name", "clients", "created"], |population| {
                let created = relative(population.created_at_ms, output.now_ms);
                vec![population.name.to_string(), count(population.clients), created]
            })?;
            output.note_if_cut(populations.is_cut);
            Ok(())
        }
    }
}

/// `tributary client list`
///
/// # Errors
/// Those of the calls, and a standard output that is gone.
pub(crate) async fn list_clients(
    population: &Name,
    limit: LimitArgs,
    api: &Api,
    output: &Output,
) -> Result<(), CliError> {
    let clients = collect(limit.items_max(), async |page| api.clients(population, page).await).await?;
    let header = ["#", "id", "examples", "reported", "late", "failed", "seen", "attributes"];
    output.list(&clients.items, &header, |client| {
        vec![
            client.number.to_string(),
            client.id.to_string(),
            client.examples.to_string(),
            client.reported.to_string(),
            client.expired.to_string(),
            client.failed.to_string(),
            relative(client.last_seen_at_ms, output.now_ms),
            attributes(&client.attributes),
        ]
    })?;
    output.note_if_cut(clients.is_cut);
    Ok(())
}

/// `tributary node list`
///
/// # Errors
/// Those of the calls, and a standard output that is gone.
pub(crate) async fn list_nodes(limit: LimitArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let nodes = collect(limit.items_max(), async |page| api.nodes(page).await).await?;
    output.list(&nodes.items, &["name", "release", "started", "seen", "drives"], |node| {
        let jobs: Vec<String> = node.leases.iter().map(|lease| lease.job.to_string()).collect();
        let (started, seen) = (relative(node.started_at_ms, output.now_ms), relative(node.seen_at_ms, output.now_ms));
        vec![node.id.to_string(), node.version.clone(), started, seen, jobs.join(" ")]
    })?;
    output.note_if_cut(nodes.is_cut);
    Ok(())
}

fn attributes(attributes: &Attributes) -> String {
    let pairs: Vec<String> = attributes.as_map().iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}
