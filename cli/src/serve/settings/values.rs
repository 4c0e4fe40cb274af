//! Values of single settings.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;
use tributary_protocol::id::Name;
use tributary_server::metrics::MetricsAccess;
use tributary_server::notify::{Format, Webhook};

use crate::units::{ByteSize, HttpUrl};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::serve) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MetricsFor {
    /// For everybody who reaches the coordinator.
    #[default]
    Open,
    /// For operators, with their token.
    Token,
    /// Nothing is measured.
    Off,
}

/// From 1 MiB to 4 GiB.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct UploadMemory(pub(super) usize);

/// A webhook, with `slack+` or `teams+` before the URL of a receiver that shows texts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct NotifyUrl(pub(super) Webhook);

/// The webhook of a population: `NAME=URL`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct NotifyPopulation(Name, NotifyUrl);

impl FromStr for NotifyUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, url) = match (text.strip_prefix("slack+"), text.strip_prefix("teams+")) {
            (Some(url), _) => (Format::Slack, url),
            (_, Some(url)) => (Format::Teams, url),
            (None, None) => (Format::Json, text),
        };
        let url: HttpUrl = url.parse().map_err(|error| format!("{error}"))?;
        Ok(Self(Webhook { url: url.url().clone(), format }))
    }
}

impl TryFrom<String> for NotifyUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl NotifyPopulation {
    pub(super) fn entry(&self) -> (Name, Webhook) {
        (self.0.clone(), self.1.0.clone())
    }
}

impl FromStr for NotifyPopulation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, url) = text.split_once('=').ok_or("a population's webhook is NAME=URL")?;
        Ok(Self(name.parse().map_err(|error| format!("{error}"))?, url.parse()?))
    }
}

impl TryFrom<String> for NotifyPopulation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for UploadMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.parse::<ByteSize>().map_err(|error| error.to_string())?.bytes();
        let allowed = ((1 << 20)..=(4 << 30)).contains(&bytes);
        if allowed { Ok(Self(bytes as usize)) } else { Err("it must be from 1MiB to 4GiB".into()) }
    }
}

impl TryFrom<String> for UploadMemory {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MetricsFor> for MetricsAccess {
    fn from(metrics: MetricsFor) -> Self {
        match metrics {
            MetricsFor::Open => Self::Open,
            MetricsFor::Token => Self::Token,
            MetricsFor::Off => Self::Off,
        }
    }
}
