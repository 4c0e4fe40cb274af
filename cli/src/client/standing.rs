//! `tributary client quarantine`, `release` and `revoke`.

use tributary_protocol::id::ClientId;
use tributary_protocol::operator::ChangeStanding;

use crate::error::CliError;
use crate::options::GlobalArgs;
use crate::output::Output;

pub(super) async fn run(
    id: ClientId,
    change: ChangeStanding,
    global: &GlobalArgs,
    output: &Output,
) -> Result<(), CliError> {
    let client = global.operator_api(output)?.change_standing(id, &change).await?;
    output.object(&client, || format!("{id} is {}", client.standing))
}
