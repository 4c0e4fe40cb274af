//! The test set on which the coordinator evaluates the models of a job.

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;

/// A test set that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestSet {
    /// SHA-256 of the file.
    pub sha256: Sha256Hash,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of examples.
    pub examples: u64,
    /// Time of the upload.
    pub uploaded_at_ms: i64,
}

/// The test set of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestSetState {
    /// Absent until one is uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_set: Option<TestSet>,
}
