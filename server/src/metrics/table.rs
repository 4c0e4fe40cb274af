//! The table of all metrics. No other metric can be registered, and the table of `docs/metrics.md` is generated from
//! it.
//!
//! Labels are bounded, because each combination is a time series that Prometheus keeps: enumerations, routes, codecs,
//! and the names of populations (at most [`POPULATIONS_MAX`]). No label holds a client, a job, a token or a caller's
//! text.
//!
//! [`POPULATIONS_MAX`]: super::POPULATIONS_MAX

/// A metric. Its name ends in its unit, by Prometheus's convention.
#[derive(Debug)]
pub struct Metric {
    /// The name, with the unit at the end.
    pub name: &'static str,
    /// How it behaves over time.
    pub kind: Kind,
    /// Names of the labels, at most four.
    pub labels: &'static [&'static str],
    /// The `# HELP` line, and the last column of the page.
    pub help: &'static str,
}

/// Prometheus's type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Starts at 0 with the process and only grows.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts of values up to each of these bounds.
    Histogram(&'static [f64]),
}

/// Bounds for databases and object stores, in seconds.
const FAST: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Bounds for requests, in seconds; check-ins are held for minutes.
const ANSWER: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Bounds for the phases of a round, in seconds: milliseconds in a demo, a day in a fleet.
const PHASE: &[f64] =
    &[0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0];

macro_rules! table {
    ($($id:ident = $kind:expr, $name:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric { name: $name, kind: $kind, labels: &[$($label),*], help: $help };
        )*

        /// Every metric, in the order of the documentation.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

use Kind::{Counter, Gauge, Histogram};

table! {
    ROUNDS_OPENED = Counter, "tributary_rounds_opened_total", ["population", "task"],
        "Rounds opened by this coordinator; `task` is train or evaluate";
    ROUNDS = Counter, "tributary_rounds_total", ["population", "task", "outcome", "reason"],
        "Rounds ended by this coordinator; `outcome` is committed or abandoned, `reason` is the reason of an abandoned round (none for a committed one)";
    ROUND_PHASE = Histogram(PHASE), "tributary_round_phase_seconds", ["task", "phase"],
        "Time that rounds spent in a phase, observed when they leave it: selecting, training, aggregating";
    COMMIT = Histogram(ANSWER), "tributary_commit_seconds", [],
        "Time to make the next model version and store it";
    JOBS = Gauge, "tributary_jobs", ["kind"],
        "Running jobs by what their most severe health line is about: fine, no_driver, rounds_abandoned, waiting_for_clients and so on; of the newest 100 jobs";
    DRIVER_FAILURES = Counter, "tributary_driver_failures_total", [],
        "Failed attempts of the driver to advance a job; it retries after a second";
    ASSIGNMENTS = Counter, "tributary_assignments_total", ["population", "task", "outcome"],
        "Clients selected for a round (`outcome` assigned) and how their assignments ended: reported, rejected, failed, lost (not in time, though the round needed it), spare (the round had its goal, or the job its end, without it); of the last two, late counts those whose client finished afterwards, stopped those whose client stopped unfinished";
    UPDATES = Counter, "tributary_updates_total", ["codec", "outcome"],
        "Updates that were accepted (`outcome` reported) or rejected, by the codec of their job";
    UPDATES_WAITING = Gauge, "tributary_updates_waiting", [],
        "Uploads that wait for upload memory; their bodies are not read";
    UPDATES_IN_FLIGHT = Gauge, "tributary_updates_in_flight", [],
        "Uploads that hold upload memory; their bodies are being received";
    UPDATE_PLACE = Histogram(ANSWER), "tributary_update_place_seconds", [],
        "Time for which uploads held upload memory, while their bodies were received, checked and decoded";
    FOLD = Histogram(FAST), "tributary_update_fold_seconds", [],
        "Time to decode one update, check it and add it to its round's sum, without waiting for its bytes";
    BYTES = Counter, "tributary_bytes_total", ["direction"],
        "Bytes of updates (`direction` up) and of models fetched for a round (down), counted when an assignment ends";
    RAW_BYTES = Counter, "tributary_raw_bytes_total", ["direction"],
        "Size that those bodies would have had as plain f32 files";
    CHECKINS = Counter, "tributary_checkins_total", ["population", "answer"],
        "Check-ins by answer: assigned, nothing_came (held until the time-out), no_job (the population has no running job), stopping (the coordinator shuts down)";
    CLIENTS_HELD = Gauge, "tributary_clients_held", [],
        "Clients whose check-in this coordinator holds until there is work";
    LEASES_HELD = Gauge, "tributary_leases_held", [],
        "Jobs that this coordinator drives";
    LEASE_CHANGES = Counter, "tributary_lease_changes_total", ["change"],
        "Changes of leases on jobs: `change` is taken (this coordinator did not hold the lease before) or lost (another coordinator took it)";
    DATABASE = Histogram(FAST), "tributary_database_seconds", ["operation"],
        "Time of database operations: begin_read and begin_write (including the wait for a connection and, on SQLite, for the writer), query, commit";
    DATABASE_FAILURES = Counter, "tributary_database_failures_total", ["operation"],
        "Database operations that failed; violations of unique keys are not counted";
    BLOB_STORE = Histogram(FAST), "tributary_blob_store_seconds", ["call"],
        "Time of calls to the object store: put, read, delete, list";
    BLOB_STORE_FAILURES = Counter, "tributary_blob_store_failures_total", ["call"],
        "Calls to the object store that it refused or did not answer in time";
    HTTP_REQUESTS = Counter, "tributary_http_requests_total", ["route", "method", "status"],
        "Requests answered; `route` is the pattern of the path (other: no pattern matched), `status` is 499 when the caller disconnected before the answer";
    HTTP_SECONDS = Histogram(ANSWER), "tributary_http_request_seconds", ["route", "method"],
        "Time from the head of a request to the head of its answer; held check-ins and event polls include the time for which they are held";
    HTTP_OPEN = Gauge, "tributary_http_requests_open", [],
        "Requests that are not answered yet, including held check-ins";
    CONNECTIONS_OPEN = Gauge, "tributary_connections_open", [],
        "Open connections, with or without a request";
    CONNECTIONS_DROPPED = Counter, "tributary_connections_dropped_total", ["reason"],
        "Connections that the coordinator closed or did not take: limit and address_limit (refused, because all others were at work), displaced (silent or idle, closed to make room for a new one), silent (sent nothing in time), slow_reader (took too little of an answer)";
    LIMITED = Counter, "tributary_limits_reached_total", ["limit"],
        "Times that a limit was reached: held_per_client (a newer check-in replaced one that was held), held_per_address, requests_per_client, feeds_per_operator and json_bodies (refused with 429), forms (a model that its reader did not take made room for another)";
    TLS_HANDSHAKES = Counter, "tributary_tls_handshakes_total", ["outcome"],
        "TLS handshakes by outcome: full, resumed (with a ticket of an earlier connection), failed, slow (given up)";
    TLS_CERTIFICATE_EXPIRY = Gauge, "tributary_tls_certificate_expiry_seconds", [],
        "End of the validity of the coordinator's TLS certificate in seconds since 1970; absent without TLS";
    SCHEDULED_RUNS = Counter, "tributary_scheduled_runs_total", ["work", "outcome"],
        "Runs of retention and upkeep by this coordinator; `outcome` is done or failed";
    BUILD = Gauge, "tributary_build_info", ["version"],
        "Always 1; the label is the release";
    START = Gauge, "process_start_time_seconds", [],
        "Start of the coordinator in seconds since 1970; the uptime is `time() - process_start_time_seconds`";
    MEMORY = Gauge, "process_resident_memory_bytes", [],
        "Resident memory of the process (on Linux)";
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    const BEGIN: &str = "<!-- generated from server/src/metrics/table.rs by its test -->\n";

    fn rows() -> String {
        let mut text = String::from("\n| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for Metric { name, kind, labels, help } in ALL {
            let kind = match kind {
                Counter => "counter",
                Gauge => "gauge",
                Histogram(_) => "histogram",
            };
            text += &format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "));
        }
        text
    }

    #[test]
    fn the_page_has_every_metric_as_the_table_has_it() {
        let text = std::fs::read_to_string(DOCUMENT).unwrap();
        let (head, table) = text.split_once(BEGIN).expect("the page has a table");
        if table != rows() && std::env::var_os("TRIBUTARY_WRITE_DOCS").is_some() {
            std::fs::write(DOCUMENT, format!("{head}{BEGIN}{}", rows())).unwrap();
            return;
        }
        assert_eq!(table, rows(), "TRIBUTARY_WRITE_DOCS=1 cargo test -p tributary-server metrics rewrites the page");
    }

    #[test]
    fn names_say_their_unit_and_are_used_once() {
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name).collect();
        for Metric { name, kind, labels, .. } in ALL {
            assert_eq!(name.ends_with("_total"), *kind == Counter, "{name}");
            assert!(!matches!(kind, Histogram(_)) || name.ends_with("_seconds"), "{name}");
            assert!(labels.len() <= 4 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn bounds_of_histograms_rise() {
        for bounds in ALL.iter().filter_map(|metric| match metric.kind {
            Histogram(bounds) => Some(bounds),
            _ => None,
        }) {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
    }

    /// The names in these texts that look like metrics, without the suffixes that Prometheus adds to histograms.
    fn metrics_named_in(text: &str) -> Vec<&str> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let named = words.filter(|word| word.starts_with("tributary_") || word.starts_with("process_"));
        let plain =
            |word| ["_bucket", "_sum", "_count"].iter().find_map(|end| str::strip_suffix(word, end)).unwrap_or(word);
        named.map(plain).collect()
    }

    #[test]
    fn the_dashboard_and_the_alerts_use_only_metrics_that_exist() {
        for (file, least) in [("docs/grafana/tributary.json", 15), ("docs/alerts.yml", 5), ("docs/operations.md", 5)] {
            let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let named = metrics_named_in(&text);
            assert!(named.len() >= least, "{file} names {} metrics", named.len());
            for name in named {
                assert!(ALL.iter().any(|metric| metric.name == name), "{file}: there is no metric {name}");
            }
        }
    }
}
