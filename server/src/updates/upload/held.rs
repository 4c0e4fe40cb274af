//! A small update: read into memory, checked when it is complete, added to the sum after it was acknowledged.
//!
//! Bytes moved per byte of the body: one copy from the socket, one read for the hash, two for decoding (to check, and
//! to add once it is acknowledged), one copy into the database's transaction. The transaction is the limit.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tributary_engine::aggregate::Weight;
use tributary_engine::job::JobSpec;
use tributary_protocol::body::is_packed;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::state::Task;
use tributary_protocol::update::{DeltaSink, UpdateError, UpdateStatistics};

use super::{PIECE_BYTES, Target, Upload, UploadRefusal, Uploaded, piece, stopped, too_large};
use crate::blob::{Workbench, update_key};
use crate::db::{BLOB_CHUNK_BYTES, Times};
use crate::lifecycle::assignments::{self, Received};
use crate::runtime::clock::Stopwatch;
use crate::runtime::offload::blocking;
use crate::updates::budget::Need;
use crate::updates::fold::decoder;
use crate::updates::sums::Flight;

impl Upload {
    pub(super) async fn held(
        &self,
        target: &Target,
        bench: &Workbench,
        mut body: super::Body,
    ) -> Result<Uploaded, UploadRefusal> {
        let Target { assignment, round, spec } = target;
        let sum = self.updates.sums.begun(round.key());
        let closing = sum.as_ref().map(|sum| sum.closing());
        let mut received = Received::default();
        let reading = async {
            let beginning = piece(&mut body).await?;
            let need = Need {
                bytes: self.announced.length,
                packed: beginning.as_ref().is_some_and(|beginning| is_packed(beginning)),
                part_bytes: Some(BLOB_CHUNK_BYTES),
            };
            let share = self.updates.budget.acquire(need).await;
            let body = self.read(beginning, &mut body, spec, &mut received).await?;
            Ok::<_, UploadRefusal>((share, body))
        };
        let read = tokio::select! {
            read = reading => read,
            stop = stopped(&self.services, target.until_ms(), closing.as_ref(), None) => {
                self.count(assignment, received).await;
                return self.stop(stop).await;
            }
        };
        let (_share, body) = match read {
            Ok(read) => read,
            Err(error) => {
                self.count(assignment, received).await;
                return Err(error);
            }
        };
        received.times.uploaded_at_ms = Some(self.services.clock.now_ms());
        let sha256 = Sha256Hash::of(&body);
        if self.announced.digest.is_some_and(|announced| announced != sha256) {
            // The body was damaged on the way: this says nothing about the update.
            self.count(assignment, received).await;
            return Err(UploadRefusal::WrongDigest(sha256));
        }
        let checked = match self.check_figures(spec) {
            Ok(()) => check(spec, assignment.base_version, body.clone()).await.map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let summary = match checked {
            Ok(summary) => summary,
            Err(reason) => return self.reject(target, reason, received).await,
        };
        let staged = bench.stage(update_key(self.id), body.clone(), self.services.clock.now_ms()).await;
        let accepted = match staged {
            Ok(mut staged) => {
                // A place in the sum, before the report can close the round: the commit waits for it instead of reading
                // the update from the database.
                let weight = Weight::examples(self.query.weight);
                let sum = sum.filter(|_| !self.updates.sums.is_left_to_commits());
                let flight = sum.and_then(|sum| sum.begin(self.id, weight).ok().flatten());
                let report = self.report(&summary, sha256, received, spec);
                let (services, downloads, id) = (&self.services, &self.downloads, (self.id, Task::Train));
                let body = Some(&mut staged);
                let accepted = assignments::accept(services, downloads, self.client, id, report, body).await;
                accepted.map(|_| flight.filter(|_| staged.is_settled())).map_err(UploadRefusal::from)
            }
            Err(error) => Err(error.into()),
        };
        match accepted {
            Ok(flight) => {
                if let Some(flight) = flight {
                    self.fold(spec, assignment.base_version, flight, body).await;
                }
                self.services.signals.changed(round.job);
                Ok(Uploaded::Accepted)
            }
            Err(error) => {
                self.count(
                    assignment,
                    Received { times: Times { uploaded_at_ms: None, ..received.times }, ..received },
                )
                .await;
                Err(error)
            }
        }
    }

    /// Reads the body to its end.
    async fn read(
        &self,
        beginning: Option<Bytes>,
        body: &mut super::Body,
        spec: &JobSpec,
        received: &mut Received,
    ) -> Result<Bytes, UploadRefusal> {
        let mut whole = BytesMut::with_capacity(usize::try_from(self.announced.length.unwrap_or(0)).unwrap_or(0));
        let mut next = beginning;
        while let Some(data) = next {
            if !data.is_empty() {
                received.times.upload_at_ms.get_or_insert_with(|| self.services.clock.now_ms());
            }
            received.bytes += data.len() as u64;
            if received.bytes > spec.update_bytes_max {
                return Err(too_large(spec));
            }
            whole.extend_from_slice(&data);
            next = piece(body).await?;
        }
        Ok(whole.freeze())
    }

    /// Adds an acknowledged update. A failure here loses nothing: the update is stored, and the commit of the round
    /// adds what the sum lacks.
    async fn fold(&self, spec: &Arc<JobSpec>, base_version: u32, flight: Flight, body: Bytes) {
        let metrics = Arc::clone(&self.services.metrics);
        let (spec, is_short) = (Arc::clone(spec), body.len() <= PIECE_BYTES);
        let fold = move || {
            let (stopwatch, mut flight) = (Stopwatch::start(), flight);
            decode(&spec, base_version, &body, &mut flight)?;
            flight.land();
            metrics.folded(stopwatch.seconds());
            Ok::<_, UpdateError>(())
        };
        let folded = if is_short { fold() } else { blocking(fold).await };
        if let Err(error) = folded {
            tracing::error!(%error, "an accepted update could not be added yet");
        }
    }
}

/// Decodes a complete update to check it. A short one is decoded at once, since a thread costs more.
async fn check(spec: &Arc<JobSpec>, base_version: u32, body: Bytes) -> Result<UpdateStatistics, UpdateError> {
    if body.len() <= PIECE_BYTES {
        return decode(spec, base_version, &body, &mut Ignore);
    }
    let spec = Arc::clone(spec);
    blocking(move || decode(&spec, base_version, &body, &mut Ignore)).await
}

fn decode(
    spec: &JobSpec,
    base_version: u32,
    body: &[u8],
    sink: &mut impl DeltaSink,
) -> Result<UpdateStatistics, UpdateError> {
    let mut decoder = decoder(spec, base_version);
    for piece in body.chunks(PIECE_BYTES) {
        decoder.push(piece, sink)?;
    }
    decoder.finish()
}

/// Ignores decoded values: the decoder has checked them.
struct Ignore;

impl DeltaSink for Ignore {
    fn dense(&mut self, _: usize, _: &[f32]) {}

    fn sparse(&mut self, _: usize, _: &[u32], _: &[f32]) {}
}
