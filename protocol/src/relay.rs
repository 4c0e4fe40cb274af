//! What a relay and its parent say to each other beside what every client says.
//!
//! To its own clients a relay is a coordinator; to its parent it is one client that reports what their reports come to:
//! the exact sum of their updates ([`crate::sum`]), of their evaluations, or of the sums of their tables.
//!
//! | call | request | response |
//! |---|---|---|
//! | `POST /device/v1/checkins` | `relay`: a [`RelayOffer`] | an assignment with `relay`: [`RelayTerms`] |
//! | `PUT /device/v1/relay/jobs` | [`RelayJobs`] that the relay plays | those of them that have ended |
//! | `PUT /device/v1/assignments/{id}/sum?..` | [`SumQuery`] and the body of a sum | `ReportAccepted` |
//! | `HEAD`, `PATCH /device/v1/assignments/{id}/sum` | as for updates | as for updates |
//! | `PUT /device/v1/assignments/{id}/evaluation?reports=4` | [`ReportQuery`] and an [`EvaluationReport`] | `ReportAccepted` |
//! | `PUT /device/v1/assignments/{id}/description?reports=4` | [`ReportQuery`] and a [`Description`] | `ReportAccepted` |

use serde::{Deserialize, Serialize};

use crate::coded_tree::Branch;
use crate::device::{EvaluationReport, UpdateQuery};
use crate::id::JobId;
use crate::inputs::Description;
use crate::job_file::JobFile;
use crate::scalars::Scalars;

/// Most clients that a relay may stand for in one round.
pub const PLACES_MAX: u32 = 10_000;

/// The attribute that an enrolment token grants to relays, with the value `true`. Without it a client sends no sums.
pub const RELAY_ATTRIBUTE: &str = "relay";

/// What a relay offers when it checks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayOffer {
    /// Clients that wait at the relay, 0 to 10,000: it can stand for as many in a job that names no example set. For
    /// jobs that name one, `sets` of the check-in has their numbers. With 0 it gets no work.
    pub places: u32,
}

/// Most jobs for which a relay asks at a time.
pub const RELAY_JOBS_MAX: usize = 100;

/// Jobs that a relay plays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayJobs {
    /// Their ids, at most 100. In the answer, those that have ended at the parent, or that it does not have.
    pub jobs: Vec<JobId>,
}

/// What a relay needs to play its part of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelayTerms {
    /// Most clients whose reports the relay brings.
    pub places: u32,
    /// Clients of the whole round. With the caps of the job they fix the binary point, which all its sums share.
    pub cohort: u32,
    /// Largest L2 norm of an update. Absent without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_max: Option<f64>,
    /// The place of the relay in a coded tree, where the job's `[coded]` says how many clients take part. Absent in
    /// other rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// The job.
    pub job: JobFile,
}

/// What is known of a sum beside its values, in the query of its upload. Number and weight of its updates are in the
/// body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct SumQuery {
    /// Examples behind the updates of the sum.
    pub examples: u64,
    /// Mean loss of the local trainings, weighted by examples, at most 1e12 in magnitude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Optimiser steps of all clients.
    pub steps: u64,
    /// Time that the clients trained, in milliseconds, summed over them.
    pub train_ms: u64,
    /// Means of the named scalars, weighted by examples, as `name:value,name:value`; at most 32.
    #[serde(default, with = "crate::scalars::text", skip_serializing_if = "Scalars::is_empty")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub metrics: Scalars,
    /// Bytes of the updates that the relay received. Absent if the sender is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_below: Option<u64>,
    /// How long the parent took to answer a question of the relay lately, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<u64>,
}

/// For how many clients an evaluation or a description stands, in its query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ReportQuery {
    /// Reports that a relay has added up, at least 1. Absent: the report is the client's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<u32>,
}

/// What a relay brings its parent.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The sum of its clients' updates.
    Updates {
        /// A `tributary-sum-1`.
        body: Vec<u8>,
        /// What is known of it beside its values.
        query: SumQuery,
    },
    /// The combination of its children's updates in a coded tree.
    Combination {
        /// An update.
        body: Vec<u8>,
        /// What is known of it beside its values.
        query: UpdateQuery,
    },
    /// What so many evaluations come to: examples and counts are sums, and each example counts in the means as often as
    /// in the evaluations.
    Evaluations {
        /// Number of evaluations.
        reports: u32,
        /// Their sums and means.
        report: EvaluationReport,
    },
    /// The sums of so many tables.
    Descriptions {
        /// Number of tables.
        reports: u32,
        /// Their sums, exactly.
        sums: Description,
    },
}

/// What became of what a relay brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The parent has accepted it, now or when an earlier delivery ended without an answer. It counts exactly once.
    Counted,
    /// The parent will never accept it, for this reason: the round is over, or it breaks a rule.
    Refused(String),
}
