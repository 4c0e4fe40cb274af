//! `tributary client list`.

use tributary_protocol::device::Attributes;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{Client, ClientOrder, Order};

use crate::api::{Api, collect};
use crate::error::CliError;
use crate::format::relative;
use crate::options::LimitArgs;
use crate::output::Output;
use crate::population::check_population;

pub(super) async fn run(
    population: &Name,
    order: (ClientOrder, Order),
    limit: LimitArgs,
    api: &Api,
    output: &Output,
) -> Result<(), CliError> {
    let fetch = async |page| api.clients(population, order, page).await;
    let clients = collect(limit.items_max(), fetch).await?;
    if clients.items.is_empty() {
        // An empty list may mean that the name is mistyped.
        check_population(population, api).await?;
    }
    let header = ["#", "id", "examples", "reported", "late", "failed", "standing", "seen", "sdk", "attributes"];
    output.list(&clients.items, &header, |client| {
        vec![
            client.number.to_string(),
            client.id.to_string(),
            client.examples.to_string(),
            client.reported.to_string(),
            client.expired.to_string(),
            client.failed.to_string(),
            client.standing.to_string(),
            seen(client, output.now_ms),
            sdk(client),
            attributes(&client.attributes),
        ]
    })?;
    output.note_if_cut(clients.is_cut);
    Ok(())
}

fn seen(client: &Client, now_ms: i64) -> String {
    if client.online { "online".into() } else { relative(client.last_seen_at_ms, now_ms) }
}

/// The kind of its SDK.
pub(super) fn sdk(client: &Client) -> String {
    client.sdk.as_ref().map_or_else(|| "-".to_owned(), Name::to_string)
}

pub(super) fn attributes(attributes: &Attributes) -> String {
    let pairs: Vec<String> = attributes.as_map().iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, output};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        limit: LimitArgs,
    }

    #[tokio::test]
    async fn an_empty_population_is_a_list_and_a_missing_one_is_not_found() {
        let api = Fake::default().start().await;
        let limit = Line::parse_from(["list"]).limit;
        let order = (ClientOrder::Number, Order::Desc);
        let list = async |name: &str| run(&name.parse().unwrap(), order, limit, &api, &output(true).0).await;
        assert!(list("demo").await.is_ok());
        let error = list("demos").await.expect_err("mistyped");
        assert_eq!(error.exit_code(), crate::error::exit::NOT_FOUND);
        assert!(error.hint().unwrap().starts_with("did you mean demo?"));
    }
}
