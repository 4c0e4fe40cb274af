//! Updates by the codec of their job.
//!
//! A transition of an assignment names its job, not its codec: whoever makes a job ready for use says what it is.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use ::metrics::Counter;
use serde::Serialize;
use serde_json::Value;
use tributary_protocol::id::JobId;

use super::registry::Registry;
use super::table;
use crate::runtime::lock::SharedLock;

/// Counters by job; jobs of the same codec share theirs.
#[derive(Debug, Default)]
pub(super) struct Codecs {
    jobs: RwLock<HashMap<JobId, Arc<OfCodec>>>,
}

/// The counters of a codec.
#[derive(Debug)]
pub(super) struct OfCodec {
    pub(super) reported: Counter,
    pub(super) rejected: Counter,
}

impl Codecs {
    /// A job is ready for use.
    pub(super) fn learned(&self, registry: &Registry, job: JobId, codec: &impl Serialize) {
        let codec = word(codec);
        let counter = |outcome| registry.counter(&table::UPDATES, &[&codec, outcome]);
        let counters = Arc::new(OfCodec { reported: counter("reported"), rejected: counter("rejected") });
        self.jobs.writing().insert(job, counters);
    }

    /// A job has ended.
    pub(super) fn forgotten(&self, job: JobId) {
        self.jobs.writing().remove(&job);
    }

    /// The counters of a job's codec; none when no one has used the job here.
    pub(super) fn of(&self, job: JobId) -> Option<Arc<OfCodec>> {
        self.jobs.reading().get(&job).cloned()
    }
}

/// A codec's name without its settings, as job files have it: a word, or a table with a `name`.
fn word(codec: &impl Serialize) -> String {
    let written = serde_json::to_value(codec).unwrap_or_default();
    let name = match &written {
        Value::Object(table) => table.get("name"),
        word => Some(word),
    };
    name.and_then(Value::as_str).unwrap_or("other").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_codec_is_counted_under_its_name_whatever_its_settings() {
        assert_eq!(word(&tributary_protocol::update::Codec::F32), "f32");
        assert_eq!(word(&json!({ "name": "qsgd", "levels": 4 })), "qsgd");
        assert_eq!(word(&json!(7)), "other");
    }
}
