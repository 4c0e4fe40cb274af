//! Numbers of a job file that bound each other.

use super::need::Need;
use super::setting::Setting;
use crate::job_file::combine::{Combine, Krum, MultiKrum, NormClipping, TrimmedMean, trimmed};
use crate::job_file::{JobFile, JobFileError, Mode, NormMax};

/// Most updates of a round whose distances are computed in pairs: the work grows with their square.
const PAIRS_COHORT_MAX: u32 = 256;
/// Most updates of a round that are read in stripes of parameters: more would make the stripes too narrow.
const STRIPES_COHORT_MAX: u32 = 1024;
/// Most values of all updates of such a round, 4 GiB: each update is decoded once per stripe.
const STRIPES_VALUES_MAX: u64 = 1 << 30;

/// Refuses a job with a number that another setting does not allow, and says why.
pub(super) fn check(job: &JobFile, settings: &[Setting]) -> Result<(), JobFileError> {
    let (least, most) = match job.round.mode {
        Mode::Synchronous => ("[round] updates_min", "[round] updates_goal and over_selection"),
        Mode::Buffered { .. } => ("[round] mode buffer", "[round] mode buffer"),
        Mode::StaleSynchronous { .. } => ("[round] mode stale_synchronous", "[round] mode members"),
    };
    for (first, second, refusal) in [
        ("[aggregation] combine", least, fewest(job)),
        ("[aggregation] combine", most, side_by_side(job, settings)),
        ("[aggregation] combine", "[update] norm_max", clipped(job)),
        ("[training] algorithm alpha", most, pull(job)),
        ("[training] algorithm clients", most, clients(job)),
        ("[training] algorithm", "[model]", control(job)),
    ] {
        if let Some(why) = refusal {
            return Err(JobFileError::Senseless { first, second, why });
        }
    }
    Ok(())
}

/// What a rule reads of a round: its updates, or under secure aggregation the sums of its groups.
struct Points {
    /// Fewest that a round may have.
    least: u32,
    /// Most that it may have.
    most: u32,
    name: &'static str,
    /// The start of a sentence that ends with how many there may be, and what they are called in it.
    at_most: [&'static str; 2],
}

impl Points {
    fn of(job: &JobFile) -> Self {
        let (minimum, most, goal) = (job.round.minimum(), job.updates_max(), job.round.goal());
        match &job.secure_aggregation {
            // `[secure_aggregation]` refuses a size of 0 in its own words.
            Some(secure) => Self {
                least: minimum.div_ceil(secure.group(goal).max(1)),
                most: most / secure.group_min(goal).max(1),
                name: "sums of groups",
                at_most: ["a round has at most", "groups"],
            },
            None => Self { least: minimum, most, name: "updates", at_most: ["a cohort has at most", "clients"] },
        }
    }
}

/// A rule that tolerates wrong updates needs a number of updates in all.
fn fewest(job: &JobFile) -> Option<String> {
    let Points { least, name, .. } = Points::of(job);
    let (needed, formula) = match job.aggregation.combine {
        Combine::Krum(Krum { byzantine }) | Combine::MultiKrum(MultiKrum { byzantine, .. }) => {
            (byzantine.saturating_mul(2).saturating_add(3), "2 x byzantine + 3 = ")
        }
        Combine::Bulyan(Krum { byzantine }) => (byzantine.saturating_mul(4).saturating_add(3), "4 x byzantine + 3 = "),
        Combine::Median | Combine::GeometricMedian(_) => (3, ""),
        Combine::TrimmedMean(TrimmedMean { trim }) if trim > 0.0 && trimmed(trim, least) == 0 => {
            return Some(format!("a trim of {trim} drops nothing of {least} {name}"));
        }
        _ => (1, ""),
    };
    if least < needed {
        let rule = job.aggregation.combine.name();
        return Some(format!("{rule} needs {formula}{needed} {name}, and a round may have {least}"));
    }
    match job.aggregation.combine {
        Combine::MultiKrum(MultiKrum { byzantine, keep: Some(keep) }) if keep > least - byzantine => {
            Some(format!("{keep} updates are kept of {least}, of which {byzantine} may be wrong"))
        }
        _ => None,
    }
}

/// Updates that a rule reads side by side are in memory in stripes, or compared in pairs.
fn side_by_side(job: &JobFile, settings: &[Setting]) -> Option<String> {
    let most_for = |need| match need {
        Need::Distances => Some(PAIRS_COHORT_MAX),
        Need::EachUpdate => Some(STRIPES_COHORT_MAX),
        _ => None,
    };
    let Points { most: points, at_most: [at_most, of], .. } = Points::of(job);
    let parameters = job.model.parts().map_or(0, |parts| parts.shared().total() as u64);
    let fitting = STRIPES_VALUES_MAX / parameters.max(1);
    for (setting, demand) in
        settings.iter().flat_map(|setting| setting.needs.iter().map(move |demand| (setting, demand)))
    {
        let Some(most) = demand.of.iter().copied().filter_map(most_for).min() else { continue };
        let (name, why) = (&setting.name, demand.why);
        if points > most {
            return Some(format!("{name} {why}, so {at_most} {most} {of}, not {points}"));
        }
        if u64::from(points) > fitting {
            return Some(format!(
                "{name} reads every update many times, so with {parameters} parameters {at_most} {fitting} {of}"
            ));
        }
    }
    None
}

fn clipped(job: &JobFile) -> Option<String> {
    match (job.aggregation.combine, job.update.norm_max) {
        (Combine::NormClipping(NormClipping { norm, .. }), Some(NormMax::Fixed(bound))) if bound <= norm => {
            Some(format!("updates with a norm above {bound} are refused, so none is left to clip to {norm}"))
        }
        _ => None,
    }
}

/// The model moves by the sum of the pulls: with more than the whole distance it would pass its clients.
fn pull(job: &JobFile) -> Option<String> {
    let (alpha, updates) = (job.training.algorithm.elastic()?, job.round.cohort_size());
    (alpha * f64::from(updates) > 1.0 + 1e-9).then(|| {
        format!(
            "the model moves by the sum of the pulls, so alpha times the {updates} updates of a version is at most 1"
        )
    })
}

fn clients(job: &JobFile) -> Option<String> {
    let (clients, cohort) = (job.training.algorithm.clients()?, job.round.cohort_size());
    (clients < cohort)
        .then(|| format!("{clients} clients take part in the job, so a cohort has at most as many, not {cohort}"))
}

fn control(job: &JobFile) -> Option<String> {
    let update = job.training.algorithm.update_parameters(job.model.parts().ok()?.shared());
    update.err().map(|error| format!("an update carries a control vector beside the delta: {error}"))
}
