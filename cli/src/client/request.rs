//! `tributary client request`: a request for a certificate of a client's key.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tributary_client::{FileStore, StoredKey, certificate_request};

use crate::error::CliError;
use crate::output::Output;

pub(super) fn run(state_dir: &Path, output: &Output) -> Result<(), CliError> {
    let keys = StoredKey::new(Arc::new(FileStore::new(state_dir)));
    let request = certificate_request(&keys).map_err(|error| CliError::BadSetting(error.to_string()))?;
    output.object(&json!({ "certificate_request": request }), || request.trim_end().to_owned())
}
