//! The log line of each round that ends.

use tributary_engine::job::JobSpec;
use tributary_engine::story::{RoundStory, explain};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Round;
use tributary_protocol::state::{AbandonReason, Phase, Task};

use crate::db::{DbError, RoundKey};
use crate::services::Services;

/// Logs how a round ended. An abandoned one is a warning, unless that was to be expected.
pub(super) async fn ended(services: &Services, spec: &JobSpec, key: RoundKey) -> Result<(), DbError> {
    let Some(row) = services.db.look().await?.round(key).await? else { return Ok(()) };
    let round = Round::from(row);
    if round.phase.is_open() {
        // Another driver was faster, and the round continues.
        return Ok(());
    }
    tell(&spec.file, &round);
    Ok(())
}

/// Writes the sentence, and its figures as fields for programs.
fn tell(job: &JobFile, round: &Round) {
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                job = %job.name,
                population = %job.population,
                round = round.number,
                task = %round.task,
                phase = %round.phase,
                outcome = %round.phase,
                reason = round.reason.map(AbandonReason::as_str),
                took_ms = round.ended_at_ms.map(|ended_at_ms| ended_at_ms.abs_diff(round.opened_at_ms)),
                reported = round.reported,
                spare = round.spare,
                lost = round.expired.saturating_sub(round.spare),
                accuracy = round.accuracy,
                loss = round.loss,
                training_loss = round.training_loss,
                "{}",
                line(round),
            )
        };
    }
    let is_expected = matches!(round.reason, Some(AbandonReason::JobStopped | AbandonReason::Superseded));
    match round.phase == Phase::Abandoned && !is_expected {
        true => tell!(warn),
        false => tell!(info),
    }
}

/// The explanation, with the figures of a result.
fn line(round: &Round) -> String {
    let mut text = explain(&RoundStory::of(round), 0);
    let figures = [
        (round.task == Task::Train)
            .then(|| round.training_loss.map(|loss| format!("training loss {loss:.4}")))
            .flatten(),
        round.loss.map(|loss| format!("loss {loss:.4}")),
        round.accuracy.map(|accuracy| format!("accuracy {:.2} %", accuracy * 100.0)),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    if !figures.is_empty() && round.phase == Phase::Committed {
        text = format!("{} ({})", text.trim_end_matches('.'), figures.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// The fields of an event, by name.
    #[derive(Default)]
    struct Fields(BTreeMap<&'static str, String>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    /// Keeps the last event.
    #[derive(Clone, Default)]
    struct Last(Arc<Mutex<Option<(Level, Fields)>>>);

    impl Subscriber for Last {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            *self.0.lock().unwrap() = Some((*event.metadata().level(), fields));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn told(changes: &serde_json::Value) -> (Level, BTreeMap<&'static str, String>) {
        let job = "name = 'digits'\npopulation = 'shop'\n[model]\nparameters = [{ name = 'w', shape = [2] }]\n\
                   [training]\nepochs = 1\noptimizer = { kind = 'sgd', learning_rate = 0.1 }";
        let mut round = json!({
            "task": "train", "number": 3, "phase": "committed", "base_version": 2,
            "seed": 1, "goal": 4, "minimum": 2, "cohort": 6, "reported": 4, "rejected": 0, "failed": 0, "expired": 2,
            "spare": 1, "opened_at_ms": 1_000, "ended_at_ms": 3_500, "weight": 40, "training_loss": 0.5,
            "bytes_up": 0, "bytes_down": 0, "raw_bytes_up": 0, "raw_bytes_down": 0,
        });
        for (name, value) in changes.as_object().unwrap() {
            round[name] = value.clone();
        }
        let last = Last::default();
        tracing::subscriber::with_default(last.clone(), || {
            tell(&JobFile::parse(job).unwrap(), &serde_json::from_value(round).unwrap());
        });
        let (level, fields) = last.0.lock().unwrap().take().unwrap();
        (level, fields.0)
    }

    #[test]
    fn the_end_of_a_round_has_its_figures_as_fields() {
        let (level, fields) = told(&json!({ "loss": 0.25, "accuracy": 0.9 }));
        assert_eq!(level, Level::INFO);
        let expected = [
            ("job", "digits"),
            ("population", "shop"),
            ("round", "3"),
            ("task", "train"),
            ("phase", "committed"),
            ("outcome", "committed"),
            ("took_ms", "2500"),
            ("reported", "4"),
            ("spare", "1"),
            ("lost", "1"),
            ("accuracy", "0.9"),
            ("loss", "0.25"),
            ("training_loss", "0.5"),
        ];
        for (name, value) in expected {
            assert_eq!(fields.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(fields["message"].starts_with("Round 3") && !fields.contains_key("reason"), "{fields:?}");
    }

    #[test]
    fn an_abandoned_round_is_a_warning_with_its_reason() {
        let (level, fields) = told(&json!({ "phase": "abandoned", "reason": "too_few_reports" }));
        assert_eq!((level, &*fields["reason"]), (Level::WARN, "\"too_few_reports\""));
        assert_eq!(fields["outcome"], "abandoned");
        let (level, _) = told(&json!({ "phase": "abandoned", "reason": "job_stopped" }));
        assert_eq!(level, Level::INFO);
    }
}
