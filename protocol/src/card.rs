//! What a model file says of itself.
//!
//! An exported file has a card in its metadata, under the key `tributary`, as JSON. With it the file alone is enough to
//! predict. The card is outside of a version's identity: the hash of a version is that of its plain file, which has
//! none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;
use crate::id::Name;
use crate::job_model::JobModel;
use crate::plan::Loss;
use crate::safetensors::model_metadata;

/// The key of the card in the metadata of a safetensors file.
pub const CARD: &str = "tributary";

/// What a model is, and how it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCard {
    /// Name of the job that made it.
    pub job: Name,
    /// Version in that job.
    pub version: u32,
    /// SHA-256 of the version's plain file.
    pub sha256: Sha256Hash,
    /// SHA-256 of the plan that its clients followed.
    pub plan_sha256: Sha256Hash,
    /// Loss that it was trained with: whether its outputs are scores of classes or values.
    pub loss: Loss,
    /// Its layers or parameters, and what it is fed.
    pub model: JobModel,
}

/// A file without a card, or with one that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// There is none.
    #[error("the file says nothing of its layers and inputs: `tributary job export` writes files that do")]
    Missing,
    /// It is of a newer release, or damaged.
    #[error("what the file says of its layers and inputs cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl ModelCard {
    /// The metadata of a file with this card.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = model_metadata();
        metadata.insert(CARD.to_owned(), serde_json::to_string(self).expect("a card has names and numbers"));
        metadata
    }

    /// The card in the metadata of a file.
    ///
    /// # Errors
    /// [`CardError`] if there is none, or it cannot be read.
    pub fn of(metadata: &BTreeMap<String, String>) -> Result<Self, CardError> {
        Ok(serde_json::from_str(metadata.get(CARD).ok_or(CardError::Missing)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_back_and_a_plain_file_has_none() {
        let card = ModelCard {
            job: "points".parse().unwrap(),
            version: 3,
            sha256: Sha256Hash::of(b"file"),
            plan_sha256: Sha256Hash::of(b"plan"),
            loss: Loss::CrossEntropy,
            model: serde_json::from_str(
                r#"{"input":[2],"layers":[{"kind":"relu"}],"inputs":{"columns":[{"name":"x"}]}}"#,
            )
            .unwrap(),
        };
        assert_eq!(ModelCard::of(&card.metadata()).unwrap(), card);
        assert_eq!(card.metadata()["format"], "pt");
        assert!(matches!(ModelCard::of(&model_metadata()), Err(CardError::Missing)));
        let damaged = BTreeMap::from([(CARD.to_owned(), "{}".to_owned())]);
        assert!(matches!(ModelCard::of(&damaged), Err(CardError::Unreadable(_))));
    }
}
