//! The log of `tributary serve`: lines on standard error, and spans for a collector.

use std::io::IsTerminal;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tributary_protocol::id::Name;

use super::settings::{LogFormat, Settings};
use crate::error::CliError;
use crate::otlp::Exporter;

/// Starts to log. The exporter, if there is one, must be finished to send its last spans.
pub(super) fn start(settings: &Settings) -> Result<Option<Exporter>, CliError> {
    let filter: Targets =
        settings.log.parse().map_err(|error| CliError::BadSetting(format!("log {:?}: {error}", settings.log)))?;
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let log = tracing_subscriber::registry().with(filter).with(lines);
    let node = settings.coordinator.node.as_ref().map(Name::as_str);
    let exporter = settings.otlp_endpoint.as_ref().map(|url| Exporter::to(url.url(), node)).transpose()?;
    log.with(exporter.as_ref().map(Exporter::layer)).init();
    Ok(exporter)
}
