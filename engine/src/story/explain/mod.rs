//! One sentence on a round.

mod central;
mod ended;
mod facts;
mod open;
#[cfg(test)]
pub(super) mod tests;

use tributary_protocol::operator::RoundBuffer;
use tributary_protocol::state::{Phase, Task};

use self::central::on_coordinator;
use self::ended::{abandoned, committed};
use self::open::{collecting, filling, in_step, selecting};
use super::words::{count, report_word};

pub use self::facts::{RoundStory, Takeover, Undriven, Wanted};

/// One sentence: what an open round waits for, why an ended one took as long as it did, or why it was abandoned.
pub fn explain(story: &RoundStory<'_>, now_ms: i64) -> String {
    let round = story.round;
    let name = match round.task {
        Task::Train => format!("Round {}", round.number),
        Task::Evaluate => format!("The evaluation of round {}", round.number),
        Task::Describe => format!("Description {}", round.number),
    };
    if let Some(undriven) = story.undriven.filter(|_| round.phase.is_open()) {
        return format!("{name} waits for a coordinator: {}.", undriven.words(now_ms));
    }
    if round.task == Task::Evaluate && round.goal == 0 {
        return on_coordinator(&name, story);
    }
    match round.phase {
        Phase::Selecting => selecting(&name, story, now_ms),
        Phase::Training => match &round.buffer {
            Some(RoundBuffer { slack: Some(slack), .. }) => in_step(&name, story, *slack),
            Some(buffer) => filling(&name, round, buffer),
            None => collecting(&name, round, now_ms),
        },
        Phase::Aggregating if round.task == Task::Train => {
            format!("{name} has its {} and makes the next version.", count(round.reported, "update"))
        }
        Phase::Aggregating => {
            format!("{name} has its {} and adds them up.", count(round.reported, report_word(round.task)))
        }
        Phase::Committed => committed(&name, story),
        Phase::Abandoned => abandoned(&name, story),
    }
}
