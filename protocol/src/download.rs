//! Downloads of models: whole models in several forms, and model deltas between consecutive versions.
//!
//! All clients of a round start from the same bits: the coordinator encodes each version once, in the form that the job
//! chooses, and every client decodes that one file.

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;

/// Most consecutive model deltas that a client adds to the version it has. A client that missed more rounds downloads
/// the whole model.
pub const DELTA_CHAIN_MAX: u32 = 3;

/// Encoding of downloads (`[download]` of a job file).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Download {
    /// Form in which training clients and evaluators download the model. Default: `f32`.
    pub codec: ModelForm,
    /// Whether a client that has an earlier version downloads only the 8-bit model deltas since then. The coordinator
    /// adds the same rounded delta to its model, so both stay identical. Default: false.
    pub delta: bool,
}

/// Encoding of a whole model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelForm {
    /// 32-bit values, unchanged.
    #[default]
    F32,
    /// Half precision: 11 bits of precision; magnitudes above 65,504 become 65,504.
    F16,
    /// 8-bit integers, one scale per 64 values.
    Int8,
}

impl Download {
    /// Whether clients download plain f32 models.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the settings fit each other: model deltas lead from one f32 model to the next.
    pub fn is_consistent(&self) -> bool {
        !self.delta || self.codec == ModelForm::F32
    }
}

impl ModelForm {
    /// All forms.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// The word in job files and queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }
}

/// Query of a model download.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct FormQuery {
    /// Form of the file. Default: the plain f32 file.
    #[serde(default)]
    pub form: ModelForm,
}

/// The file of a model in the form of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FormFile {
    /// Encoding of the model.
    pub form: ModelForm,
    /// SHA-256 of the body as it is sent, compressed or not.
    pub sha256: Sha256Hash,
    /// Length of that body.
    pub bytes: u64,
}

/// The file of a vector that belongs to a model version, in the form of a plain model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompanionFile {
    /// SHA-256 of the file.
    pub sha256: Sha256Hash,
    /// Length of the file.
    pub bytes: u64,
}

/// The file of a model delta: the difference between a version and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelDeltaFile {
    /// The version that results when the delta is added to the version before it.
    pub version: u32,
    /// SHA-256 of the plain f32 file of the version before.
    pub base_sha256: Sha256Hash,
    /// SHA-256 of the delta's body as it is sent, compressed or not.
    pub sha256: Sha256Hash,
    /// Length of that body.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_written_as_its_word() {
        for form in ModelForm::ALL {
            assert_eq!(serde_json::to_value(form).unwrap(), form.as_str());
        }
        assert!(serde_json::from_str::<FormQuery>(r#"{"form":"int4"}"#).is_err());
        for query in ["{}", r#"{"newer":"f16"}"#] {
            assert_eq!(serde_json::from_str::<FormQuery>(query).unwrap().form, ModelForm::F32);
        }
    }
}
