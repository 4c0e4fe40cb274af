//! Companions of a model version: read beside the model, written with the next version. They have a value for each
//! shared parameter.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tributary_engine::aggregate::Optimizer;
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::id::JobId;
use tributary_protocol::model::{Companion, ParameterListError};
use tributary_protocol::safetensors::{ModelDecoder, model_file_beginning, model_metadata};

use super::error::CommitError;
use super::first::UploadError;
use super::version::{Role, spool};
use crate::blob::{BlobError, Reader, Spool, Staged, Workbench, model_file_key};
use crate::db::{DbError, MadeFor, ModelFileRow};
use crate::runtime::clock::Clock;
use crate::runtime::offload::Offload;
use crate::services::Services;

/// Bytes of a stored file that are decoded at a time. Their values, and what is made of them, stay in the processor's
/// cache, and the allocator keeps little of them.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// Reads the values of a companion in order. One chunk of it is in memory.
pub(crate) struct CompanionReader<'a> {
    source: Source<'a>,
    /// Values per parameter.
    width: usize,
    /// Values that were read and not taken.
    pending: Vec<f32>,
}

/// The companions of a base version that the next ones follow from.
pub(crate) struct Companions<'a>(Vec<CompanionReader<'a>>);

impl<'a> Companions<'a> {
    pub(crate) async fn open(
        services: &'a Services,
        spec: &JobSpec,
        version: u32,
        followed: &[Followed],
    ) -> Result<Self, CommitError> {
        let mut readers = Vec::new();
        for followed in followed {
            readers.push(CompanionReader::open(services, spec, version, *followed).await?);
        }
        Ok(Self(readers))
    }

    /// The notes of the first companion.
    pub(crate) async fn notes(&mut self) -> Result<BTreeMap<String, String>, CommitError> {
        match self.0.first_mut() {
            None => Ok(BTreeMap::new()),
            Some(reader) => reader.notes().await,
        }
    }

    /// Most values of a companion per parameter.
    pub(crate) fn width_max(&self) -> usize {
        self.0.iter().map(|reader| reader.width).max().unwrap_or(1)
    }

    /// The next values of each companion, those of so many parameters.
    pub(crate) async fn take(&mut self, parameters: usize) -> Result<Former, CommitError> {
        let mut former = Former::default();
        for reader in &mut self.0 {
            former.0.push((reader.take(parameters).await?.into_iter(), reader.width));
        }
        Ok(former)
    }
}

/// Values of the base version's companions, taken block by block.
#[derive(Default)]
pub(crate) struct Former(Vec<(std::vec::IntoIter<f32>, usize)>);

impl Former {
    /// The values of each companion, with its number of values per parameter.
    pub(crate) fn of(companions: impl IntoIterator<Item = (Vec<f32>, usize)>) -> Self {
        Self(companions.into_iter().map(|(values, width)| (values.into_iter(), width)).collect())
    }

    /// The values of the next parameters of each companion, in f64.
    pub(crate) fn block(&mut self, parameters: usize) -> Vec<Vec<f64>> {
        let next = |(values, width): &mut (std::vec::IntoIter<f32>, usize)| {
            values.take(parameters * *width).map(f64::from).collect()
        };
        self.0.iter_mut().map(next).collect()
    }
}

/// A companion that the next one follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    pub(crate) companion: Companion,
    /// Every value before the first step.
    pub(crate) initial: f64,
    /// Values per parameter.
    pub(crate) width: usize,
}

impl Followed {
    /// Those of the optimiser, then the control variate.
    pub(crate) fn all(spec: &JobSpec, optimizer: &dyn Optimizer) -> Vec<Self> {
        let own = optimizer.companions().iter().map(|&companion| Self {
            companion,
            initial: optimizer.initial(companion),
            width: optimizer.width(companion),
        });
        own.chain(spec.control_step(0).map(|_| Self::vector(Companion::Control))).collect()
    }

    /// One value per parameter, which begins with zero.
    pub(crate) fn vector(companion: Companion) -> Self {
        Self { companion, initial: 0.0, width: 1 }
    }
}

enum Source<'a> {
    Stored(Box<Stored<'a>>),
    /// The first version has no companions: each begins with one value everywhere.
    First(f32),
}

struct Stored<'a> {
    chunks: Reader<'a>,
    /// The rest of the last chunk, which is not decoded yet.
    rest: Bytes,
    decoder: Offload<ModelDecoder>,
    total: usize,
    /// Values that were read.
    read: usize,
    /// Whether the end was reached, where the hash is checked.
    is_whole: bool,
}

impl<'a> CompanionReader<'a> {
    /// Begins to read a companion of a model version.
    pub(crate) async fn open(
        services: &'a Services,
        spec: &JobSpec,
        version: u32,
        Followed { companion, initial, width }: Followed,
    ) -> Result<Self, CommitError> {
        let parameters = spec.companion(width)?;
        let form = MadeFor::Companion(companion);
        let row = services.db.read().await?.model_file(spec.id, version, form).await?;
        let source = match row {
            None if version == 0 => Source::First(initial as f32),
            None => return Err(missing(spec.id, version, companion).into()),
            Some(row) => {
                let name = model_file_key(spec.id, version, form);
                Source::Stored(Box::new(Stored {
                    chunks: services.blobs.chunks(&services.db, name, row.sha256).await?,
                    rest: Bytes::new(),
                    total: parameters.total(),
                    decoder: Offload::new(ModelDecoder::new(parameters)),
                    read: 0,
                    is_whole: false,
                }))
            }
        };
        Ok(Self { source, width, pending: Vec::new() })
    }

    /// What the file says beside its values.
    async fn notes(&mut self) -> Result<BTreeMap<String, String>, CommitError> {
        let Source::Stored(stored) = &mut self.source else { return Ok(BTreeMap::new()) };
        while stored.read == 0 {
            match stored.next().await? {
                Some(values) => self.pending.extend_from_slice(&values),
                None => return Err(CommitError::Order(0)),
            }
        }
        Ok(stored.decoder.run(|decoder| decoder.metadata().clone()).await)
    }

    /// The next values, those of so many parameters.
    pub(crate) async fn take(&mut self, parameters: usize) -> Result<Vec<f32>, CommitError> {
        let count = parameters * self.width;
        let stored = match &mut self.source {
            Source::First(value) => return Ok(vec![*value; count]),
            Source::Stored(stored) => stored,
        };
        while self.pending.len() < count || (stored.read == stored.total && !stored.is_whole) {
            match stored.next().await? {
                Some(values) => self.pending.extend_from_slice(&values),
                None if self.pending.len() < count => return Err(CommitError::Order(stored.read)),
                None => {}
            }
        }
        let later = self.pending.split_off(count);
        Ok(std::mem::replace(&mut self.pending, later))
    }
}

impl Stored<'_> {
    /// The values of the next piece; none at the end.
    async fn next(&mut self) -> Result<Option<Vec<f32>>, CommitError> {
        if self.rest.is_empty() {
            let Some(data) = self.chunks.next().await? else {
                self.is_whole = true;
                return Ok(None);
            };
            self.rest = data;
        }
        let data = self.rest.split_to(PIECE_BYTES.min(self.rest.len()));
        let decode = move |decoder: &mut ModelDecoder| {
            let mut values = Vec::with_capacity(data.len() / size_of::<f32>() + 1);
            decoder.push(&data, &mut |_, decoded| values.extend_from_slice(decoded))?;
            Ok::<_, CommitError>(values)
        };
        let values = self.decoder.run(decode).await?;
        self.read += values.len();
        Ok(Some(values))
    }
}

fn missing(job: JobId, version: u32, companion: Companion) -> DbError {
    DbError::Corrupt(format!("the {} of version {version} of {job} is missing", companion.as_str()))
}

/// A companion of a new version on its way into the store, in the form of a model's file.
pub(crate) struct NewCompanion {
    companion: Companion,
    version: u32,
    hasher: Sha256Hasher,
    spool: Spool,
}

impl NewCompanion {
    pub(crate) async fn begin(
        bench: &Workbench,
        clock: &Clock,
        spec: &JobSpec,
        version: u32,
        companion: Companion,
        optimizer: &dyn Optimizer,
    ) -> Result<Self, CommitError> {
        let mut new = Self::empty(bench, clock, spec, (version, companion));
        new.push(&beginning(spec, companion, optimizer)?).await?;
        Ok(new)
    }

    fn empty(bench: &Workbench, clock: &Clock, spec: &JobSpec, (version, companion): (u32, Companion)) -> Self {
        let spool = spool(bench, clock, model_file_key(spec.id, version, MadeFor::Companion(companion)));
        Self { companion, version, hasher: Sha256Hasher::new(), spool }
    }

    pub(crate) async fn push(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.hasher.update(bytes);
        self.spool.push(bytes).await
    }

    pub(crate) async fn finish(mut self, now_ms: i64) -> Result<(Role, Staged), BlobError> {
        let staged = self.spool.finish(now_ms).await?;
        let row = ModelFileRow {
            version: self.version,
            form: MadeFor::Companion(self.companion),
            sha256: self.hasher.finish(),
            bytes: self.spool.bytes(),
            packed: false,
        };
        Ok((Role::Made(row), staged))
    }
}

/// The header of a companion's file.
pub(super) fn beginning(
    spec: &JobSpec,
    companion: Companion,
    optimizer: &dyn Optimizer,
) -> Result<Vec<u8>, ParameterListError> {
    let is_own = optimizer.companions().contains(&companion);
    let mut metadata = model_metadata();
    metadata.extend(is_own.then(|| optimizer.notes(companion)).into_iter().flatten());
    let parameters = spec.companion(if is_own { optimizer.width(companion) } else { 1 })?;
    Ok(model_file_beginning(&parameters, &metadata))
}

/// A companion with one value for each shared parameter that another coordinator has made, as its file.
pub(crate) async fn received(
    bench: &Workbench,
    clock: &Clock,
    spec: &JobSpec,
    beside: (u32, Companion),
    file: &[u8],
) -> Result<(Role, Staged), UploadError> {
    let mut decoder = ModelDecoder::new(Arc::clone(spec.shared()));
    decoder.push(file, &mut |_, _| ())?;
    decoder.finish()?;
    let mut new = NewCompanion::empty(bench, clock, spec, beside);
    new.push(file).await?;
    Ok(new.finish(clock.now_ms()).await?)
}
