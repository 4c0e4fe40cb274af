//! An update in parts, each to the coordinator that adds it up.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tributary_protocol::device::{ReportAccepted, UpdateQuery};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Secret};

use super::coordinator::{CALLS_AT_ONCE, Coordinator};
use super::upload::{Figures, Upload};
use crate::error::ClientError;

/// A finished update that is sent in parts.
#[derive(Debug)]
pub(crate) struct UploadInParts<'a> {
    pub(crate) id: AssignmentId,
    pub(crate) query: &'a UpdateQuery,
    /// The parts in their order.
    pub(crate) bodies: &'a [Bytes],
    /// The URLs of the coordinators that add them up, as [`Coordinator::at_each`] takes them.
    pub(crate) owners: &'a [Option<String>],
    /// Whether an earlier session may have sent some of it.
    pub(crate) begun: bool,
}

impl Coordinator {
    /// Sends all parts, several at once. A refusal for good ends it; after another failure the rest arrives all the
    /// same, and a later session has less to send.
    pub(crate) async fn upload_parts(
        &self,
        secret: &Secret,
        update: &UploadInParts<'_>,
    ) -> Result<ReportAccepted, ClientError> {
        let owners = self.at_each(update.owners, update.bodies.len());
        let parts = (0..).zip(update.bodies).zip(&owners);
        let uploads: Vec<_> = parts
            .map(|((part, body), owner)| {
                let (figures, sha256) = (Figures::Part(update.query, part), Sha256Hash::of(body));
                let upload = Upload { id: update.id, figures, body, sha256, begun: update.begun };
                self.upload_part(secret, upload, owner.as_ref())
            })
            .collect();
        let mut answers = stream::iter(uploads).buffer_unordered(CALLS_AT_ONCE);
        let (mut retry_after_ms, mut failed) = (0, None);
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(accepted) => retry_after_ms = accepted.retry_after_ms.max(retry_after_ms),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(ReportAccepted { retry_after_ms }), Err)
    }

    /// Sends a part to its owner, once. Where that fails, this coordinator takes it.
    async fn upload_part(
        &self,
        secret: &Secret,
        upload: Upload<'_>,
        owner: Option<&Self>,
    ) -> Result<ReportAccepted, ClientError> {
        let Some(owner) = owner else { return self.upload(secret, &upload).await };
        match owner.upload_once(secret, &upload, upload.begun).await {
            Err(error) if !error.is_final() => {
                tracing::debug!(%error, owner = owner.address(), "a part goes to the known coordinator");
                // The owner may have handed on what it has received, or only its answer was lost.
                self.upload(secret, &Upload { begun: true, ..upload }).await
            }
            answer => answer,
        }
    }
}
