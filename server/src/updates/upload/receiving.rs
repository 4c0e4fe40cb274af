//! What the reception of a body has: its memory, the sum of its round, and the reasons to stop.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::body::Stops;
use super::{Body, Stop, Target, Upload, UploadRefusal, Uploaded};
use crate::blob::Workbench;
use crate::updates::budget::{Need, Share};
use crate::updates::claims::Claim;
use crate::updates::fold::Folding;
use crate::updates::partial::{self, Place, SumFolding};
use crate::updates::sums::{Flight, SharedSum};

/// The reception of one body, from the moment when there is memory for it.
pub(super) struct Receiving<'a> {
    pub(super) upload: &'a Upload,
    pub(super) target: &'a Target,
    pub(super) bench: &'a Workbench,
    pub(super) share: Share<'a>,
    claim: &'a Claim,
    sum: Option<SharedSum>,
    /// Cancelled when the update's round closes. An update of a buffered job counts in the next round then, so nothing
    /// stops it.
    closing: Option<CancellationToken>,
}

impl Upload {
    /// Receives a body when there is memory for it: a small update as a whole, a large one chunk by chunk.
    pub(super) async fn receive_on(
        &self,
        bench: &Workbench,
        target: &Target,
        claim: &Claim,
        body: Body,
    ) -> Result<Uploaded, UploadRefusal> {
        let held_bytes = self.announced.held_bytes();
        let need = match held_bytes {
            Some(length) => Need::held(target.spec.file.population.clone(), length),
            None => self.need_streamed(target),
        };
        let receiving = match Receiving::begin(self, target, claim, bench, need).await {
            Ok(receiving) => receiving,
            Err(stop) => return self.stop(stop).await,
        };
        match held_bytes {
            Some(length) => receiving.held(body, length).await,
            None => receiving.streamed(body).await,
        }
    }
}

impl<'a> Receiving<'a> {
    /// Waits for memory.
    ///
    /// # Errors
    /// The reason to stop that came before there was memory.
    async fn begin(
        upload: &'a Upload,
        target: &'a Target,
        claim: &'a Claim,
        bench: &'a Workbench,
        need: Need,
    ) -> Result<Self, Stop> {
        let sum = upload.updates.sums.get(target.round.key(), target.spec.shard_number());
        let closing = sum.as_ref().filter(|_| !target.is_buffered()).map(|sum| sum.closing());
        let until_ms = target.until_ms();
        let stops =
            Stops { services: &upload.services, until_ms, closing: closing.as_ref(), claim: Some(claim), share: None };
        let share = tokio::select! {
            share = upload.updates.budget.acquire(need) => share,
            stop = stops.first() => return Err(stop),
        };
        Ok(Self { upload, target, bench, share, claim, sum, closing })
    }

    /// The reasons to stop reading.
    pub(super) fn stops(&self) -> Stops<'_> {
        Stops {
            services: &self.upload.services,
            until_ms: self.target.until_ms(),
            closing: self.closing.as_ref(),
            claim: Some(self.claim),
            share: Some(&self.share),
        }
    }

    /// What checks the body, and adds it to the sum of its round if it `adds` and there is a sum that takes it.
    pub(super) fn folding(&self, adds: bool) -> Folding {
        let Target { assignment, spec, group, .. } = self.target;
        match group {
            Some(group) => Folding::Masked(group.reader()),
            None if assignment.is_sum() => {
                let decoder = partial::decoder(spec, assignment.base_version, assignment.sum_updates_max());
                let place = if adds { self.place() } else { None };
                let metrics = Arc::clone(&self.upload.services.metrics);
                Folding::Sum(Box::new(SumFolding::new(decoder, place)), metrics)
            }
            None => {
                let flight = if adds { self.flight() } else { None };
                Folding::new(spec, assignment.base_version, self.target.limits(), flight, &self.upload.services)
            }
        }
    }

    /// Where the sum of a relay is added. How many updates it has is known with its header.
    fn place(&self) -> Option<Place> {
        let weight = self.upload.contribution(None).weight;
        Some(Place { sum: Arc::clone(self.sum.as_ref()?), assignment: self.upload.id, weight })
    }

    /// A place for the update in the sum of its round, if there is a sum that takes it.
    pub(super) fn flight(&self) -> Option<Flight> {
        let (upload, staleness) = (self.upload, self.target.staleness());
        // The weight was checked, and the sum has a place for each member of the cohort.
        self.sum.as_ref()?.begin(upload.id, upload.contribution(None), staleness).ok().flatten()
    }
}
