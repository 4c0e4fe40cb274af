//! Errors of job files.

use crate::analysis::AnalysisError;
use crate::inputs::InputsError;
use crate::layers::ModelSpecError;
use crate::plan::TrainingError;
use crate::update::CodecError;

/// Largest job file in bytes.
pub const JOB_FILE_BYTES_MAX: usize = 256 * 1024;

/// A text that is not a valid job file.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// The file exceeds [`JOB_FILE_BYTES_MAX`].
    #[error("a job file has at most {JOB_FILE_BYTES_MAX} bytes; this one has {0}")]
    TooLarge(usize),
    /// The text is not TOML, has an unknown key, or a value of the wrong type.
    #[error("not a job file: {}", in_words(&.0.to_string()))]
    Toml(#[from] toml::de::Error),
    /// The text is not JSON, has an unknown key, or a value of the wrong type.
    #[error("not a job file: {}", in_words(&.0.to_string()))]
    Json(#[from] serde_json::Error),
    /// The layers of the network do not fit each other.
    #[error("[model] {0}")]
    Model(#[from] ModelSpecError),
    /// A query is malformed.
    #[error("[analysis] {0}")]
    Analysis(#[from] AnalysisError),
    /// The inputs are malformed, or do not fit network or loss.
    #[error("[model.inputs] {0}")]
    Inputs(#[from] InputsError),
    /// A training setting is missing, contradictory or out of range.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// A setting of the codec is out of range.
    #[error("[update] {0}")]
    Codec(#[from] CodecError),
    /// Two settings contradict each other.
    #[error("{first} does not go with {second}: {why}")]
    Senseless {
        /// Section and key of the one.
        first: &'static str,
        /// Section and key of the other.
        second: &'static str,
        /// The reason.
        why: String,
    },
    /// Another setting is out of range.
    #[error("{setting} must be {range}")]
    OutOfRange {
        /// Section and key, such as `[round] deadline_ms`.
        setting: &'static str,
        /// The allowed values, in words.
        range: String,
    },
}

/// What serde calls the types of numbers, for those who wrote the file.
const TYPES: [(&str, &str); 7] = [
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected u32", "expected a whole number, 0 or more"),
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected f32", "expected a number"),
    ("expected f64", "expected a number"),
];

/// The message of a reader in words.
fn in_words(message: &str) -> String {
    TYPES.iter().fold(message.to_owned(), |text, (of_rust, words)| text.replace(of_rust, words))
}

/// Refuses a setting unless the condition holds.
pub(super) fn require(holds: bool, setting: &'static str, range: &str) -> Result<(), JobFileError> {
    if holds { Ok(()) } else { Err(JobFileError::OutOfRange { setting, range: range.to_owned() }) }
}
