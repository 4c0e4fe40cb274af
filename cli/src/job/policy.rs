//! `tributary job policy`: shows when the rounds of a job open, close and are abandoned, or changes it.

use tributary_protocol::job_file::{Buffered, Divisor, Mode, RoundPolicy, RoundPolicyChange, StalenessWeight};

use super::args::JobPolicyArgs;
use super::find::find_job;
use crate::api::Api;
use crate::error::CliError;
use crate::format::duration_ms;
use crate::output::{self, Output};
use crate::units::HumanDuration;

pub(crate) async fn run(args: &JobPolicyArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let change = change(args);
    let mut job = find_job(api, &args.job).await?;
    let is_change = change != RoundPolicyChange::default();
    if is_change {
        job = api.change_round_policy(job.head.id, &change).await?;
    }
    let policy = &job.file.round;
    output.object(policy, || {
        let table = text(policy, output.width);
        if is_change { format!("from the next round of {} on:\n\n{table}", job.file.name) } else { table }
    })
}

fn change(args: &JobPolicyArgs) -> RoundPolicyChange {
    RoundPolicyChange {
        updates_goal: args.updates_goal,
        updates_min: args.updates_min,
        over_selection: args.over_selection,
        available_min: args.available_min,
        selection_timeout_ms: args.selection_timeout.map(HumanDuration::ms),
        deadline_ms: args.deadline.map(HumanDuration::ms),
        backoff_ms: args.backoff.map(HumanDuration::ms),
        backoff_max_ms: args.backoff_max.map(HumanDuration::ms),
    }
}

fn text(policy: &RoundPolicy, width: Option<u16>) -> String {
    if let Mode::StaleSynchronous { members, slack } = policy.mode {
        let pairs = [
            ("members", members.to_string()),
            ("slack", format!("{slack}: a member that is further ahead of the slowest waits")),
            ("selection timeout", duration_ms(policy.selection_timeout_ms)),
            ("deadline of a client", duration_ms(policy.deadline_ms)),
            ("back-off", format!("{} to {}", duration_ms(policy.backoff_ms), duration_ms(policy.backoff_max_ms))),
        ];
        return output::fields(&pairs, width);
    }
    if let Some(buffered) = policy.mode.buffered() {
        return buffered_text(&buffered, policy, width);
    }
    let pairs = [
        ("updates goal", policy.updates_goal.to_string()),
        ("updates minimum", policy.updates_min.to_string()),
        ("over-selection", format!("{} (cohorts of {})", policy.over_selection, policy.cohort_size())),
        ("available minimum", policy.available_min.max(policy.cohort_size()).to_string()),
        ("selection timeout", duration_ms(policy.selection_timeout_ms)),
        ("deadline", deadline(policy)),
        ("back-off", format!("{} to {}", duration_ms(policy.backoff_ms), duration_ms(policy.backoff_max_ms))),
    ];
    output::fields(&pairs, width)
}

fn deadline(policy: &RoundPolicy) -> String {
    let fixed = duration_ms(policy.deadline_ms);
    match &policy.adapt {
        None => fixed,
        Some(adapt) => format!(
            "{} to {} by the times of the last {} rounds; {fixed} until enough is measured",
            duration_ms(adapt.deadline_min_ms),
            duration_ms(adapt.deadline_max_ms),
            adapt.rounds
        ),
    }
}

fn buffered_text(buffered: &Buffered, policy: &RoundPolicy, width: Option<u16>) -> String {
    let weight = match buffered.staleness_weight {
        StalenessWeight::Constant => "1".to_owned(),
        StalenessWeight::Inverse => "1 / d".to_owned(),
        StalenessWeight::Polynomial { a } => format!("(1 + d)^-{a}"),
        StalenessWeight::Hinge { a, b } => format!("1 up to {b}, then 1 / ({a} (d - {b}) + 1)"),
    };
    let divisor = match buffered.divisor {
        Divisor::Count => "the weights without discounts",
        Divisor::Weights => "the discounted weights",
    };
    let cadence = policy.mode.cadence();
    let pairs = [
        ("buffer", buffered.buffer.to_string()),
        ("concurrency", buffered.concurrency.to_string()),
        ("of one client", policy.mode.per_client().map_or_else(|| "-".to_owned(), |updates| updates.to_string())),
        ("staleness maximum", buffered.staleness_max.to_string()),
        ("weight at staleness d", weight),
        ("divided by", divisor.to_owned()),
        ("trainings per update", cadence.push_every.to_string()),
        ("updates per fetch", cadence.fetch_every.to_string()),
        ("deadline of a client", duration_ms(policy.deadline_ms)),
        ("back-off", format!("{} to {}", duration_ms(policy.backoff_ms), duration_ms(policy.backoff_max_ms))),
    ];
    output::fields(&pairs, width)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::testing::{Fake, job, output};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        policy: JobPolicyArgs,
    }

    #[tokio::test]
    async fn a_policy_is_shown_and_changed() {
        let api = Fake { jobs: vec![job(1, "demo", "digits")], ..Fake::default() }.start().await;
        let print = async |line: &str| {
            let (output, printed) = output(false);
            let words = ["policy", "digits"].into_iter().chain(line.split_whitespace());
            run(&Line::try_parse_from(words).unwrap().policy, &api, &output).await.unwrap();
            printed.lock().unwrap().clone()
        };
        let before = print("").await;
        assert!(before.contains("updates goal       10") && !before.contains("from the next round"), "{before}");
        let after = print("--updates-goal 20 --deadline 90s").await;
        assert!(after.starts_with("from the next round of digits on:"), "{after}");
        assert!(after.contains("updates goal       20") && after.contains("cohorts of 26"), "{after}");
        assert_eq!(print("").await, after.split_once("\n\n").unwrap().1);
    }
}
