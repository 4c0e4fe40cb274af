//! Rounds as a CSV or JSON file: one row per training round, with the evaluation of its model.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use tributary_protocol::operator::{Round, RoundTable};
use tributary_protocol::state::Task;

use crate::error::CliError;
use crate::files::temporary_beside;
use crate::job::watch::News;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Csv,
    Json,
}

/// A file of rounds, which is replaced as a whole when rounds end.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    format: Format,
    rounds: BTreeMap<u32, Round>,
}

impl Table {
    /// The format follows from the ending: `.csv` or `.json`.
    pub(super) fn new(path: &Path) -> Result<Self, CliError> {
        let format = match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            _ => {
                let text = format!("--metrics {}: the file's name must end in .csv or .json", path.display());
                return Err(CliError::BadSetting(text));
            }
        };
        Ok(Self { path: path.to_owned(), format, rounds: BTreeMap::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the ended rounds and replaces the file in one step: readers never see half of it.
    pub(super) fn take(&mut self, news: &News) -> Result<(), CliError> {
        for round in &news.ended {
            match round.task {
                Task::Train => {
                    self.rounds.insert(round.number, round.clone());
                }
                // A training round that was read before its evaluation ended has no loss and accuracy yet.
                // Its result is part of the job file.
                Task::Describe => {}
                Task::Evaluate => {
                    if let Some(trained) = self.rounds.get_mut(&round.number) {
                        (trained.loss, trained.accuracy) = (round.loss, round.accuracy);
                        trained.measured_on = round.measured_on;
                        trained.evaluation_metrics.clone_from(&round.metrics);
                        trained.classes.clone_from(&round.classes);
                    }
                }
            }
        }
        let rounds: Vec<&Round> = self.rounds.values().collect();
        let text = match self.format {
            Format::Csv => csv(&rounds),
            Format::Json => serde_json::to_string_pretty(&rounds).expect("rounds have string keys") + "\n",
        };
        let mut file = temporary_beside(&self.path).map_err(CliError::file("write", &self.path))?;
        file.write_all(text.as_bytes()).map_err(CliError::file("write", &self.path))?;
        file.persist(&self.path).map_err(|error| CliError::file("write", &self.path)(error.error))?;
        Ok(())
    }
}

/// A header and a line per round (RFC 4180, but with LF line ends).
fn csv(rounds: &[&Round]) -> String {
    let table = RoundTable::of(rounds);
    let line = |round: &&Round| table.line(round).expect("rounds have string keys") + "\n";
    table.columns() + "\n" + &rounds.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, round};
    use tributary_protocol::classes::ClassTotals;
    use tributary_protocol::operator::ScalarSummary;
    use tributary_protocol::state::{AbandonReason, Phase};

    fn news(ended: Vec<Round>) -> News {
        News { job: job(1, "demo", "digits"), ended, open: None, waits: None }
    }

    #[test]
    fn an_accuracy_that_comes_later_stands_in_the_row_of_its_round() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.csv");
        let mut table = Table::new(&path).unwrap();
        let mut first = round(Task::Train, 1, Phase::Committed);
        first.training_loss = Some(0.25);
        let mut second = round(Task::Train, 2, Phase::Abandoned);
        second.reason = Some(AbandonReason::TooFewReports);
        table.take(&news(vec![first, second])).unwrap();
        let mut measured = round(Task::Evaluate, 1, Phase::Committed);
        (measured.loss, measured.accuracy) = (Some(0.5), Some(0.75));
        let name = "auc".parse().unwrap();
        let auc = ScalarSummary { name, reports: 2, mean: 0.8, min: 0.1, p10: 0.2, p50: 0.7, p90: 0.9, max: 1.0 };
        measured.metrics = vec![auc];
        measured.classes = Some(ClassTotals { examples: vec![4, 2], right: vec![3, 2] });
        table.take(&news(vec![measured])).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("number,task,phase,reason,opened_at,ended_at,accuracy,loss,training_loss,"));
        let first = "1,train,committed,,1970-01-01T00:00:00.000Z,1970-01-01T00:00:00.010Z,0.75,0.5,0.25,";
        assert!(lines[1].starts_with(first), "{}", lines[1]);
        let column = |name: &str| lines[0].split(',').position(|column| column == name).unwrap();
        assert_eq!(lines[1].split(',').nth(column("evaluation_metrics.auc.mean")).unwrap(), "0.8");
        assert!(lines[2].starts_with("2,train,abandoned,too_few_reports,"), "{}", lines[2]);
        assert_eq!((lines.len(), std::fs::read_dir(folder.path()).unwrap().count()), (3, 1));
        assert!(lines.iter().all(|line| line.matches(',').count() == lines[0].matches(',').count()));
    }

    #[test]
    fn json_is_the_rounds_as_the_coordinator_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.json");
        let rounds = vec![round(Task::Train, 1, Phase::Committed), round(Task::Train, 2, Phase::Committed)];
        Table::new(&path).unwrap().take(&news(rounds.clone())).unwrap();
        let read: Vec<Round> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, rounds);
    }

    #[test]
    fn another_ending_is_refused() {
        assert!(Table::new(Path::new("rounds.xlsx")).is_err() && Table::new(Path::new("csv")).is_err());
    }
}
