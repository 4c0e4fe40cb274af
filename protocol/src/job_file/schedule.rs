//! The sections `[schedule]` (when rounds may start) and `[retention]` (what is kept of them).

use serde::{Deserialize, Serialize};

use super::error::{JobFileError, require};

/// Longest cron expression in bytes.
pub const CRON_BYTES_MAX: usize = 200;
/// Largest number in a rule about model versions.
pub const VERSIONS_MAX: u32 = 1_000_000;
/// Longest retention of history in days.
pub const HISTORY_DAYS_MAX: u32 = 36_500;

/// Times at which training rounds may start (`[schedule]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Cron expression of the minutes in which a training round may open: minute, hour, day of month, month, day of
    /// week. `* 22-23,0-5 * * *` allows every minute from 22:00 to 5:59.
    pub rounds: String,
    /// IANA name of the time zone of the expression, such as `Europe/Berlin`. Default: `UTC`.
    #[serde(default = "utc")]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Retention of models and history (`[retention]`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Model versions to keep. The newest version and those of open rounds are always kept. Default:
    /// `useful`.
    pub models: ModelsKept,
    /// Days after the end of a round when its assignments and events are deleted. The round's summary stays. Default:
    /// never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_days: Option<u32>,
}

/// The model versions to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelsKept {
    /// The newest 20 versions, the best one by its evaluation, and every 100th.
    #[default]
    Useful,
    /// All versions.
    All,
    /// The newest n versions.
    Last(u32),
    /// Every nth version: 0, n, 2n, and so on.
    Every(u32),
}

impl Schedule {
    /// Checks lengths only. The coordinator checks expression and zone: devices need no calendar, so this crate has
    /// none.
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        let short = |text: &str| (1..=CRON_BYTES_MAX).contains(&text.len());
        require(short(&self.rounds), "[schedule] rounds", "a cron expression of at most 200 bytes")?;
        require(short(&self.time_zone), "[schedule] time_zone", "an IANA time zone such as Europe/Berlin")
    }
}

impl Retention {
    pub(super) fn check(&self) -> Result<(), JobFileError> {
        let counted = match self.models {
            ModelsKept::Useful | ModelsKept::All => true,
            ModelsKept::Last(count) | ModelsKept::Every(count) => (1..=VERSIONS_MAX).contains(&count),
        };
        require(
            counted,
            "[retention] models",
            "\"useful\", \"all\", { last = n } or { every = n } with n from 1 to 1000000",
        )?;
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
            ("models = 'useful'", ModelsKept::Useful),
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
