//! `tributary client leave` and `tributary client erase`: the end of what is stored of a client.

use std::path::Path;

use serde_json::json;
use tributary_client::{ClientError, FileStore, Store};
use tributary_protocol::id::ClientId;

use super::connect::of_folder;
use crate::api::Api;
use crate::error::CliError;
use crate::options::GlobalArgs;
use crate::output::Output;

/// Leaves, as the client of a folder.
pub(super) async fn leave(state_dir: &Path, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let client = of_folder(state_dir, global, output)?;
    let names = FileStore::new(state_dir).names().map_err(ClientError::from)?;
    if names.is_empty() {
        return Err(CliError::BadSetting(format!("there is no client in {}", state_dir.display())));
    }
    let is_told = client.leave().await?;
    output.object(&json!({ "left": true, "coordinator_knows": is_told }), || {
        let folder = state_dir.display();
        match is_told {
            true => format!("the client of {folder} has left: nothing is stored of it, here or on the coordinator"),
            false => format!("{folder} is empty, but the coordinator does not answer: repeat this when it does"),
        }
    })
}

/// Has the coordinator delete a client.
pub(super) async fn erase(id: ClientId, api: &Api, output: &Output) -> Result<(), CliError> {
    api.erase_client(id).await?;
    output.object(&json!({ "erased": id }), || format!("erased {id}: sums that it is part of stay"))
}
