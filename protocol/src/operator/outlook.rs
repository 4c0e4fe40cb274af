//! What other deadlines would have done to the newest rounds of a job.

use serde::{Deserialize, Serialize};

/// The newest rounds of a job, played again with other deadlines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Outlook {
    /// Number of rounds that it is made of: at most the newest 20 with a deadline and with assignments.
    pub rounds: u32,
    /// Number of those that were abandoned for too few reports.
    pub abandoned: u32,
    /// The deadline of the job's next round, in milliseconds after the draw.
    pub deadline_ms: u64,
    /// The goal of the job's next round.
    pub goal: u32,
    /// The fewest reports of the job's next round.
    pub minimum: u32,
    /// Number of assignments of which only a lower limit of the time is known: they had not reported when their round
    /// closed. They count with the probability that the times of the others give them.
    pub censored: u32,
    /// Longest known time of a report after the draw, in milliseconds. Longer deadlines than this gain nothing that is
    /// known.
    pub longest_ms: u64,
    /// Deadlines, shortest first. Empty without rounds.
    pub points: Vec<OutlookPoint>,
    /// The shortest of these deadlines that abandons no more rounds than the longest one, and has 95 % of its reports.
    /// Absent without reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_ms: Option<u64>,
}

/// What one deadline would have done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutlookPoint {
    /// The deadline, in milliseconds after the draw of the cohort.
    pub deadline_ms: u64,
    /// Expected reports per round, at most the goal.
    pub reports: f64,
    /// Expected reports of the round with the fewest, rounded down, even above the goal.
    pub reports_min: u32,
    /// Rounds that would have been expected to end with fewer reports than the minimum.
    pub abandoned: u32,
    /// Mean time from the draw to the close, in milliseconds.
    pub lasts_ms: u64,
}
