//! Names of bodies, and of the files that belong to model versions.

use std::fmt;

use tributary_protocol::download::ModelForm;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::model::Companion;

/// What a file of a model version is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeFor {
    /// Clients that fetch the whole model in this form.
    Form(ModelForm),
    /// Clients that have the version before.
    Delta,
    /// The next round, which starts from it as from the model.
    Companion(Companion),
}

/// A form that no version has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no form of a model")]
pub struct UnknownForm(String);

impl MadeFor {
    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Form(form) => form.as_str(),
            Self::Delta => "delta",
            Self::Companion(companion) => companion.as_str(),
        }
    }
}

impl fmt::Display for MadeFor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl TryFrom<String> for MadeFor {
    type Error = UnknownForm;

    fn try_from(text: String) -> Result<Self, UnknownForm> {
        let companions = Companion::ALL.into_iter().map(Self::Companion);
        let mut all = ModelForm::ALL.into_iter().map(Self::Form).chain([Self::Delta]).chain(companions);
        all.find(|made| made.as_str() == text).ok_or(UnknownForm(text))
    }
}

/// The name of the body of a model version.
pub fn model_key(job: JobId, version: u32) -> String {
    format!("model/{job}/{version}")
}

/// The name of the body of a file that is made of a model version.
pub fn model_file_key(job: JobId, version: u32, form: MadeFor) -> String {
    match form {
        MadeFor::Form(form) => format!("model/{job}/{version}/{}", form.as_str()),
        MadeFor::Delta => format!("delta/{job}/{version}"),
        MadeFor::Companion(companion) => format!("companion/{job}/{version}/{}", companion.as_str()),
    }
}

/// The name of the body of a test set. Each upload has a number of its own.
pub fn test_set_key(job: JobId, upload: u64) -> String {
    format!("test_set/{job}/{upload:016x}")
}

/// The name of the body of an update.
pub fn update_key(assignment: AssignmentId) -> String {
    format!("update/{assignment}")
}

/// The name of the body of one part of an update.
pub fn part_key(assignment: AssignmentId, part: u16) -> String {
    format!("update/{assignment}/{part}")
}

/// The name of the body of a masked update, until the sum of its group is open.
pub fn masked_key(assignment: AssignmentId) -> String {
    format!("masked/{assignment}")
}
