//! The sums of relays, as bodies: what such a body must be, and how it becomes part of its round's sum.

use tributary_engine::job::JobSpec;
use tributary_protocol::sum::{Expected, IntegerSink, SumDecoder, tag};

use super::sums::Flight;

/// Reads the sum of at most so many updates on this base version. The caps of the spec are those of the round.
pub(crate) fn decoder(spec: &JobSpec, base_version: u32, updates_max: u32) -> SumDecoder {
    let binary_point = spec.caps.binary_point().expect("caps were checked with the job");
    SumDecoder::new(Expected {
        tag: tag(&spec.id, base_version, binary_point),
        values: u32::try_from(spec.update.total()).unwrap_or(u32::MAX),
        caps: spec.caps,
        binary_point,
        updates_max,
    })
}

impl IntegerSink for Flight {
    fn integers(&mut self, first: usize, values: &[i64]) {
        self.add_integers(first, values);
    }
}
