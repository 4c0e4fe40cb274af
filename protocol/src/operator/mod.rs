//! Requests and responses of the operator API, which command line and dashboard use.
//!
//! Lists are paged with `?limit=` (1 to [`PAGE_ITEMS_MAX`]) and `?after=` (the `next` of the page before).
//! Fields that end in `_at_ms` are milliseconds since 1970 (UTC); other fields in `_ms` are durations.

mod access;
mod adapted;
mod answers;
mod assignment;
mod audit;
mod budget;
mod buffer;
mod client;
mod curve;
mod detail;
mod draft;
mod event;
mod filing;
mod group;
mod health;
mod job;
mod ledger;
mod measured;
mod node;
mod order;
mod outlook;
mod overview;
mod people;
mod privacy;
mod progress;
mod release;
mod ring;
mod round;
mod scalars;
mod schedule;
mod system;
mod table;
mod test_set;
mod version;

use serde::{Deserialize, Serialize};

pub use access::{
    Account, ChangePassword, CreateAccount, CreateToken, CreatedToken, ENROLMENTS_PER_MINUTE_DEFAULT, LABEL_BYTES_MAX,
    Login, OPERATOR_TOKEN_VALID_FOR_MS_DEFAULT, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, REQUESTED_BY, Session,
    SignInWays, SignedIn, Token,
};
pub use adapted::{Adapted, AdaptedGoal};
pub use answers::{Answer, Estimate, JobAnswers};
pub use assignment::Assignment;
pub use audit::{AuditEntry, AuditQuery, AuditRow, CHAIN_BEGINS, ChainCheck, ChainError, FoldedEntries};
pub use budget::{BudgetPart, BudgetState, PopulationBudget, SharedBudget};
pub use buffer::{RoundBuffer, StaleClient, StalenessCount};
pub use client::{ChangeStanding, Client, CreatePopulation, Population};
pub use curve::{Curve, CurveMark, CurvePoint, Target};
pub use detail::{MemberClock, PhaseSpan, RoundDetail, WhatIf};
pub use draft::JobDraft;
pub use event::Event;
pub use filing::{ChangeJob, NOTES_BYTES_MAX, TAGS_MAX};
pub use group::{GroupProgress, RoundGroup, RoundGroupMember};
pub use health::Health;
pub use job::{CreateJob, Job, JobHead};
pub use ledger::{LedgerEntry, check_ledger};
pub use measured::MeasuredOn;
pub use node::{Lease, Node, NodeShard};
pub use order::{ClientOrder, Order, RoundSort};
pub use outlook::{Outlook, OutlookPoint};
pub use overview::{Cell, JobOverview, JobSummary, OpenRound, Overview, SparkPoint};
pub use people::{AttributeName, ClassStats, ClientAssignment, ShapeCount};
pub use privacy::{EpsilonPair, JobPrivacy, JobPrivacyState};
pub use progress::{BestVersion, Progress, UsefulUpdates};
pub use release::{CreateRelease, HeldRelease, Release, WidenRelease};
pub use ring::{RingAttempt, RingBlame, RingPart, RoundRing};
pub use round::Round;
pub use scalars::{ScalarCurve, ScalarPoint, ScalarSummary};
pub use schedule::{ScheduledRun, ScheduledWork};
pub use system::{DbLatency, Engine, LoadSample, Storage, System};
pub use table::{RoundTable, ScalarsOf};
pub use test_set::{TestSet, TestSetState};
pub use version::ModelVersion;

/// Largest `limit` of a page.
pub const PAGE_ITEMS_MAX: u32 = 1000;
/// Default `limit` of a page.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The items, in the order that the call documents.
    pub items: Vec<T>,
    /// Value of `after` for the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Query of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Most items of the page, 1 to 1000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}
