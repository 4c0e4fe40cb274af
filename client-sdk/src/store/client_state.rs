//! What a job keeps on the device between rounds, and its file format.
//!
//! The file is a safetensors file with one f32 tensor of one dimension per vector. Its metadata has the keys of
//! [`ClientState`]'s other fields. Format and entry names say "memory" because files of that name exist on devices.

use std::collections::BTreeMap;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::safetensors::{Data, Decoder, Dtype, Header, SafetensorsError, Sink, Tensor, write};

/// The metadata's `format`.
const FORMAT: &str = "tributary-memory-1";
/// Longest header of a file, in bytes: a few vectors and metadata.
const HEADER_BYTES_MAX: u64 = 4096;

/// Named vectors that a job keeps on the device from one accepted update to the next: the residual of error feedback
/// and the momentum of `dgc`, the vectors of SCAFFOLD and FedDyn, personal parameters, and weights of the client's own.
///
/// An update replaces it, but only once the coordinator has accepted the update. Until then the new state is kept
/// beside the old one. So an update that is lost or refused changes nothing, and its training is repeated from the old
/// state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientState {
    pub(crate) job: JobId,
    /// Number of the round whose update left this state; the state's age is counted from it.
    pub(crate) round: u32,
    /// Hash of the model version that the update started from.
    pub(crate) model_sha256: Sha256Hash,
    /// The vectors by name; all values are finite.
    pub(crate) vectors: BTreeMap<String, Vec<f32>>,
}

/// Why a file holds no state of this job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientStateError {
    #[error(transparent)]
    File(#[from] SafetensorsError),
    #[error("the format of the client state is {0:?} instead of {FORMAT:?}")]
    WrongFormat(String),
    #[error("the metadata of the client state has no valid {0:?}")]
    BadMetadata(&'static str),
    #[error("the client state belongs to job {0}")]
    OtherJob(String),
    #[error("tensor {0:?} of the client state is not a vector of f32")]
    NotAVector(String),
    #[error("value {index} of vector {vector:?} is not finite")]
    NotFinite { vector: String, index: usize },
}

impl ClientState {
    /// The state as one file. Holds a second copy of the vectors meanwhile.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let metadata = BTreeMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("job".to_owned(), self.job.to_string()),
            ("model_sha256".to_owned(), self.model_sha256.to_string()),
            ("round".to_owned(), self.round.to_string()),
        ]);
        let shapes: Vec<[usize; 1]> = self.vectors.values().map(|values| [values.len()]).collect();
        let tensors = self.vectors.iter().zip(&shapes);
        let tensors: Vec<_> =
            tensors.map(|((name, values), shape)| Tensor { name, shape, data: Data::F32(values) }).collect();
        write(&tensors, &metadata)
    }

    /// Reads the state of `job` from its file. A file that names no job was written before files did; its name said it.
    ///
    /// # Errors
    /// [`ClientStateError`] for any file that [`Self::to_bytes`] cannot have written for this job.
    pub(crate) fn from_bytes(file: &[u8], job: JobId) -> Result<Self, ClientStateError> {
        let mut reader = Reader::default();
        let mut decoder = Decoder::new(HEADER_BYTES_MAX);
        decoder.push(file, &mut reader)?;
        let header = decoder.finish()?;
        let metadata = header.metadata();
        if let Some(other) = metadata.get("job").filter(|other| **other != job.to_string()) {
            return Err(ClientStateError::OtherJob(other.clone()));
        }
        let entry = |key| metadata.get(key).ok_or(ClientStateError::BadMetadata(key));
        let round = entry("round")?.parse().map_err(|_| ClientStateError::BadMetadata("round"))?;
        let model_sha256 = entry("model_sha256")?.parse().map_err(|_| ClientStateError::BadMetadata("model_sha256"))?;
        for (vector, values) in &reader.vectors {
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(ClientStateError::NotFinite { vector: vector.clone(), index });
            }
        }
        Ok(Self { job, round, model_sha256, vectors: reader.vectors.into_iter().collect() })
    }
}

/// Collects the vectors of a file, in the file's order.
#[derive(Default)]
struct Reader {
    vectors: Vec<(String, Vec<f32>)>,
}

impl Sink for Reader {
    type Error = ClientStateError;

    fn header(&mut self, header: &Header) -> Result<(), ClientStateError> {
        let format = header.metadata().get("format").map_or("", String::as_str);
        if format != FORMAT {
            return Err(ClientStateError::WrongFormat(format.to_owned()));
        }
        for tensor in header.tensors() {
            if tensor.dtype != Dtype::F32 || tensor.shape.len() != 1 {
                return Err(ClientStateError::NotAVector(tensor.name.clone()));
            }
            self.vectors.push((tensor.name.clone(), Vec::new()));
        }
        Ok(())
    }

    fn block(&mut self, tensor: usize, _element: usize, bytes: &[u8]) -> Result<(), ClientStateError> {
        // Memory grows with the bytes that exist, not with the length that the header announces.
        let values = &mut self.vectors[tensor].1;
        values.extend(bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ClientState {
        ClientState {
            job: JobId::from_random([3; 16]),
            round: 12,
            model_sha256: Sha256Hash([7; 32]),
            vectors: BTreeMap::from([
                ("momentum".to_owned(), vec![0.5, -0.5, 0.0]),
                ("residual".to_owned(), vec![1.0, f32::MIN_POSITIVE, -3.25]),
            ]),
        }
    }

    fn file(tensors: &[Tensor<'_>], metadata: &[(&str, &str)]) -> Vec<u8> {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        write(tensors, &metadata.collect())
    }

    #[test]
    fn a_state_survives_its_file() {
        for vectors in [state().vectors, BTreeMap::new(), BTreeMap::from([("control".to_owned(), Vec::new())])] {
            let state = ClientState { vectors, ..state() };
            assert_eq!(ClientState::from_bytes(&state.to_bytes(), state.job), Ok(state));
        }
    }

    /// Devices have such files: they name no job.
    #[test]
    fn a_file_of_the_format_before_jobs_were_named_is_read() {
        let residual = [1.0, -2.0];
        let tensors = [Tensor { name: "residual", shape: &[2], data: Data::F32(&residual) }];
        let hash = Sha256Hash([9; 32]).to_string();
        let metadata = [("format", "tributary-memory-1"), ("model_sha256", hash.as_str()), ("round", "4")];
        let read = ClientState::from_bytes(&file(&tensors, &metadata), state().job).unwrap();
        assert_eq!((read.round, read.model_sha256), (4, Sha256Hash([9; 32])));
        assert_eq!(read.vectors, BTreeMap::from([("residual".to_owned(), residual.to_vec())]));
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_job_is_refused() {
        let whole = state().to_bytes();
        for end in [0, 7, 40, whole.len() - 1] {
            let refused = ClientState::from_bytes(&whole[..end], state().job);
            assert!(matches!(refused, Err(ClientStateError::File(_))), "{refused:?}");
        }
        let other = ClientState::from_bytes(&whole, JobId::from_random([4; 16]));
        assert_eq!(other, Err(ClientStateError::OtherJob(state().job.to_string())));
        let endless =
            ClientState { vectors: BTreeMap::from([("residual".to_owned(), vec![0.0, f32::NAN])]), ..state() };
        let refused = ClientState::from_bytes(&endless.to_bytes(), state().job);
        assert_eq!(refused, Err(ClientStateError::NotFinite { vector: "residual".to_owned(), index: 1 }));
    }

    #[test]
    fn a_file_with_other_metadata_or_tensors_is_refused() {
        let hash = Sha256Hash([9; 32]).to_string();
        let valid = [("format", FORMAT), ("model_sha256", hash.as_str()), ("round", "4")];
        let read = |tensors: &[Tensor<'_>], metadata: &[(&str, &str)]| {
            ClientState::from_bytes(&file(tensors, metadata), state().job).expect_err("it is refused")
        };
        assert_eq!(read(&[], &valid[1..]), ClientStateError::WrongFormat(String::new()));
        assert_eq!(read(&[], &valid[..2]), ClientStateError::BadMetadata("round"));
        let bad_round = [valid[0], valid[1], ("round", "-1")];
        assert_eq!(read(&[], &bad_round), ClientStateError::BadMetadata("round"));
        let bad_hash = [valid[0], ("model_sha256", "ab"), valid[2]];
        assert_eq!(read(&[], &bad_hash), ClientStateError::BadMetadata("model_sha256"));
        let matrix = Tensor { name: "m", shape: &[1, 2], data: Data::F32(&[1.0, 2.0]) };
        let halves = Tensor { name: "h", shape: &[2], data: Data::Bytes(Dtype::F16, &[0; 4]) };
        for tensor in [matrix, halves] {
            assert_eq!(read(&[tensor], &valid), ClientStateError::NotAVector(tensor.name.to_owned()));
        }
    }
}
