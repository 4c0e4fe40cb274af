//! Errors as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::problem::{Problem, ProblemType};

use super::observe::problem_response;
use crate::blob::BlobError;
use crate::central::{self, TestSetError};
use crate::db::DbError;
use crate::lifecycle::budget::BudgetRefusal;
use crate::lifecycle::jobs::JobRefusal;
use crate::lifecycle::releases::ReleaseRefusal;
use crate::models::first::UploadError;
use crate::models::fixed::FixedError;
use crate::models::version::VersionError;
use crate::people::PasswordsBusy;
use crate::releases::make::MakeError;

/// Retry delay of clients after the database or the object store failed to answer, in milliseconds.
const UNAVAILABLE_RETRY_MS: u64 = 2_000;
/// The same when too many passwords are being checked.
const PASSWORDS_RETRY_MS: u64 = 2_000;

#[derive(Debug)]
pub(super) struct ApiError(Box<Problem>);

pub(super) type Answer<T> = Result<T, ApiError>;

impl ApiError {
    pub(super) fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(kind, detail)))
    }

    pub(super) fn retry_after_ms(self, retry_after_ms: u64) -> Self {
        Self(Box::new(self.0.retry_after_ms(retry_after_ms)))
    }

    pub(super) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(ProblemType::NotFound, format!("there is no {what}"))
    }

    /// A fault of the coordinator. The caller gets a generic detail; the log has the error.
    pub(super) fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Self::new(ProblemType::Internal, "the coordinator's log says more")
    }
}

impl From<DbError> for ApiError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Unavailable(source) => {
                tracing::error!(error = %source, "the database does not answer");
                Self::new(ProblemType::Unavailable, "the database does not answer; nothing was changed")
                    .retry_after_ms(UNAVAILABLE_RETRY_MS)
            }
            DbError::Replaced { .. } => {
                tracing::error!(%error, "nothing can be stored");
                Self::new(ProblemType::Unavailable, "the database is gone; nothing was changed")
                    .retry_after_ms(UNAVAILABLE_RETRY_MS)
            }
            other => Self::internal(other),
        }
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Db(error) => error.into(),
            BlobError::Store(_) | BlobError::Stale(_) => {
                tracing::error!(%error, "the object store does not answer");
                Self::new(ProblemType::Unavailable, "the object store does not answer; nothing was changed")
                    .retry_after_ms(UNAVAILABLE_RETRY_MS)
            }
            BlobError::Superseded(_) => {
                Self::new(ProblemType::UploadSuperseded, "this update is being sent by another request")
            }
            BlobError::Displaced => {
                Self::new(ProblemType::Unavailable, error.to_string()).retry_after_ms(UNAVAILABLE_RETRY_MS)
            }
            other => Self::internal(other),
        }
    }
}

impl From<PasswordsBusy> for ApiError {
    fn from(PasswordsBusy: PasswordsBusy) -> Self {
        Self::new(ProblemType::TooManyRequests, "too many passwords are being checked")
            .retry_after_ms(PASSWORDS_RETRY_MS)
    }
}

impl From<VersionError> for ApiError {
    fn from(error: VersionError) -> Self {
        match error {
            VersionError::Blob(error) => error.into(),
            VersionError::Form(error) => Self::internal(error),
        }
    }
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Model(error) => Self::new(ProblemType::ModelInvalid, error.to_string()),
            UploadError::Version(error) => error.into(),
        }
    }
}

impl From<FixedError> for ApiError {
    fn from(error: FixedError) -> Self {
        match error {
            FixedError::Version(error) => error.into(),
            error => Self::new(ProblemType::JobFileInvalid, error.to_string()),
        }
    }
}

impl From<MakeError> for ApiError {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::Blob(error) => error.into(),
            MakeError::Model(error) => Self::internal(error),
            MakeError::Version(error) => error.into(),
        }
    }
}

impl From<ReleaseRefusal> for ApiError {
    fn from(refusal: ReleaseRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            ReleaseRefusal::NotFound(_) => Self::new(ProblemType::NotFound, detail),
            ReleaseRefusal::Stands(_) | ReleaseRefusal::Share(_) | ReleaseRefusal::Overtaken => {
                Self::new(ProblemType::WrongState, detail)
            }
            ReleaseRefusal::Blob(error) => error.into(),
        }
    }
}

impl From<central::UploadError> for ApiError {
    fn from(error: central::UploadError) -> Self {
        match error {
            central::UploadError::TestSet(error) => error.into(),
            central::UploadError::Blob(error) => error.into(),
        }
    }
}

impl From<TestSetError> for ApiError {
    fn from(error: TestSetError) -> Self {
        Self::new(ProblemType::TestSetInvalid, error.to_string())
    }
}

impl From<BudgetRefusal> for ApiError {
    fn from(refusal: BudgetRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            BudgetRefusal::Db(error) => error.into(),
            BudgetRefusal::NoPopulation(_) => Self::new(ProblemType::NotFound, detail),
            BudgetRefusal::Wrong(_) => Self::new(ProblemType::Malformed, detail),
            BudgetRefusal::NotPrivate { .. }
            | BudgetRefusal::OtherUnit { .. }
            | BudgetRefusal::TestKey { .. }
            | BudgetRefusal::Spent { .. }
            | BudgetRefusal::Larger(_) => Self::new(ProblemType::WrongState, detail),
        }
    }
}

impl From<JobRefusal> for ApiError {
    fn from(refusal: JobRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            JobRefusal::NotFound(_) => Self::new(ProblemType::NotFound, detail),
            JobRefusal::NameTaken { .. } => Self::new(ProblemType::NameTaken, detail),
            JobRefusal::WrongState { .. }
            | JobRefusal::HasModel(_)
            | JobRefusal::Lives(_)
            | JobRefusal::RoundOpen(_) => Self::new(ProblemType::WrongState, detail),
            JobRefusal::Budget(BudgetRefusal::Db(error)) => error.into(),
            JobRefusal::Budget(_) => Self::new(ProblemType::JobFileInvalid, detail),
            JobRefusal::Blob(error) => error.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let retry_after_s = self.0.retry_after_ms.map(|ms| ms.div_ceil(1000));
        let mut response = problem_response(*self.0);
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
