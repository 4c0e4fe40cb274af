//! News of a job on a terminal or in a log: a line per ended round and, on a terminal, a progress bar below them.

use indicatif::{ProgressBar, ProgressStyle};
use tributary_protocol::operator::{Job, Round};
use tributary_protocol::state::{JobState, Phase};

use super::follower::News;
use crate::error::CliError;
use crate::format::measured;
use crate::output::{Output, TaggedLine};
use crate::round::text::line;

pub(super) struct Screen<'a> {
    output: &'a Output,
    /// Only on a terminal.
    bar: Option<ProgressBar>,
    /// The state that was last printed.
    state: Option<JobState>,
    /// Of the last evaluation.
    accuracy: Option<String>,
    /// The last round of which it was printed what it waits for.
    explained: Option<u32>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        let bar = output.interactive.then(ProgressBar::no_length);
        Self { output, bar, state: None, accuracy: None, explained: None }
    }

    pub(super) fn show(&mut self, news: &News) -> Result<(), CliError> {
        let accuracy = news.ended.iter().rev().find_map(|round| Some(measured(round.accuracy?, round.measured_on)));
        self.accuracy = accuracy.or(self.accuracy.take());
        // Before the lines are printed, because the bar is drawn again below each of them.
        self.move_bar(news);
        for round in &news.ended {
            self.above_bar(|output| {
                output.object(&TaggedLine { event: "round", object: round }, || output.coloured(line(round)))
            })?;
        }
        if self.state != Some(news.job.head.state) {
            self.state = Some(news.job.head.state);
            self.above_bar(|output| {
                output.object(&TaggedLine { event: "job", object: &news.job }, || state_line(&news.job))
            })?;
        }
        self.explain(news);
        Ok(())
    }

    /// Without a bar, which counts down: a line for each round that has to wait.
    fn explain(&mut self, News { open, waits, .. }: &News) {
        if let (None, Some(round), Some(waits)) = (&self.bar, open, waits)
            && self.explained.replace(round.number) != Some(round.number)
        {
            self.output.note(waits);
        }
    }

    /// Prints on standard error.
    pub(super) fn note(&self, text: &str) {
        let _: Result<(), CliError> = self.above_bar(|output| {
            output.note(text);
            Ok(())
        });
    }

    fn above_bar(&self, print: impl FnOnce(&Output) -> Result<(), CliError>) -> Result<(), CliError> {
        match &self.bar {
            Some(bar) => bar.suspend(|| print(self.output)),
            None => print(self.output),
        }
    }

    fn move_bar(&self, News { job, open, waits, .. }: &News) {
        let Some(bar) = &self.bar else { return };
        if job.head.state.is_final() {
            bar.finish_and_clear();
            return;
        }
        let template = if job.file.stop.rounds.is_some() { "{bar:30} {pos}/{len} {msg}" } else { "{pos} rounds {msg}" };
        bar.set_style(ProgressStyle::with_template(template).expect("both templates were tried in a test"));
        if let Some(rounds) = job.file.stop.rounds {
            bar.set_length(rounds.into());
        }
        bar.set_position(job.head.rounds_committed.into());
        let accuracy = self.accuracy.as_ref().map(|accuracy| format!("accuracy {accuracy}"));
        let now = waits.clone().or_else(|| open.as_ref().map(open_line));
        let parts: Vec<String> = accuracy.into_iter().chain(now).collect();
        bar.set_message(parts.join(", "));
    }
}

fn open_line(round: &Round) -> String {
    match round.phase {
        Phase::Selecting => format!("round {} waits for clients", round.number),
        Phase::Training => format!("round {}: {}/{} reports", round.number, round.reported, round.goal),
        _ => format!("round {}: {}", round.number, round.phase),
    }
}

fn state_line(job: &Job) -> String {
    let name = &job.file.name;
    match job.head.state {
        JobState::AwaitingModel => format!("the job {name} waits for model version 0"),
        JobState::Stopped | JobState::Completed => {
            let version = job.head.model_version.map(|version| format!("; the newest model version is {version}"));
            let next = format!("next: `tributary job export {name}`");
            format!("the job {name} is {}{}\n{next}", job.head.state, version.unwrap_or_default())
        }
        JobState::Running | JobState::Relaying | JobState::Paused => format!("the job {name} is {}", job.head.state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, output, round};
    use tributary_protocol::state::Task;

    /// The news of a job whose first round has ended, and then empty news.
    fn printed(json: bool) -> String {
        let (output, printed) = output(json);
        let mut screen = Screen::new(&output);
        let news = News {
            job: job(1, "demo", "digits"),
            ended: vec![round(Task::Train, 1, Phase::Committed)],
            open: None,
            waits: None,
        };
        screen.show(&news).unwrap();
        screen.show(&News { ended: vec![], ..news }).unwrap();
        printed.lock().unwrap().clone()
    }

    #[test]
    fn a_round_and_a_new_state_are_a_line_each_and_empty_news_print_nothing() {
        let text = printed(false);
        assert!(text.starts_with("round   1 committed: ") && text.ends_with("\nthe job digits is running\n"), "{text}");
        assert_eq!(text.lines().count(), 2);
        let json: Vec<serde_json::Value> =
            printed(true).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&json[0]["event"], &json[0]["number"]), (&"round".into(), &1.into()));
        assert_eq!((&json[1]["event"], &json[1]["state"]), (&"job".into(), &"running".into()));
    }

    #[test]
    fn the_bar_takes_jobs_with_and_without_an_end() {
        let (output, _) = output(false);
        let output = Output { interactive: true, ..output };
        let mut screen = Screen::new(&output);
        let mut watched = job(1, "demo", "digits");
        for rounds in [None, Some(30)] {
            watched.file.stop.rounds = rounds;
            let open = Some(round(Task::Train, 3, Phase::Training));
            screen.show(&News { job: watched.clone(), ended: vec![], open, waits: None }).unwrap();
        }
        let bar = screen.bar.as_ref().unwrap();
        assert_eq!((bar.length(), bar.message().as_str()), (Some(30), "round 3: 0/10 reports"));
        watched.head.state = JobState::Completed;
        screen.show(&News { job: watched, ended: vec![], open: None, waits: None }).unwrap();
        assert!(screen.bar.unwrap().is_finished());
    }
}
