//! How many bytes the JSON body of each call may have.

use tributary_protocol::credential::CertificateRequest;
use tributary_protocol::device::{CheckInRequest, EnrolRequest, EvaluationReport, FailureReport};
use tributary_protocol::group::messages::{RingOutcome, RingReady, RingStall};
use tributary_protocol::inputs::Description;
use tributary_protocol::job_file::{JOB_FILE_BYTES_MAX, RoundPolicyChange};
use tributary_protocol::operator::{
    ChangeJob, ChangePassword, ChangeStanding, CreateAccount, CreateJob, CreatePopulation, CreateRelease, CreateToken,
    Login, SharedBudget, WidenRelease,
};
use tributary_protocol::relay::RelayJobs;

use super::extract::Sent;

/// A job file with the other members of its request.
pub(super) const LARGEST: usize = JOB_FILE_BYTES_MAX + 4096;

macro_rules! bytes_max {
    ($($body:ty: $bytes:expr,)*) => {
        $(impl Sent for $body {
            const BYTES_MAX: usize = $bytes;
        })*
    };
}

// Texts count with their escapes, which make some of them several times as long.
bytes_max! {
    // Callers without a credential send it.
    Login: 4 << 10,
    // Attributes.
    CheckInRequest: 64 << 10,
    CreateToken: 64 << 10,
    // Attributes, a certificate request of 8 KiB and a statement of 64 KiB.
    EnrolRequest: 160 << 10,
    CertificateRequest: 16 << 10,
    // Counts by class.
    EvaluationReport: LARGEST,
    // Sums of up to 1,024 columns, and counts of categories, whose names a job file limits.
    Description: 1 << 20,
    FailureReport: 8 << 10,
    // Four addresses.
    RingReady: 8 << 10,
    RingStall: 1 << 10,
    RingOutcome: 1 << 10,
    // A hundred ids.
    RelayJobs: 8 << 10,
    CreateJob: LARGEST,
    ChangeJob: 32 << 10,
    RoundPolicyChange: 16 << 10,
    ChangeStanding: 8 << 10,
    CreateAccount: 8 << 10,
    ChangePassword: 8 << 10,
    CreatePopulation: 8 << 10,
    SharedBudget: 8 << 10,
    CreateRelease: 64 << 10,
    WidenRelease: 1 << 10,
}
