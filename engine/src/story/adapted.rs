//! Why a round has its goal, its deadline and its cohort, where they follow from the rounds before.

use tributary_protocol::operator::{Adapted, AdaptedGoal, Round};

use super::words::duration;

/// One sentence: what the diversity of the rounds before gave to the goal of the round. None for a round with the goal
/// of its job file.
pub fn adapted_goal(round: &Round) -> Option<String> {
    let AdaptedGoal { rounds, useful, least, most } = round.adapted_goal?;
    let goal = round.goal;
    Some(match useful {
        None => format!(
            "The updates of the last {rounds} rounds have no common direction, so the goal is {goal}, the largest allowed."
        ),
        Some(useful) => {
            let bound = match useful {
                _ if useful < least => ", the smallest allowed",
                _ if useful > most => ", the largest allowed",
                _ => "",
            };
            let updates = if useful == 1 { "one update".to_owned() } else { format!("{useful} updates") };
            format!(
                "By the diversity of the last {rounds} rounds a round can use about {updates}, so the goal is {goal}{bound}."
            )
        }
    })
}

/// One sentence: what the times of the rounds before gave to the round. None for a round with the values of its job
/// file.
pub fn adaptation(round: &Round) -> Option<String> {
    let Adapted { works, deadline_ms, dropout_permille, cohort, updates_per_hour, fastest_ms } = round.adapted?;
    let words = |ms: u64| duration(i64::try_from(ms).unwrap_or(i64::MAX));
    let why = match fastest_ms {
        None => format!("brings the most updates per hour, about {updates_per_hour}"),
        Some(fastest_ms) => format!(
            "lets a slow class of devices take part, with about {updates_per_hour} updates per hour ({} would bring the most)",
            words(fastest_ms)
        ),
    };
    let missed = f64::from(dropout_permille) / 10.0;
    if round.buffer.is_some() {
        return Some(format!(
            "By the times of {works} recent pieces of work a deadline of {} for each client {why}, with {cohort} at work; \
             {missed} % of the clients would miss it.",
            words(deadline_ms)
        ));
    }
    Some(format!(
        "By the times of {works} recent pieces of work a deadline of {} {why}; {missed} % of the clients would miss it, so \
         the round draws {cohort} for {} updates.",
        words(deadline_ms),
        round.goal
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_round_says_why_it_has_its_deadline_and_its_cohort() {
        let mut round = json!({
            "number": 7, "task": "train", "phase": "training", "base_version": 6, "seed": 1, "goal": 10, "minimum": 5,
            "cohort": 12, "reported": 0, "assigned": 0, "rejected": 0, "failed": 0, "expired": 0, "opened_at_ms": 0,
            "weight": 0, "bytes_up": 0, "bytes_down": 0,
        });
        let told = |round: &serde_json::Value| adaptation(&serde_json::from_value(round.clone()).unwrap());
        assert_eq!(told(&round), None);
        round["adapted_goal"] = json!({ "rounds": 9, "useful": 12, "least": 5, "most": 40 });
        let goal = |round: &serde_json::Value| adapted_goal(&serde_json::from_value(round.clone()).unwrap()).unwrap();
        assert_eq!(
            goal(&round),
            "By the diversity of the last 9 rounds a round can use about 12 updates, so the goal is 10."
        );
        for (bound, value) in [("least", 12), ("most", 12)] {
            let mut bounded = round.clone();
            bounded["adapted_goal"][bound] = json!(value);
            assert!(goal(&bounded).ends_with("so the goal is 10."), "a bound that is met does not matter");
        }
        round["adapted_goal"]["useful"] = json!(50);
        assert!(goal(&round).ends_with("about 50 updates, so the goal is 10, the largest allowed."));
        round["adapted_goal"]["useful"] = json!(1);
        assert!(goal(&round).ends_with("about one update, so the goal is 10, the smallest allowed."));
        round["adapted_goal"]["useful"] = json!(null);
        assert!(goal(&round).contains("no common direction, so the goal is 10, the largest allowed"));
        let mut adapted = json!({
            "works": 240, "deadline_ms": 70_000, "dropout_permille": 52, "cohort": 12, "updates_per_hour": 507,
        });
        round["adapted"] = adapted.clone();
        assert_eq!(
            told(&round).unwrap(),
            "By the times of 240 recent pieces of work a deadline of 1 min 10 s brings the most updates per hour, about \
             507; 5.2 % of the clients would miss it, so the round draws 12 for 10 updates."
        );
        round["buffer"] = json!({ "concurrency": 12, "staleness_max": 8, "lost_weight": 0.0 });
        assert_eq!(
            told(&round).unwrap(),
            "By the times of 240 recent pieces of work a deadline of 1 min 10 s for each client brings the most updates per \
             hour, about 507, with 12 at work; 5.2 % of the clients would miss it."
        );
        round["buffer"] = json!(null);
        adapted["fastest_ms"] = json!(30_000);
        round["adapted"] = adapted;
        let text = told(&round).unwrap();
        assert!(text.contains("lets a slow class of devices take part") && text.contains("(30 s would"), "{text}");
    }
}
