//! `tributary client released`: the released model of a channel, as an app would get it.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tributary_client::{AlwaysOn, Freshness};
use tributary_protocol::id::Name;
use tributary_protocol::safetensors::model_to_bytes;

use super::connect::of_folder;
use crate::error::CliError;
use crate::files;
use crate::options::GlobalArgs;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ReleasedArgs {
    /// The channel, such as `stable`.
    #[arg(value_name = "CHANNEL")]
    channel: Name,
    /// The client's folder, as in `client run`. A client that is new is enrolled.
    #[arg(long, env = "TRIBUTARY_STATE_DIR", value_name = "FOLDER")]
    state_dir: PathBuf,
    /// Writes the model here, for `tributary predict`.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Takes the model that is here, without asking the coordinator.
    #[arg(long)]
    local: bool,
}

pub(super) async fn run(args: &ReleasedArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let client = of_folder(&args.state_dir, global, output)?;
    let freshness = if args.local { Freshness::Local } else { Freshness::Latest };
    let channel = args.channel.as_str();
    let Some(released) = client.released(channel, freshness, &AlwaysOn).await? else {
        return Err(CliError::BadSetting(format!("the channel {channel} has no release for this client")));
    };
    if let Some(path) = &args.output {
        let file = model_to_bytes(&released.model, &released.card.metadata());
        files::replace(path, &file).map_err(CliError::file("write", path))?;
    }
    let (number, job, version) = (released.number, &released.card.job, released.card.version);
    let object = json!({ "channel": channel, "number": number, "job": job, "version": version });
    output.object(&object, || {
        let written = args.output.as_ref().map(|path| format!(", written to {}", path.display())).unwrap_or_default();
        format!("release {number} of {channel}: version {version} of {job}{written}")
    })
}
