//! The recorder of one coordinator: handles by metric and label values, rendered for Prometheus.
//!
//! Each coordinator has a recorder of its own instead of the process's, because several coordinators may run in one
//! process. Without a recorder every handle does nothing.

use std::fmt;

use ::metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::table::{ALL, Kind, Metric};

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// Creates the handles.
pub(crate) struct Registry {
    recorder: Option<PrometheusRecorder>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Registry").field("on", &self.recorder.is_some()).finish()
    }
}

impl Registry {
    /// A registry with the help texts and the bounds of the table. If `on` is false, its handles do nothing.
    pub(crate) fn new(on: bool) -> Self {
        let recorder = on.then(|| {
            let mut builder = PrometheusBuilder::new();
            for Metric { name, kind, .. } in ALL {
                if let Kind::Histogram(bounds) = kind {
                    let matcher = Matcher::Full((*name).to_owned());
                    builder =
                        builder.set_buckets_for_metric(matcher, bounds).expect("the table's bounds are not empty");
                }
            }
            let recorder = builder.build_recorder();
            for Metric { name, kind, help, .. } in ALL {
                match kind {
                    Kind::Counter => recorder.describe_counter((*name).into(), None, (*help).into()),
                    Kind::Gauge => recorder.describe_gauge((*name).into(), None, (*help).into()),
                    Kind::Histogram(_) => recorder.describe_histogram((*name).into(), None, (*help).into()),
                }
            }
            recorder
        });
        Self { recorder }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    pub(crate) fn counter(&self, metric: &Metric, values: &[&str]) -> Counter {
        let handle = self.recorder.as_ref().map(|recorder| recorder.register_counter(&key(metric, values), &METADATA));
        handle.unwrap_or_else(Counter::noop)
    }

    pub(crate) fn gauge(&self, metric: &Metric, values: &[&str]) -> Gauge {
        let handle = self.recorder.as_ref().map(|recorder| recorder.register_gauge(&key(metric, values), &METADATA));
        handle.unwrap_or_else(Gauge::noop)
    }

    pub(crate) fn histogram(&self, metric: &Metric, values: &[&str]) -> Histogram {
        let handle =
            self.recorder.as_ref().map(|recorder| recorder.register_histogram(&key(metric, values), &METADATA));
        handle.unwrap_or_else(Histogram::noop)
    }

    /// All metrics in Prometheus's text format; none when nothing is recorded.
    pub(crate) fn render(&self) -> Option<String> {
        self.handle().map(|handle| handle.render())
    }

    /// Sorts recorded times into their buckets. Until then each takes a few bytes.
    pub(crate) fn tidy(&self) {
        if let Some(handle) = self.handle() {
            handle.run_upkeep();
        }
    }

    fn handle(&self) -> Option<PrometheusHandle> {
        self.recorder.as_ref().map(PrometheusRecorder::handle)
    }
}

fn key(metric: &Metric, values: &[&str]) -> Key {
    debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
    let labels = metric.labels.iter().zip(values).map(|(name, value)| Label::new(*name, (*value).to_owned()));
    Key::from_parts(metric.name, labels.collect::<Vec<_>>())
}
