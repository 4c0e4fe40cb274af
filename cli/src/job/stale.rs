//! `tributary job stale`: the clients whose updates are always behind.

use tributary_protocol::operator::StaleClient;

use super::args::JobArgs;
use super::find::find_job;
use crate::api::Api;
use crate::error::CliError;
use crate::format::{count, percent};
use crate::output::{self, Output};

const HEADER: [&str; 6] = ["client", "updates", "staleness", "largest", "weight lost", "id"];

pub(super) async fn run(args: &JobArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, args).await?;
    let clients = api.stale_clients(job.head.id).await?;
    output.object(&clients, || match clients.as_slice() {
        [] if job.file.round.mode.buffered().is_none() => {
            format!("{} is synchronous: no update of it can be stale", job.file.name)
        }
        [] => format!("no client of {} has sent a stale update", job.file.name),
        clients => output::table(&HEADER, clients.iter().map(row), output.width),
    })
}

fn row(client: &StaleClient) -> Vec<String> {
    vec![
        client.client_number.to_string(),
        count(client.updates),
        format!("{:.1}", client.staleness_mean),
        client.staleness_max.to_string(),
        percent(client.lost_weight / (client.examples.max(1)) as f64),
        client.client.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::ClientId;

    use super::*;

    #[test]
    fn a_row_has_the_share_of_the_weight_that_was_lost() {
        let client = StaleClient {
            client: ClientId::from_random([1; 16]),
            client_number: 7,
            updates: 12,
            staleness_mean: 4.25,
            staleness_max: 9,
            examples: 200,
            lost_weight: 100.0,
        };
        assert_eq!(row(&client)[..5], ["7", "12", "4.2", "9", "50.00 %"]);
    }
}
