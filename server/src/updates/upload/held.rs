//! A small update: read into memory, checked when it is complete, added to the sum after it was acknowledged.
//!
//! Bytes moved per byte of the body: one copy from the socket, one read for the hash, two for decoding (to check, and
//! to add once it is acknowledged), one copy into the database's transaction. The transaction is the limit.

use bytes::{Bytes, BytesMut};
use tributary_protocol::hash::Sha256Hash;

use super::receiving::Receiving;
use super::{Body, Target, UploadRefusal, Uploaded, piece};
use crate::blob::Staged;
use crate::db::{Report, Times};
use crate::lifecycle::assignments::{Received, Refusal};
use crate::updates::decoding::Decoding;
use crate::updates::fold::Measured;
use crate::updates::sums::Flight;

impl Receiving<'_> {
    /// Receives a body of `length` bytes.
    pub(super) async fn held(&self, mut body: Body, length: usize) -> Result<Uploaded, UploadRefusal> {
        let Self { upload, target, .. } = self;
        let mut received = Received::default();
        let read = tokio::select! {
            read = self.read_whole(&mut body, length, &mut received) => read,
            stop = self.stops().first() => Err(UploadRefusal::Stopped(stop)),
        };
        let body = match read {
            Ok(body) => body,
            Err(refusal) => return upload.refuse(target, received, refusal).await,
        };
        received.times.uploaded_at_ms = Some(upload.services.clock.now_ms());
        let sha256 = Sha256Hash::of(&body);
        if upload.announced.digest.is_some_and(|announced| announced != sha256) {
            // The body was damaged on the way: this says nothing about the update.
            return upload.refuse(target, received, UploadRefusal::WrongDigest).await;
        }
        if let Some(group) = &target.group {
            return self.held_masked(group, body, sha256, received).await;
        }
        let measured = match self.check(&body).await {
            Ok(measured) => measured,
            Err(reason) => return upload.reject(target, reason, received).await,
        };
        match self.store(upload.report(measured, sha256, received, &target.spec), &body).await {
            Ok(()) => Ok(Uploaded::Accepted),
            Err(refusal) => {
                let times = Times { uploaded_at_ms: None, ..received.times };
                upload.refuse(target, Received { times, ..received }, refusal).await
            }
        }
    }

    /// Reads the body to its end.
    async fn read_whole(
        &self,
        body: &mut Body,
        length: usize,
        received: &mut Received,
    ) -> Result<Bytes, UploadRefusal> {
        let mut whole = BytesMut::with_capacity(length);
        while let Some(data) = piece(body).await? {
            if !data.is_empty() {
                received.times.upload_at_ms.get_or_insert_with(|| self.upload.services.clock.now_ms());
            }
            received.bytes += data.len() as u64;
            if whole.len() + data.len() > length {
                return Err(UploadRefusal::BrokenOff("it is longer than announced".into()));
            }
            self.share.received(data.len());
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Checks the figures of a complete update, and decodes it to check its values.
    async fn check(&self, body: &Bytes) -> Result<Measured, String> {
        self.upload.check_figures(self.target)?;
        let mut folding = self.folding(false);
        folding.push(body).await.map_err(|error| error.to_string())?;
        let measured = folding.finish().map_err(|error| error.to_string())?;
        self.upload.check_sum(self.target, measured.sum)?;
        Ok(measured)
    }

    /// Stores an update that is right with its report, and adds it to the sum.
    async fn store(&self, report: Report, body: &Bytes) -> Result<(), UploadRefusal> {
        let Self { upload, target, bench, .. } = self;
        let staged = bench.stage(target.key(), body.clone(), upload.services.clock.now_ms()).await?;
        // A place in the sum, before the report can close the round: the commit waits for it instead of reading the
        // update from the database.
        let is_sum = target.assignment.is_sum();
        let mut flight = if is_sum { None } else { self.flight() };
        let mut submission = upload.submission(target, report, Some(staged));
        let accepted = match upload.accept_now(&mut submission).await {
            Err(Refusal::Between(_)) => {
                // The commit of the closed round waits for updates in flight.
                if let Some(flight) = flight.take() {
                    flight.leave();
                }
                upload.accept(&mut submission).await
            }
            once => once,
        };
        let is_settled = submission.body.as_ref().is_some_and(Staged::is_settled);
        let accepted = accepted?;
        // In another round than the flight's, the commit adds it.
        if let Some(flight) = flight.filter(|_| is_settled && accepted.round == target.round.key()) {
            self.fold(flight, body).await;
        }
        if is_sum {
            upload.add_stored(target).await;
        }
        accepted.tell(&upload.services.signals);
        Ok(())
    }

    /// Adds an acknowledged update, unless it is a sum, which is added from storage. A failure here loses nothing: the
    /// update is stored, and the commit of the round adds what the sum lacks.
    async fn fold(&self, flight: Flight, body: &Bytes) {
        let (Target { assignment, spec, .. }, services) = (self.target, &self.upload.services);
        let limits = spec.update_limits();
        let mut decoding = Decoding::new(spec, assignment.base_version, limits, &services.cores, flight);
        match decoding.push(body).await.and_then(|()| decoding.finish()) {
            Ok(_) => {
                let (flight, seconds) = decoding.into_sink();
                flight.land();
                services.metrics.folded(seconds);
            }
            Err(error) => tracing::error!(%error, "an accepted update could not be added yet"),
        }
    }
}
