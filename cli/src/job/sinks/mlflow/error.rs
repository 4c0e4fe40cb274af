//! Why a call of MLflow fails.

use crate::error::{Failure, exit};

#[derive(Debug, thiserror::Error)]
pub(crate) enum MlflowError {
    /// MLflow refused, or its answer is not of this API.
    #[error("MLflow: {call}: {cause}")]
    Refused { call: String, cause: String },
    /// No connection, or a gateway without MLflow behind it.
    #[error("cannot reach MLflow at {server}: {cause}")]
    Unreachable { server: String, cause: String },
}

impl Failure for MlflowError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Refused { .. } => exit::FAILED,
            Self::Unreachable { .. } => exit::UNREACHABLE,
        }
    }

    fn hint(&self) -> Option<String> {
        let is_away = matches!(self, Self::Unreachable { .. });
        is_away.then(|| "is --mlflow the address of a running `mlflow server`?".into())
    }
}
