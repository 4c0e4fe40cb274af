//! An update that is checked and added to its round's sum block by block while its bytes arrive. If it is refused, the
//! same bytes are decoded again and subtracted.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tributary_engine::job::JobSpec;
use tributary_protocol::fixed::Contribution;
use tributary_protocol::secure::packed::Unpacker;
use tributary_protocol::sum::SumError;
use tributary_protocol::update::{DeltaSink, UpdateError, UpdateLimits};

use super::decoding::Decoding;
use super::partial::SumFolding;
use super::sums::Flight;
use crate::blob::{BlobError, Reader, Replay};
use crate::metrics::Metrics;
use crate::runtime::offload::Cores;
use crate::services::Services;

/// The decoder of an update in flight, with the sum that it adds to.
#[derive(Debug)]
pub(crate) enum Folding {
    Update(Box<UpdateFolding>),
    /// Nobody can read the update: only its form is checked.
    Masked(Unpacker),
    /// The sum of a relay.
    Sum(Box<SumFolding>, Arc<Metrics>),
}

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldingError {
    #[error(transparent)]
    Update(#[from] UpdateError),
    #[error(transparent)]
    Sum(#[from] SumError),
}

/// What the check of a whole body came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// L2 norm of an update that can be read.
    pub(crate) norm: Option<f64>,
    /// Of a sum: its updates and their weight.
    pub(crate) sum: Option<Contribution>,
}

/// The decoder of an update that can be read.
#[derive(Debug)]
pub(crate) struct UpdateFolding {
    spec: Arc<JobSpec>,
    base_version: u32,
    decoding: Decoding<Add>,
    metrics: Arc<Metrics>,
    cores: Cores,
}

impl Folding {
    /// Without a flight the values are only checked.
    pub(crate) fn new(
        spec: &Arc<JobSpec>,
        base_version: u32,
        limits: UpdateLimits,
        flight: Option<Flight>,
        services: &Services,
    ) -> Self {
        let sink = Add { flight, values: 0 };
        Self::Update(Box::new(UpdateFolding {
            spec: Arc::clone(spec),
            base_version,
            decoding: Decoding::new(spec, base_version, limits, &services.cores, sink),
            metrics: Arc::clone(&services.metrics),
            cores: services.cores.clone(),
        }))
    }

    /// Decodes the next bytes and adds the values that they complete. After an error call [`Self::undo`].
    pub(crate) async fn push(&mut self, piece: &Bytes) -> Result<(), FoldingError> {
        match self {
            Self::Update(update) => Ok(update.decoding.push(piece).await?),
            Self::Masked(reader) => Ok(reader.read(piece, |_| ()).map_err(UpdateError::from)?),
            Self::Sum(sum, _) => Ok(sum.push(piece)?),
        }
    }

    /// Checks that the update is complete. If it is not, call [`Self::undo`].
    pub(crate) fn finish(&mut self) -> Result<Measured, FoldingError> {
        match self {
            Self::Update(update) => {
                let norm = Some(update.decoding.finish()?.norm);
                Ok(Measured { norm, sum: None })
            }
            Self::Masked(reader) => {
                Ok(reader.clone().finish().map(|_| Measured::default()).map_err(UpdateError::from)?)
            }
            Self::Sum(sum, _) => Ok(Measured { norm: None, sum: Some(sum.finish()?) }),
        }
    }

    /// Counts the update: it is acknowledged.
    pub(crate) fn land(self) {
        let update = match self {
            Self::Update(update) => update,
            Self::Masked(_) => return,
            Self::Sum(sum, metrics) => return sum.land(&metrics),
        };
        let (Add { flight, .. }, seconds) = update.decoding.into_sink();
        if let Some(flight) = flight {
            flight.land();
            update.metrics.folded(seconds);
        }
    }

    /// Subtracts what was added, by decoding the same bytes again: the sum is then as if the update had never arrived.
    /// If the bytes cannot be read, the sum becomes invalid and is rebuilt from the stored updates.
    pub(crate) async fn undo(self, replay: Result<Replay<'_>, BlobError>) {
        let update = match self {
            Self::Update(update) => update,
            Self::Masked(_) => return,
            Self::Sum(sum, _) => return sum.undo(replay).await,
        };
        let UpdateFolding { spec, base_version, decoding, cores, .. } = *update;
        let progress = decoding.progress();
        let (Add { flight: Some(flight), values: added }, _) = decoding.into_sink() else { return };
        if added == 0 {
            return flight.leave();
        }
        let mut taking = Decoding::new(&spec, base_version, spec.update_limits(), &cores, Take { flight, values: 0 });
        let taken = match replay {
            // The piece with the error must be cut as before: how many values before the error are emitted depends on
            // the cut.
            Ok(replay) => take_out(&mut taking, replay, progress.good_bytes, progress.bad_bytes).await,
            Err(error) => Err(error),
        };
        let (Take { flight, values }, _) = taking.into_sink();
        match taken {
            Ok(()) if values == added => flight.leave(),
            // The sum is invalid from the drop of the flight on.
            Ok(()) => {
                tracing::error!(
                    added,
                    values,
                    "an update could not be subtracted from its sum; the sum will be rebuilt"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "an update could not be subtracted from its sum; the sum will be rebuilt");
            }
        }
    }
}

/// Subtracts a stored part from its sum. If it cannot be read, the sum becomes invalid.
pub(super) async fn take_stored(
    services: &Services,
    spec: &Arc<JobSpec>,
    base_version: u32,
    flight: Flight,
    mut body: Reader<'_>,
) {
    let sink = Take { flight, values: 0 };
    let mut taking = Decoding::new(spec, base_version, spec.update_limits(), &services.cores, sink);
    loop {
        match body.next().await {
            Ok(Some(data)) => {
                if let Err(error) = taking.push(&data).await {
                    return tracing::error!(%error, "a stored part could not be subtracted; its sum will be rebuilt");
                }
            }
            Ok(None) => break,
            Err(error) => {
                return tracing::warn!(%error, "a stored part could not be subtracted; its sum will be rebuilt");
            }
        }
    }
    if taking.finish().is_ok() {
        taking.into_sink().0.flight.leave();
    }
}

/// Decodes the good bytes, which may be cut differently than before, and then the bad piece in one.
async fn take_out(
    taking: &mut Decoding<Take>,
    mut replay: Replay<'_>,
    mut good_bytes: u64,
    bad_bytes: u64,
) -> Result<(), BlobError> {
    let mut bad = BytesMut::new();
    while let Some(mut data) = replay.next().await? {
        let good = data.split_to(data.len().min(usize::try_from(good_bytes).unwrap_or(usize::MAX)));
        good_bytes -= good.len() as u64;
        if taking.push(&good).await.is_err() {
            return Ok(());
        }
        let missing = usize::try_from(bad_bytes).unwrap_or(usize::MAX) - bad.len();
        bad.extend_from_slice(&data[..data.len().min(missing)]);
    }
    taking.push_failing(bad.freeze()).await;
    Ok(())
}

/// Adds decoded values to a sum, if there is one.
#[derive(Debug)]
struct Add {
    flight: Option<Flight>,
    /// Number of values that were added.
    values: u64,
}

impl DeltaSink for Add {
    fn dense(&mut self, first: usize, values: &[f32]) {
        if let Some(flight) = &mut self.flight {
            flight.dense(first, values);
            self.values += values.len() as u64;
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        if let Some(flight) = &mut self.flight {
            flight.sparse(first, indices, values);
            self.values += values.len() as u64;
        }
    }
}

/// Subtracts decoded values from a sum.
#[derive(Debug)]
struct Take {
    flight: Flight,
    values: u64,
}

impl DeltaSink for Take {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.flight.take(first, values);
        self.values += values.len() as u64;
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.flight.take_sparse(first, indices, values);
        self.values += values.len() as u64;
    }
}
