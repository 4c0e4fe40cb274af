//! `tributary client list`.

use tributary_protocol::device::Attributes;
use tributary_protocol::id::Name;

use crate::api::{Api, collect};
use crate::error::CliError;
use crate::format::relative;
use crate::options::LimitArgs;
use crate::output::Output;

pub(super) async fn run(population: &Name, limit: LimitArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let clients = collect(limit.items_max(), async |page| api.clients(population, page).await).await?;
    let header = ["#", "id", "examples", "reported", "late", "failed", "standing", "seen", "attributes"];
    output.list(&clients.items, &header, |client| {
        vec![
            client.number.to_string(),
            client.id.to_string(),
            client.examples.to_string(),
            client.reported.to_string(),
            client.expired.to_string(),
            client.failed.to_string(),
            client.standing.to_string(),
            relative(client.last_seen_at_ms, output.now_ms),
            attributes(&client.attributes),
        ]
    })?;
    output.note_if_cut(clients.is_cut);
    Ok(())
}

fn attributes(attributes: &Attributes) -> String {
    let pairs: Vec<String> = attributes.as_map().iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}
