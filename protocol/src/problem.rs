//! Errors on the wire: problem documents of RFC 9457, one enum for what can go wrong.

use serde::{Deserialize, Serialize};

/// The media type of a problem document.
pub const CONTENT_TYPE: &str = "application/problem+json";

macro_rules! problem_types {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $status:literal, $title:literal;)*) => {
        /// What went wrong, as a program tells it apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ProblemType {
            $($(#[$doc])* #[serde(rename = $slug)] $name,)*
        }

        impl ProblemType {
            /// Every type, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The URI reference that names the type in a problem document.
            #[must_use]
            pub fn uri(self) -> &'static str {
                match self {
                    $(Self::$name => $slug,)*
                }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// A short sentence, the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

problem_types! {
    /// Path, query or body does not parse.
    Malformed = "urn:tributary:problem:malformed", 400, "The request does not parse";
    /// No token, or one that is wrong, revoked or expired.
    Unauthorized = "urn:tributary:problem:unauthorized", 401, "A valid token is needed";
    /// A valid token that may not do this: another kind, or somebody else's assignment.
    Forbidden = "urn:tributary:problem:forbidden", 403, "This token may not do that";
    /// No such thing.
    NotFound = "urn:tributary:problem:not-found", 404, "There is no such thing";
    /// The path exists, the method does not.
    MethodNotAllowed = "urn:tributary:problem:method-not-allowed", 405, "This path does not take that method";
    /// The name is in use.
    NameTaken = "urn:tributary:problem:name-taken", 409, "The name is taken";
    /// The thing is in a state in which this is not possible.
    WrongState = "urn:tributary:problem:wrong-state", 409, "Not possible in the present state";
    /// Another update was already accepted for this assignment.
    UpdateConflict = "urn:tributary:problem:update-conflict", 409, "Another update was already accepted";
    /// The upload does not go on where the coordinator's part of it ends (the header `Upload-Offset` says where that is).
    UploadOffset = "urn:tributary:problem:upload-offset", 409, "The upload goes on at another byte";
    /// Another upload of the same update began meanwhile: the newer one counts.
    UploadSuperseded = "urn:tributary:problem:upload-superseded", 409, "Another upload of this update began";
    /// The body is not the one that its digest announces.
    DigestMismatch = "urn:tributary:problem:digest-mismatch", 422, "The body is not what its digest says";
    /// The round closed before the answer came: the work is dropped.
    AssignmentClosed = "urn:tributary:problem:assignment-closed", 410, "The round closed without this client";
    /// It was there once: the job's retention let it be deleted.
    Deleted = "urn:tributary:problem:deleted", 410, "Deleted, as the job's retention says";
    /// More bytes than allowed.
    TooLarge = "urn:tributary:problem:too-large", 413, "The body is too large";
    /// The file is shorter than the range asked for.
    RangeNotSatisfiable = "urn:tributary:problem:range-not-satisfiable", 416, "There are no such bytes";
    /// The update is not one that this job accepts.
    UpdateRejected = "urn:tributary:problem:update-rejected", 422, "The update was rejected";
    /// The job file does not describe a job.
    JobFileInvalid = "urn:tributary:problem:job-file-invalid", 422, "The job file is not valid";
    /// The uploaded model does not fit the job.
    ModelInvalid = "urn:tributary:problem:model-invalid", 422, "The model is not valid";
    /// More requests than the coordinator takes now.
    TooManyRequests = "urn:tributary:problem:too-many-requests", 429, "Too many requests";
    /// A fault in the coordinator.
    Internal = "urn:tributary:problem:internal", 500, "The coordinator failed";
    /// The database is unreachable or busy, or the coordinator is stopping.
    Unavailable = "urn:tributary:problem:unavailable", 503, "The coordinator cannot answer now";
}

/// A problem document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{title}: {detail}")]
pub struct Problem {
    /// What went wrong.
    #[serde(rename = "type")]
    pub kind: ProblemType,
    /// The type's sentence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time, and what the caller can do.
    pub detail: String,
    /// When a retry makes sense: how long to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The request that it answers, by the name that the coordinator's log has for it; also in the header
    /// `x-request-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// A problem of this type.
    pub fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Self {
            kind,
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: detail.into(),
            retry_after_ms: None,
            request_id: None,
        }
    }

    /// The same with a time after which a retry makes sense.
    #[must_use]
    pub fn retry_after_ms(self, retry_after_ms: u64) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_has_the_members_of_the_rfc() {
        let problem = Problem::new(ProblemType::AssignmentClosed, "round 3 closed").retry_after_ms(1500);
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["type"], "urn:tributary:problem:assignment-closed");
        assert_eq!(json["status"], 410);
        assert_eq!(json["detail"], "round 3 closed");
        assert_eq!(json["retry_after_ms"], 1500);
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    }

    #[test]
    fn every_type_has_its_own_uri() {
        let uris: std::collections::HashSet<_> = ProblemType::ALL.iter().map(|kind| kind.uri()).collect();
        assert_eq!(uris.len(), ProblemType::ALL.len());
    }
}
