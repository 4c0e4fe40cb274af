//! How operators file a job: its name, tags, notes, and whether it is archived.

use serde::{Deserialize, Serialize};

use crate::id::Name;

/// Most tags of a job.
pub const TAGS_MAX: usize = 20;
/// Longest notes of a job, in bytes.
pub const NOTES_BYTES_MAX: usize = 4_000;

/// Request that changes how a job is filed. Absent members stay as they are. No round depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeJob {
    /// The new name, unique in the population.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// All tags, at most 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<Name>>,
    /// Notes for people, at most 4,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Whether lists leave the job out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

impl ChangeJob {
    /// The tags in order, each once.
    pub fn ordered_tags(&self) -> Option<Vec<Name>> {
        self.tags.clone().map(|mut tags| {
            tags.sort_unstable();
            tags.dedup();
            tags
        })
    }
}
