//! How models travel to the clients: in which form, and whether as steps from the version before.
//!
//! All clients of a round begin with the same bits: in the form of a job's choice the coordinator writes each version
//! once, and what every client decodes from that one file is what it trains from.

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;

/// Most steps that a client adds to a model that it has; whoever missed more rounds fetches the whole model.
pub const DELTA_CHAIN_MAX: u32 = 3;

/// How models travel to the clients (`[download]` of a job file).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Download {
    /// The form in which training clients and evaluators fetch the model.
    pub codec: ModelForm,
    /// Whether each round's step is rounded to 8-bit numbers, so that a client that has the version before fetches only
    /// those. The step that is added to the model is the rounded one: model and file never drift apart.
    pub delta: bool,
}

/// How the values of a whole model are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelForm {
    /// As they are.
    #[default]
    F32,
    /// In half precision, 11 bits each; values beyond 65,504 become that.
    F16,
    /// As 8-bit numbers, one scale for each 64 of them.
    Int8,
}

impl Download {
    /// Whether models travel as they are.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether its settings go together: steps lead from one f32 model to the next.
    #[must_use]
    pub fn makes_sense(&self) -> bool {
        !self.delta || self.codec == ModelForm::F32
    }
}

impl ModelForm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// The word that stands for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }
}

/// Which form of a model is asked for, in the URL's query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct FormQuery {
    /// The form; the plain file when left out.
    #[serde(default)]
    pub form: ModelForm,
}

/// The file of a model in its job's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FormFile {
    /// The form.
    pub form: ModelForm,
    /// Hash of the body as it is sent, which may be one zstd frame.
    pub sha256: Sha256Hash,
    /// Its length.
    pub bytes: u64,
}

/// The file of a step: what a version has that the one before has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelDeltaFile {
    /// The version that it leads to, from the one before.
    pub version: u32,
    /// Hash of the plain file of the version before.
    pub base_sha256: Sha256Hash,
    /// Hash of the step's body as it is sent, which may be one zstd frame.
    pub sha256: Sha256Hash,
    /// Its length.
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
        assert!(serde_json::from_str::<FormQuery>(r#"{"from":"f16"}"#).is_err());
        assert_eq!(serde_json::from_str::<FormQuery>("{}").unwrap().form, ModelForm::F32);
    }
}
