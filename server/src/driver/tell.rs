//! The log line of each round that ends.

use tributary_engine::job::JobSpec;
use tributary_engine::story::{RoundStory, explain};
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
    let (job, population, text) = (&spec.file.name, &spec.file.population, line(&round));
    let is_expected = matches!(round.reason, Some(AbandonReason::JobStopped | AbandonReason::Superseded));
    if round.phase == Phase::Abandoned && !is_expected {
        tracing::warn!(%job, %population, "{text}");
    } else {
        tracing::info!(%job, %population, "{text}");
    }
    Ok(())
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
