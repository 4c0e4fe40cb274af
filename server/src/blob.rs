//! Keys and whole bodies of models and updates. The keys are paths, so that an object store can hold them as they are.

use tributary_protocol::id::{AssignmentId, JobId};

use crate::db::{Db, DbError};

/// Where the body of a model version is.
#[must_use]
pub fn model_key(job: JobId, version: u32) -> String {
    format!("model/{job}/{version}")
}

/// Where the body of an update is.
#[must_use]
pub fn update_key(assignment: AssignmentId) -> String {
    format!("update/{assignment}")
}

/// Reads a whole body, part by part. An empty body reads as a missing one.
///
/// # Errors
/// [`DbError::Corrupt`] when there is none.
pub async fn read_blob(db: &Db, key: &str) -> Result<Vec<u8>, DbError> {
    let mut tx = db.read().await?;
    let mut body = Vec::new();
    for part in 0.. {
        match tx.blob_part(key, part).await? {
            Some(data) => body.extend_from_slice(&data),
            None => break,
        }
    }
    if body.is_empty() { Err(DbError::Corrupt(format!("the body of {key} is missing"))) } else { Ok(body) }
}
