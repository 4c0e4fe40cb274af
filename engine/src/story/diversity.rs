//! How many updates a round can use, as advice.

use tributary_protocol::operator::UsefulUpdates;

use crate::round::{DiverseRound, useful};

/// Within this factor of the goal, there is nothing to change.
const TOLERANCE: f64 = 1.5;

/// How many updates per round are useful, with the reason in one sentence. None before enough rounds of at least two
/// updates have ended. `goal` is the number of updates of a round now.
pub fn useful_updates(rounds: &[DiverseRound], goal: u32) -> Option<UsefulUpdates> {
    let (rounds, useful) = useful(rounds)?;
    let updates = (useful < f64::from(u32::MAX)).then(|| useful.round().max(1.0) as u32);
    let combined: u64 = rounds.iter().map(|round| u64::from(round.updates)).sum();
    let examples = rounds.iter().map(|round| round.examples).sum::<u64>() as f64 / combined as f64;
    let batch = updates.map(|updates| (examples * f64::from(updates)).round() as u64);
    let said = rounds.len();
    let now = f64::from(goal);
    let count = |updates: u32| if updates == 1 { "one update".to_owned() } else { format!("{updates} updates") };
    let text = match (updates, batch) {
        (Some(updates), Some(batch)) if useful * TOLERANCE < now => format!(
            "The updates of the last {said} rounds agree: about {}, or a batch of {batch} examples, can teach nearly as \
             much as {goal}. A smaller updates_goal saves work.",
            count(updates)
        ),
        (Some(updates), Some(batch)) if useful > now * TOLERANCE => format!(
            "The updates of the last {said} rounds differ: up to about {}, or a batch of {batch} examples, each further \
             one makes a round's step better. A larger updates_goal saves rounds.",
            count(updates)
        ),
        (Some(updates), _) => format!(
            "By the diversity of the last {said} rounds, a round can use about {}. The goal of {goal} suits.",
            count(updates)
        ),
        (None, _) => format!(
            "The updates of the last {said} rounds have no common direction: each further one makes a round's step better. \
             If the loss does not fall, lower the learning rate."
        ),
    };
    Some(UsefulUpdates { updates, batch, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(updates: u32, diversity: f64) -> Vec<DiverseRound> {
        let effective = f64::from(updates);
        vec![DiverseRound { updates, effective, examples: 60 * u64::from(updates), diversity }; 7]
    }

    #[test]
    fn the_useful_number_does_not_depend_on_the_size_of_the_rounds() {
        // v = 11: m updates have a diversity of 12 / (m + 11).
        for updates in [2, 10, 100] {
            let found = useful_updates(&rounds(updates, 12.0 / (f64::from(updates) + 11.0)), 12).unwrap();
            assert_eq!((found.updates, found.batch), (Some(12), Some(720)), "{updates}");
            assert!(found.text.ends_with("The goal of 12 suits."), "{}", found.text);
        }
    }

    #[test]
    fn the_advice_names_what_to_change() {
        let text = |updates, diversity, goal| useful_updates(&rounds(updates, diversity), goal).unwrap().text;
        assert!(
            text(20, 0.05, 20).contains("about one update, or a batch of 60 examples, can teach nearly as much as 20")
        );
        assert!(text(10, 0.8, 10).contains("up to about 36 updates"), "{}", text(10, 0.8, 10));
        assert!(text(10, 1.2, 10).contains("no common direction"));
        // Of 12 useful updates, goals from 8 to 18 are within a factor of 1.5.
        let advice = [7, 8, 18, 19].map(|goal| text(13, 0.5, goal));
        let parts = ["A larger updates_goal", "The goal of 8 suits", "The goal of 18 suits", "A smaller updates_goal"];
        assert!(advice.iter().zip(parts).all(|(advice, part)| advice.contains(part)), "{advice:?}");
    }

    #[test]
    fn few_rounds_and_single_updates_say_nothing() {
        assert_eq!(useful_updates(&rounds(10, 0.5)[..4], 10), None);
        assert_eq!(useful_updates(&rounds(1, 1.0), 10), None);
    }
}
