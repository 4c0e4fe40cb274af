//! Updates: one client's weight delta (local minus global weights) as a file.
//!
//! Codecs of fixed width write a safetensors file, whose `__metadata__` holds `format`, `codec`, `job` and
//! `base_version`. The others write a frame of sections behind a tag, the hash of these four.
//! [`encode`] is the client's half. [`UpdateDecoder`] is the server's half: it streams, and trusts nothing in the file.
//! [`Codec`] lists the codecs; each is one module in `codecs/` that holds both halves.
//!
//! The same codecs write two kinds of downloads: model deltas ([`ModelDeltaWriter`]) and whole models ([`FormWriter`]).
//!
//! | module | what it holds |
//! |---|---|
//! | `header`, `size` | metadata and tag of an update, the longest file that one can have |
//! | `encode`, `decoder` | the two halves for all codecs |
//! | `codec`, `codecs/` | the codecs, their settings and properties |
//! | `frame`, `coding/` | sections of values, entropy coding |
//! | `shards` | ranges of the parameters that travel apart |
//! | `statistics` | norm and largest magnitude of a delta |
//! | `residual/` | error feedback |
//! | `model_delta`, `form` | downloads |

mod codec;
mod codecs;
mod coding;
mod decoder;
mod encode;
mod error;
mod form;
mod format;
mod frame;
mod header;
mod model_delta;
mod residual;
mod shards;
mod sink;
mod size;
mod statistics;

#[cfg(feature = "openapi")]
pub(crate) use codec::WrittenCodec;
pub use codec::{Codec, CodecError, CodecName};
pub use codecs::{
    Blocks, Dgc, Eden, Hierarchical, Properties, Qsgd, RESIDUAL_AGE_ROUNDS_MAX, RandomK, SparseValues, Ternary, TopK,
};
pub use decoder::{NORM_TOLERANCE, UpdateDecoder, UpdateLimits, UpdateStatistics};
pub use encode::encode;
pub use error::{EncodeError, SectionError, UpdateError};
pub use form::{FormBodyError, FormDecoder, FormError, FormSurvey, FormWriter, form_bytes, model_in_form};
pub use format::FORMAT;
pub use header::UpdateHeader;
pub use model_delta::{ModelDeltaSurvey, ModelDeltaWriter, add_model_delta, model_delta_bytes_max, model_delta_header};
pub use residual::{Feedback, Residual, ResidualError, encode_with_residual};
pub use shards::{SHARD_VALUES_MIN, SHARDS_MAX, Shard, cut};
pub use sink::DeltaSink;
pub use size::bytes_max;
