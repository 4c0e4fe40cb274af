//! The sums of relays, as bodies: what such a body must be, and how it becomes part of its round's sum.
//!
//! Its header says how many updates it stands for, so from there on a large one is added while it arrives, as an update
//! is. If it is refused, the same bytes are decoded again and subtracted.

use bytes::Bytes;
use tributary_engine::job::JobSpec;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::sum::{Expected, HEADER_BYTES, IntegerSink, SumDecoder, SumError, tag};

use super::sums::{Flight, SharedSum};
use crate::blob::{BlobError, Replay};
use crate::metrics::Metrics;
use crate::runtime::clock::Stopwatch;

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

/// Where a body is added that is on its way.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) sum: SharedSum,
    pub(crate) assignment: AssignmentId,
    /// Of its updates together, as its sender announced it.
    pub(crate) weight: Weight,
}

/// The sum of a relay while it arrives.
#[derive(Debug)]
pub(crate) struct SumFolding {
    decoder: SumDecoder,
    /// As it was before the first byte.
    fresh: SumDecoder,
    /// Bytes of the header that have not come.
    header_left: usize,
    /// None once the header has come, and where the body is only checked.
    place: Option<Place>,
    adding: Adding,
    seconds: f64,
}

impl SumFolding {
    /// Without a place the values are only checked.
    pub(crate) fn new(decoder: SumDecoder, place: Option<Place>) -> Self {
        let (fresh, adding) = (decoder.clone(), Adding { flight: None, values: 0 });
        Self { decoder, fresh, header_left: HEADER_BYTES, place, adding, seconds: 0.0 }
    }

    /// Decodes the next bytes and adds the values that they complete. After an error call [`Self::undo`].
    pub(super) fn push(&mut self, piece: &Bytes) -> Result<(), SumError> {
        let stopwatch = Stopwatch::start();
        let (header, blocks) = piece.split_at(piece.len().min(self.header_left));
        self.header_left -= header.len();
        self.decoder.read(header, &mut self.adding)?;
        if let Some(Contribution { updates, .. }) = self.decoder.contribution()
            && let Some(Place { sum, assignment, weight }) = self.place.take()
        {
            // Where there is no place for it, the check of its figures, or the commit of the round, says why.
            let begun = sum.begin(assignment, Contribution { weight, updates }, 0);
            self.adding.flight = begun.ok().flatten().map(Flight::of_sum);
        }
        let read = self.decoder.read(blocks, &mut self.adding);
        self.seconds += stopwatch.seconds();
        read
    }

    /// Checks that the sum is complete. If it is not, call [`Self::undo`].
    pub(super) fn finish(&self) -> Result<Contribution, SumError> {
        self.decoder.finish()
    }

    /// Counts its updates: it is acknowledged.
    pub(super) fn land(self, metrics: &Metrics) {
        if let Some(flight) = self.adding.flight {
            flight.land();
            metrics.folded(self.seconds);
        }
    }

    /// Subtracts what was added, by decoding the same bytes again. If they cannot be read, the sum of the round becomes
    /// invalid and is rebuilt from the stored updates.
    pub(super) async fn undo(self, replay: Result<Replay<'_>, BlobError>) {
        let Adding { flight: Some(flight), values } = self.adding else { return };
        if values == 0 {
            return flight.leave();
        }
        let mut taking = Taking { flight, left: values };
        if let Err(error) = taking.take_out(self.fresh, replay).await {
            tracing::warn!(%error, "a sum could not be subtracted again");
        }
        match taking.left {
            0 => taking.flight.leave(),
            // The sum of the round is invalid from the drop of the flight on.
            left => tracing::error!(left, "a sum could not be subtracted from the round's; that will be rebuilt"),
        }
    }
}

/// Adds integers to a sum, if there is one.
#[derive(Debug)]
struct Adding {
    flight: Option<Flight>,
    /// Number of values that were added.
    values: usize,
}

impl IntegerSink for Adding {
    fn integers(&mut self, first: usize, values: &[i64]) {
        if let Some(flight) = &mut self.flight {
            flight.add_integers(first, values);
            self.values += values.len();
        }
    }
}

/// Subtracts the first integers of a body from a sum.
struct Taking {
    flight: Flight,
    left: usize,
}

impl Taking {
    async fn take_out(
        &mut self,
        mut decoder: SumDecoder,
        replay: Result<Replay<'_>, BlobError>,
    ) -> Result<(), BlobError> {
        let mut replay = replay?;
        while self.left > 0
            && let Some(data) = replay.next().await?
        {
            if decoder.read(&data, self).is_err() {
                break;
            }
            // Chunks that are in memory already would keep the thread otherwise.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

impl IntegerSink for Taking {
    fn integers(&mut self, first: usize, values: &[i64]) {
        let values = &values[..values.len().min(self.left)];
        self.flight.take_integers(first, values);
        self.left -= values.len();
    }
}

impl IntegerSink for Flight {
    fn integers(&mut self, first: usize, values: &[i64]) {
        self.add_integers(first, values);
    }
}
