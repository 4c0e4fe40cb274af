//! Ranges of the files of the base version.

use std::ops::Range;

use tributary_engine::job::JobSpec;
use tributary_protocol::update::Shard;

use super::super::companion::Followed;
use super::super::error::CommitError;
use super::super::span::StoredRange;
use crate::blob::{model_file_key, model_key};
use crate::db::{DbError, MadeFor, RoundRow};
use crate::services::Services;

/// Values of a stored file of f32, from one of them on.
pub(super) struct Base<'a>(StoredRange<'a>);

impl<'a> Base<'a> {
    /// These values of the base version of a round.
    pub(super) async fn open(
        services: &'a Services,
        spec: &JobSpec,
        round: &RoundRow,
        values: Range<usize>,
    ) -> Result<Self, CommitError> {
        let (job, version) = (round.job, round.base_version);
        let base = services.db.read().await?.model(job, version).await?;
        let base = base.ok_or_else(|| DbError::Corrupt(format!("version {version} of {job} is missing")))?;
        Self::of(services, (model_key(job, version), base.bytes), (spec.model.total(), values)).await
    }

    /// These of the `total` values of a file of so many bytes, which end it.
    async fn of(
        services: &'a Services,
        (name, bytes): (String, u64),
        (total, values): (usize, Range<usize>),
    ) -> Result<Self, CommitError> {
        const VALUE_BYTES: u64 = size_of::<f32>() as u64;
        let header = bytes.checked_sub(VALUE_BYTES * total as u64);
        let header = header.ok_or_else(|| DbError::Corrupt(format!("{name} is too short")))?;
        let byte = |value: usize| header + VALUE_BYTES * value as u64;
        let wanted = byte(values.start)..byte(values.end);
        Ok(Self(StoredRange::open(services, (name, bytes), wanted).await?))
    }

    /// The next values.
    pub(super) async fn take(&mut self, count: usize) -> Result<Vec<f32>, CommitError> {
        let mut values = Vec::with_capacity(count);
        let mut cut = Vec::new();
        while values.len() < count {
            // A value may lie across two chunks.
            let wanted =
                if cut.is_empty() { size_of::<f32>() * (count - values.len()) } else { size_of::<f32>() - cut.len() };
            let piece = self.0.piece(wanted).await?;
            if !cut.is_empty() {
                cut.extend_from_slice(&piece);
                if let Ok(bytes) = <[u8; 4]>::try_from(cut.as_slice()) {
                    values.push(f32::from_le_bytes(bytes));
                    cut.clear();
                }
                continue;
            }
            let (whole, odd) = piece.as_chunks();
            values.extend(whole.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            cut.extend_from_slice(odd);
        }
        Ok(values)
    }
}

/// A companion of the base version beside the model.
pub(super) struct Beside<'a> {
    values: Values<'a>,
    /// Values per parameter.
    pub(super) width: usize,
}

enum Values<'a> {
    Stored(Base<'a>),
    /// The first version has no companions: each begins with one value everywhere.
    First(f32),
}

impl<'a> Beside<'a> {
    pub(super) async fn open(
        services: &'a Services,
        spec: &JobSpec,
        version: u32,
        Followed { companion, initial, width }: Followed,
        shard: &Shard,
    ) -> Result<Self, CommitError> {
        let form = MadeFor::Companion(companion);
        let values = match services.db.read().await?.model_file(spec.id, version, form).await? {
            None if version == 0 => Values::First(initial as f32),
            None => {
                let (job, word) = (spec.id, companion.as_str());
                return Err(DbError::Corrupt(format!("the {word} of version {version} of {job} is missing")).into());
            }
            Some(row) => {
                let values = shard.range.start * width..shard.range.end * width;
                let name = model_file_key(spec.id, version, form);
                let total = spec.shared().total() * width;
                Values::Stored(Base::of(services, (name, row.bytes), (total, values)).await?)
            }
        };
        Ok(Self { values, width })
    }

    /// The next values, those of so many parameters.
    pub(super) async fn take(&mut self, parameters: usize) -> Result<Vec<f32>, CommitError> {
        match &mut self.values {
            Values::Stored(base) => base.take(parameters * self.width).await,
            Values::First(value) => Ok(vec![*value; parameters * self.width]),
        }
    }
}
