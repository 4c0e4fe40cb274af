//! Spans for an OpenTelemetry collector, if the program was built with the feature `otlp`.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod exporter;

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::Exporter;
#[cfg(feature = "otlp")]
pub(crate) use exporter::Exporter;
