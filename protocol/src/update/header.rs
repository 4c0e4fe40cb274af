//! The `__metadata__` of an update.

use std::collections::BTreeMap;

use super::codec::Codec;
use super::format::FORMAT;

/// The metadata of an update: written by the client, expected by the server.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateHeader {
    /// The codec of the delta, with its settings.
    pub codec: Codec,
    /// The job's id.
    pub job: String,
    /// The model version that the delta is relative to.
    pub base_version: u64,
}

impl UpdateHeader {
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        let entry = |(key, value): (&str, String)| (key.to_owned(), value);
        [
            ("format", FORMAT.to_owned()),
            ("codec", self.codec.to_string()),
            ("job", self.job.clone()),
            ("base_version", self.base_version.to_string()),
        ]
        .into_iter()
        .map(entry)
        .collect()
    }
}
