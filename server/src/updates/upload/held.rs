//! A small update: read into memory, checked when it is complete, added to the sum after it was acknowledged.
//!
//! Bytes moved per byte of the body: one copy from the socket, one read for the hash, two for decoding (to check, and
//! to add once it is acknowledged), one copy into the database's transaction. The transaction is the limit.

use bytes::{Bytes, BytesMut};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::update::{DeltaSink, UpdateError, UpdateStatistics};

use super::{Body, Stops, Target, Upload, UploadRefusal, Uploaded, piece};
use crate::blob::{Staged, Workbench, update_key};
use crate::db::Times;
use crate::lifecycle::assignments::{Received, Refusal};
use crate::updates::budget::{Need, Share};
use crate::updates::claims::Claim;
use crate::updates::decoding::Decoding;
use crate::updates::sums::Flight;

impl Upload {
    /// Receives a body of `length` bytes.
    pub(super) async fn held(
        &self,
        target: &Target,
        claim: &Claim,
        bench: &Workbench,
        (mut body, length): (Body, u64),
    ) -> Result<Uploaded, UploadRefusal> {
        let Target { assignment, round, spec } = target;
        let sum = self.updates.sums.get(round.key());
        // An update of a buffered job counts in the next round when this one closes, so nothing stops it.
        let closing = sum.as_ref().filter(|_| !assignment.term().is_own()).map(|sum| sum.closing());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let stops =
            Stops { closing: closing.as_ref(), claim: Some(claim), ..Stops::new(&self.services, target.until_ms()) };
        let share = tokio::select! {
            share = self.updates.budget.acquire(Need::held(spec.file.population.clone(), length)) => share,
            stop = stops.first() => return self.stop(stop).await,
        };
        let mut received = Received::default();
        let read = tokio::select! {
            read = self.read(&mut body, length, &share, &mut received) => read,
            stop = Stops { share: Some(&share), ..stops }.first() => Err(UploadRefusal::Stopped(stop)),
        };
        let body = match read {
            Ok(body) => body,
            Err(refusal) => return self.refuse(target, received, refusal).await,
        };
        received.times.uploaded_at_ms = Some(self.services.clock.now_ms());
        let sha256 = Sha256Hash::of(&body);
        if self.announced.digest.is_some_and(|announced| announced != sha256) {
            // The body was damaged on the way: this says nothing about the update.
            return self.refuse(target, received, UploadRefusal::WrongDigest(sha256)).await;
        }
        let checked = match self.check_figures(spec) {
            Ok(()) => self.check(target, &body).await.map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let summary = match checked {
            Ok(summary) => summary,
            Err(reason) => return self.reject(target, reason, received).await,
        };
        let staged = bench.stage(update_key(self.id), body.clone(), self.services.clock.now_ms()).await;
        let accepted = match staged {
            Ok(staged) => {
                // A place in the sum, before the report can close the round: the commit waits for it instead of reading
                // the update from the database.
                let contribution = self.contribution();
                let mut flight =
                    sum.and_then(|sum| sum.begin(self.id, contribution, target.staleness()).ok().flatten());
                let report = self.report(Some(summary.norm), sha256, received, spec);
                let mut submission = self.submission(target, report, Some(staged));
                let accepted = match self.accept_now(&mut submission).await {
                    Err(Refusal::Between(_)) => {
                        // The commit of the closed round waits for updates in flight.
                        if let Some(flight) = flight.take() {
                            flight.leave();
                        }
                        self.accept(&mut submission).await
                    }
                    once => once,
                };
                let is_settled = submission.body.as_ref().is_some_and(Staged::is_settled);
                // In another round than the flight's, the commit adds it.
                accepted
                    .map(|accepted| (accepted, flight.filter(|_| is_settled && accepted.round == round.key())))
                    .map_err(UploadRefusal::from)
            }
            Err(error) => Err(error.into()),
        };
        match accepted {
            Ok((accepted, flight)) => {
                if let Some(flight) = flight {
                    self.fold(target, flight, &body).await;
                }
                accepted.tell(&self.services.signals);
                Ok(Uploaded::Accepted)
            }
            Err(refusal) => {
                let times = Times { uploaded_at_ms: None, ..received.times };
                self.refuse(target, Received { times, ..received }, refusal).await
            }
        }
    }

    /// Reads the body to its end.
    async fn read(
        &self,
        body: &mut Body,
        length: usize,
        share: &Share<'_>,
        received: &mut Received,
    ) -> Result<Bytes, UploadRefusal> {
        let mut whole = BytesMut::with_capacity(length);
        while let Some(data) = piece(body).await? {
            if !data.is_empty() {
                received.times.upload_at_ms.get_or_insert_with(|| self.services.clock.now_ms());
            }
            received.bytes += data.len() as u64;
            if whole.len() + data.len() > length {
                return Err(UploadRefusal::BrokenOff("it is longer than announced".into()));
            }
            share.received(data.len());
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Decodes a complete update to check it.
    async fn check(&self, target: &Target, body: &Bytes) -> Result<UpdateStatistics, UpdateError> {
        let Target { assignment, spec, .. } = target;
        let mut decoding = Decoding::new(spec, assignment.base_version, target.limits(), &self.services.cores, Ignore);
        decoding.push(body).await?;
        decoding.finish()
    }

    /// Adds an acknowledged update. A failure here loses nothing: the update is stored, and the commit of the round
    /// adds what the sum lacks.
    async fn fold(&self, target: &Target, flight: Flight, body: &Bytes) {
        let Target { assignment, spec, .. } = target;
        let limits = spec.update_limits();
        let mut decoding = Decoding::new(spec, assignment.base_version, limits, &self.services.cores, flight);
        match decoding.push(body).await.and_then(|()| decoding.finish()) {
            Ok(_) => {
                let (flight, seconds) = decoding.into_sink();
                flight.land();
                self.services.metrics.folded(seconds);
            }
            Err(error) => tracing::error!(%error, "an accepted update could not be added yet"),
        }
    }
}

/// Ignores decoded values: the decoder has checked them.
#[derive(Debug)]
struct Ignore;

impl DeltaSink for Ignore {
    fn dense(&mut self, _: usize, _: &[f32]) {}

    fn sparse(&mut self, _: usize, _: &[u32], _: &[f32]) {}
}
