//! `tributary client quarantine`, `release` and `revoke`.

use tributary_protocol::id::ClientId;
use tributary_protocol::operator::ChangeStanding;

use crate::api::Api;
use crate::error::CliError;
use crate::output::Output;

pub(super) async fn run(id: ClientId, change: ChangeStanding, api: &Api, output: &Output) -> Result<(), CliError> {
    let client = api.change_standing(id, &change).await?;
    output.object(&client, || format!("{id} is {}", client.standing))
}
