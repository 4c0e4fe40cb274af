//! When rounds may start (`[schedule]`), and what is kept of them (`[retention]`).

use serde::{Deserialize, Serialize};

use super::{JobFileError, require};

/// Longest cron expression in bytes.
pub const CRON_BYTES_MAX: usize = 200;
/// Most versions that a retention counts.
pub const VERSIONS_MAX: u32 = 1_000_000;
/// Longest history in days.
pub const HISTORY_DAYS_MAX: u32 = 36_500;

/// When rounds may start (`[schedule]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The minutes in which a training round may open, as a cron expression: minute, hour, day of month, month, day of
    /// week. `* 22-23,0-5 * * *` is every minute of the nights from 22:00 to 5:59.
    pub rounds: String,
    /// The zone whose wall clocks the expression is about, by its IANA name: `Europe/Berlin`.
    #[serde(default = "utc")]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What is kept (`[retention]`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Which model versions. The newest, and those that open rounds use, are kept whatever this says.
    pub models: ModelsKept,
    /// Days after which the assignments and events of an ended round are deleted; its summary stays. Left out: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_days: Option<u32>,
}

/// Which model versions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelsKept {
    /// All of them.
    #[default]
    All,
    /// The newest n.
    Last(u32),
    /// Those whose number n divides: 0, n, 2n, ..
    Every(u32),
}

impl Schedule {
    /// What can be said without a calendar; whether the expression and the zone exist is for the coordinator to say,
    /// since devices need neither.
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        let short = |text: &str| (1..=CRON_BYTES_MAX).contains(&text.len());
        require(short(&self.rounds), "[schedule] rounds", "a cron expression of at most 200 bytes")?;
        require(short(&self.time_zone), "[schedule] time_zone", "an IANA time zone such as Europe/Berlin")
    }
}

impl Retention {
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        let counted = match self.models {
            ModelsKept::All => true,
            ModelsKept::Last(count) | ModelsKept::Every(count) => (1..=VERSIONS_MAX).contains(&count),
        };
        require(counted, "[retention] models", "\"all\", { last = n } or { every = n } with n from 1 to 1000000")?;
        let days = self.history_days.is_none_or(|days| (1..=HISTORY_DAYS_MAX).contains(&days));
        require(days, "[retention] history_days", "1 to 36500")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_keep_models_reads_and_writes() {
        let cases = [
            ("models = 'all'", ModelsKept::All),
            ("models = { last = 3 }", ModelsKept::Last(3)),
            ("models = { every = 10 }\nhistory_days = 30", ModelsKept::Every(10)),
        ];
        for (text, models) in cases {
            let retention: Retention = toml::from_str(text).unwrap();
            assert_eq!(retention.models, models);
            retention.check().unwrap();
            let json = serde_json::to_string(&retention).unwrap();
            assert_eq!(serde_json::from_str::<Retention>(&json).unwrap(), retention, "{json}");
            let written = toml::to_string(&retention).unwrap();
            assert_eq!(toml::from_str::<Retention>(&written).unwrap(), retention, "{written}");
        }
    }

    #[test]
    fn what_would_keep_nothing_or_mean_nothing_is_named() {
        let cases = [
            ("models = { last = 0 }", "[retention] models"),
            ("models = { every = 1000001 }", "[retention] models"),
            ("history_days = 0", "[retention] history_days"),
        ];
        for (text, named) in cases {
            let retention: Retention = toml::from_str(text).unwrap();
            assert!(retention.check().unwrap_err().to_string().starts_with(named), "{text}");
        }
        for text in ["models = 'none'", "models = { first = 1 }", "models = { last = -1 }", "history = 1"] {
            assert!(toml::from_str::<Retention>(text).is_err(), "{text}");
        }
    }
}
