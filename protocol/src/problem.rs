//! Errors on the wire: problem documents (RFC 9457), and the list of their types.

use serde::{Deserialize, Serialize};

use crate::text::visible;

/// Media type of a problem document.
pub const CONTENT_TYPE: &str = "application/problem+json";

macro_rules! problem_types {
    ($($(#[$doc:meta])* $name:ident = $slug:literal, $status:literal, $title:literal;)*) => {
        /// The kind of error, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ProblemType {
            $($(#[$doc])* #[serde(rename = $slug)] $name,)*
        }

        impl ProblemType {
            /// All types, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The URI reference that names the type in a problem document.
            pub fn uri(self) -> &'static str {
                match self {
                    $(Self::$name => $slug,)*
                }
            }

            /// The HTTP status of the response.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// A short summary for people, the same for every occurrence.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

problem_types! {
    /// The path, query or body cannot be parsed.
    Malformed = "urn:tributary:problem:malformed", 400, "The request is malformed";
    /// The token is missing, unknown, revoked or expired.
    Unauthorized = "urn:tributary:problem:unauthorized", 401, "A valid token is needed";
    /// The coordinator identifies clients by certificates, and the connection has none.
    CertificateRequired = "urn:tributary:problem:certificate-required", 401, "A client certificate is needed";
    /// The certificate was not issued to this client by the CA of its population.
    CertificateInvalid = "urn:tributary:problem:certificate-invalid", 401, "The client certificate is not accepted";
    /// The certificate is not valid any more. The client can enrol again.
    CertificateExpired = "urn:tributary:problem:certificate-expired", 401, "The client certificate has expired";
    /// The operator's attestation webhook did not allow this enrolment.
    AttestationRefused = "urn:tributary:problem:attestation-refused", 403, "The device was not attested";
    /// The token is valid but does not allow this: it is of another kind, or the assignment belongs to another client.
    Forbidden = "urn:tributary:problem:forbidden", 403, "This token does not allow that";
    /// An operator revoked this client: it takes part no more.
    ClientRevoked = "urn:tributary:problem:client-revoked", 403, "This client was revoked";
    /// The path, or the object that it names, does not exist.
    NotFound = "urn:tributary:problem:not-found", 404, "Not found";
    /// The path exists, but not with this method.
    MethodNotAllowed = "urn:tributary:problem:method-not-allowed", 405, "This path does not support that method";
    /// The body did not arrive in time.
    Timeout = "urn:tributary:problem:timeout", 408, "The request took too long";
    /// Another object has this name.
    NameTaken = "urn:tributary:problem:name-taken", 409, "The name is taken";
    /// The object is in a state in which this is not possible.
    WrongState = "urn:tributary:problem:wrong-state", 409, "Not possible in the current state";
    /// The coordinator has accepted another update for this assignment.
    UpdateConflict = "urn:tributary:problem:update-conflict", 409, "Another update was already accepted";
    /// The body does not continue where the bytes that the coordinator has end. The header `Upload-Offset` names that
    /// offset.
    UploadOffset = "urn:tributary:problem:upload-offset", 409, "The upload continues at another offset";
    /// A newer request uploads the same update. The newest request wins.
    UploadSuperseded = "urn:tributary:problem:upload-superseded", 409, "A newer upload of this update has begun";
    /// The SHA-256 of the body is not the one in `Repr-Digest`.
    DigestMismatch = "urn:tributary:problem:digest-mismatch", 422, "The body does not match its digest";
    /// The round closed before the client reported. The work is discarded.
    AssignmentClosed = "urn:tributary:problem:assignment-closed", 410, "The round has closed";
    /// The client's group has no sum, so its masked update is lost. The work is discarded.
    GroupFailed = "urn:tributary:problem:group-failed", 410, "The group has failed";
    /// The client's group is past the stage of this message, or not there yet.
    GroupClosed = "urn:tributary:problem:group-closed", 410, "The group is at another stage";
    /// The update is more versions behind than its job allows. The work is discarded; new work is there at once.
    UpdateStale = "urn:tributary:problem:update-stale", 410, "The update is too stale";
    /// The object existed and was deleted under the job's retention policy.
    Deleted = "urn:tributary:problem:deleted", 410, "Deleted under the job's retention policy";
    /// The body exceeds its limit.
    TooLarge = "urn:tributary:problem:too-large", 413, "The body is too large";
    /// The requested range is beyond the end of the file.
    RangeNotSatisfiable = "urn:tributary:problem:range-not-satisfiable", 416, "The requested range is beyond the file";
    /// The update fails one of the job's checks.
    UpdateRejected = "urn:tributary:problem:update-rejected", 422, "The update was rejected";
    /// The job file has an unknown key, a wrong value or a model that does not fit together.
    JobFileInvalid = "urn:tributary:problem:job-file-invalid", 422, "The job file is not valid";
    /// The uploaded model does not fit the job.
    ModelInvalid = "urn:tributary:problem:model-invalid", 422, "The model is not valid";
    /// The uploaded test set does not fit the job's network.
    TestSetInvalid = "urn:tributary:problem:test-set-invalid", 422, "The test set is not valid";
    /// The coordinator is at its limit of requests.
    TooManyRequests = "urn:tributary:problem:too-many-requests", 429, "Too many requests";
    /// An error inside the coordinator; its log has the details.
    Internal = "urn:tributary:problem:internal", 500, "Internal error";
    /// The database is unreachable or busy, or the coordinator is stopping.
    Unavailable = "urn:tributary:problem:unavailable", 503, "The coordinator cannot answer now";
}

/// An error response (RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{}: {}", visible(title), visible(detail))]
pub struct Problem {
    /// The kind of error, for programs.
    #[serde(rename = "type")]
    pub kind: ProblemType,
    /// Summary of the type, the same for every occurrence.
    pub title: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// This occurrence of the error, and what the caller can do about it.
    pub detail: String,
    /// Time to wait before a retry, in milliseconds. Absent where a retry cannot succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Id of the request in the coordinator's log; also in the header `x-request-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// A problem of this type, with the type's title and status.
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

    /// Adds the time to wait before a retry.
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
