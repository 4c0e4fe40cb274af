//! Clients that talk to the coordinator without a session.

use std::path::Path;
use std::sync::Arc;

use tributary_client::{Builder, Client, ClientError, FileStore, MemoryStore, Settings, Store, Trust};

use crate::error::CliError;
use crate::http;
use crate::options::{GlobalArgs, ServerUrl, enrolling};
use crate::output::Output;

/// The client of a folder.
pub(super) fn of_folder(state_dir: &Path, global: &GlobalArgs, output: &Output) -> Result<Client, CliError> {
    let (token, trust) = enrolling(global.token.as_ref(), global.ca.as_deref())?;
    let server = global.server.clone().unwrap_or_default();
    server.warn_if_exposed(output);
    built(&server, &trust, token.expose().as_str(), Arc::new(FileStore::new(state_dir)))
}

/// A client that asks and never enrols.
pub(super) fn asking(server: &ServerUrl, trust: &Trust, token: &str) -> Result<Client, CliError> {
    built(server, trust, token, Arc::new(MemoryStore::default()))
}

fn built(server: &ServerUrl, trust: &Trust, token: &str, store: Arc<dyn Store>) -> Result<Client, CliError> {
    let mut settings = Settings::new(server.url().as_str(), token);
    settings.allow_plaintext = true;
    let transport = http::transport(server.url(), trust).map_err(|error| ClientError::Setup(error.to_string()))?;
    Ok(Builder::from(settings).transport(Arc::new(transport)).store(store).build()?)
}
