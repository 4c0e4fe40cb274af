//! An update that is checked and added to its round's sum block by block while its bytes arrive. If it is refused, the
//! same bytes are decoded again and subtracted.

use std::sync::Arc;

use tributary_protocol::update::{DeltaSink, UpdateDecoder, UpdateError, UpdateStatistics};

use crate::blob::{BlobError, Replay};
use crate::metrics::Metrics;
use crate::runtime::clock::Stopwatch;
use crate::updates::sums::Flight;
use tributary_engine::job::JobSpec;

/// The decoder of an update in flight, with the sum that it adds to.
#[derive(Debug)]
pub(crate) struct Folding {
    spec: Arc<JobSpec>,
    base_version: u32,
    decoder: UpdateDecoder,
    /// Where its values are added; without one they are only checked.
    flight: Option<Flight>,
    /// Number of values that were added.
    values: u64,
    /// Bytes that were decoded without an error.
    good_bytes: u64,
    /// Length of the piece that held the error. Values before the error may have been added.
    bad_bytes: u64,
    metrics: Arc<Metrics>,
    /// Time that the work took so far.
    seconds: f64,
}

impl Folding {
    pub(crate) fn new(spec: &Arc<JobSpec>, base_version: u32, flight: Option<Flight>, metrics: &Arc<Metrics>) -> Self {
        Self {
            spec: Arc::clone(spec),
            base_version,
            decoder: decoder(spec, base_version),
            flight,
            values: 0,
            good_bytes: 0,
            bad_bytes: 0,
            metrics: Arc::clone(metrics),
            seconds: 0.0,
        }
    }

    /// Decodes the next bytes and adds the values that they complete. After an error call [`Self::undo`].
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), UpdateError> {
        let mut add = Add { flight: self.flight.as_mut(), values: &mut self.values };
        let stopwatch = Stopwatch::start();
        let pushed = self.decoder.push(piece, &mut add);
        self.seconds += stopwatch.seconds();
        match pushed {
            Ok(()) => {
                self.good_bytes += piece.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.bad_bytes = piece.len() as u64;
                Err(error)
            }
        }
    }

    /// Checks that the update is complete. If it is not, call [`Self::undo`].
    pub(crate) fn finish(&mut self) -> Result<UpdateStatistics, UpdateError> {
        std::mem::replace(&mut self.decoder, decoder(&self.spec, self.base_version)).finish()
    }

    /// Counts the update: it is acknowledged.
    pub(crate) fn land(self) {
        if let Some(flight) = self.flight {
            flight.land();
            self.metrics.folded(self.seconds);
        }
    }

    /// Subtracts what was added, by decoding the same bytes again: the sum is then as if the update had never arrived.
    /// If the bytes cannot be read, the sum becomes invalid and is rebuilt from the stored updates.
    pub(crate) async fn undo(self, replay: Result<Replay<'_>, BlobError>) {
        let Some(flight) = &self.flight else { return };
        if self.values > 0 {
            let taken = match replay {
                Ok(replay) => self.take_out(flight, replay).await,
                Err(error) => Err(error),
            };
            match taken {
                Ok(values) if values == self.values => {}
                Ok(values) => {
                    let added = self.values;
                    tracing::error!(
                        added,
                        values,
                        "an update could not be subtracted from its sum; the sum will be rebuilt"
                    );
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "an update could not be subtracted from its sum; the sum will be rebuilt");
                    return;
                }
            }
        }
        if let Some(flight) = self.flight {
            flight.leave();
        }
    }

    /// Returns how many values were subtracted.
    async fn take_out(&self, flight: &Flight, mut replay: Replay<'_>) -> Result<u64, BlobError> {
        let mut decoder = decoder(&self.spec, self.base_version);
        let mut take = Take { flight, values: 0 };
        // Good bytes may be cut differently. The piece with the error must be decoded as one piece again: how many
        // values before the error are emitted depends on the cut.
        let (mut good, mut bad) = (self.good_bytes, Vec::new());
        while let Some(data) = replay.next().await? {
            let (now, rest) = data.split_at(data.len().min(usize::try_from(good).unwrap_or(usize::MAX)));
            good -= now.len() as u64;
            if decoder.push(now, &mut take).is_err() {
                break;
            }
            let missing = usize::try_from(self.bad_bytes).unwrap_or(usize::MAX) - bad.len();
            bad.extend_from_slice(&rest[..rest.len().min(missing)]);
        }
        // Fails as it did the first time.
        let _ = decoder.push(&bad, &mut take);
        Ok(take.values)
    }
}

/// Adds decoded values to a sum, if there is one.
struct Add<'a> {
    flight: Option<&'a mut Flight>,
    values: &'a mut u64,
}

impl DeltaSink for Add<'_> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        if let Some(flight) = &mut self.flight {
            flight.dense(first, values);
            *self.values += values.len() as u64;
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        if let Some(flight) = &mut self.flight {
            flight.sparse(first, indices, values);
            *self.values += values.len() as u64;
        }
    }
}

/// Subtracts decoded values from a sum.
struct Take<'a> {
    flight: &'a Flight,
    values: u64,
}

impl DeltaSink for Take<'_> {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.flight.take(first, values);
        self.values += values.len() as u64;
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.flight.take_sparse(first, indices, values);
        self.values += values.len() as u64;
    }
}

pub(super) fn decoder(spec: &JobSpec, base_version: u32) -> UpdateDecoder {
    UpdateDecoder::new(Arc::clone(&spec.update), spec.update_header(base_version), spec.update_limits())
}
