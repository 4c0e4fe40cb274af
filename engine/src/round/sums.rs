//! Jobs whose rounds take sums of reports from relays.

use tributary_protocol::job_file::{JobFile, NormMax, Selection, ServerOptimizer, StalenessWeight};
use tributary_protocol::plan::{Algorithm, Cadence};

/// Why relays can take no part in a job's rounds; `Ok` if they can.
///
/// A relay knows the sum of its clients' reports, and nothing else of them. It knows the round, and no other round.
/// Evaluations and descriptions add up in every job; clients of a relay take part in those of the jobs that they train.
pub(super) fn suits(job: &JobFile) -> Result<(), &'static str> {
    // The control variates of SCAFFOLD are a second vector of each update, and so of the sum.
    let needs_more = match &job.training.algorithm {
        Algorithm::Plain | Algorithm::Scaffold { .. } | Algorithm::FedDyn { .. } => false,
        algorithm @ Algorithm::FedProx { .. } => algorithm.adaptive_mu().is_some(),
        Algorithm::FedNova { .. } | Algorithm::Easgd { .. } => true,
    };
    // The clients of a relay form groups at the relay, which adds up their sums.
    let masks_by_a_clip_that_moves =
        job.secure_aggregation.as_ref().is_some_and(|secure| secure.clip.adaptive().is_some());
    let buffered = job.round.mode.buffered();
    let weighs_by_age = buffered.is_some_and(|buffered| buffered.staleness_weight != StalenessWeight::Constant);
    let reasons = [
        (job.analysis.is_some(), "an analysis asks clients themselves"),
        (
            job.coded.as_ref().is_some_and(|coded| coded.tree.is_none()),
            "clients themselves hold the parts of a coded job that names no tree",
        ),
        (job.group.is_some(), "the members of a group add up among themselves"),
        (job.aggregation.shards.is_some(), "each coordinator adds up a range of the parameters"),
        (job.privacy.is_some(), "the updates of a private job are clipped one by one"),
        (masks_by_a_clip_that_moves, "the clip follows how many updates are within it, which a sum does not tell"),
        (job.round.mode.slack().is_some(), "the members of a stale-synchronous job have clocks of their own"),
        (weighs_by_age, "a sum is never weighed down: its buffers need `staleness_weight` constant"),
        (job.round.mode.cadence() != Cadence::default(), "its clients train several times on a version"),
        (
            buffered.is_some() && job.secure_aggregation.is_some(),
            "the groups of its buffers have clients of several versions",
        ),
        (job.round.selection != Selection::Uniform, "the job chooses clients by what is known of them"),
        (job.round.adapt.is_some(), "the job adapts to the times of single clients"),
        (needs_more, "the algorithm needs more than one sum"),
        (matches!(job.update.norm_max, Some(NormMax::Adaptive(_))), "the norm bound follows single updates"),
        (matches!(job.aggregation.optimizer, ServerOptimizer::Lbfgs { .. }), "the optimiser compares losses"),
        (!job.aggregation.combine.is_mean(), "the rule reads single updates"),
    ];
    match reasons.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, reason)) => Err(reason),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(settings: &str) -> JobFile {
        let text = format!(
            "name = 'j'\npopulation = 'p'\nmodel.parameters = [{{ name = 'w', shape = [1] }}]\n\
             training.epochs = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 1.0 }}\n{settings}"
        );
        JobFile::parse(&text).unwrap()
    }

    const CONSTANT: &str = "kind = 'buffered', buffer = 3, concurrency = 7, staleness_weight = { kind = 'constant' }";

    #[test]
    fn what_a_sum_cannot_tell_is_named() {
        let suits = |settings: &str| super::suits(&job(settings));
        assert_eq!(suits(""), Ok(()));
        assert_eq!(suits("aggregation.combine = 'uniform_mean'\nupdate.codec = 'top_k'"), Ok(()));
        for kind in ["fed_prox', mu = 0.1", "scaffold', clients = 99", "fed_dyn', alpha = 0.1, clients = 99"] {
            let settings = format!("training.algorithm = {{ kind = '{kind} }}\naggregation.combine = 'uniform_mean'");
            assert_eq!(suits(&settings), Ok(()), "{settings}");
        }
        assert_eq!(suits("aggregation.combine = 'uniform_mean'\nsecure_aggregation.clip = 1.0"), Ok(()));
        assert_eq!(suits(&format!("round.mode = {{ {CONSTANT} }}")), Ok(()));
        assert_eq!(suits("aggregation.optimizer = { kind = 'adam', learning_rate = 0.1 }"), Ok(()));
        for (settings, word) in [
            ("aggregation.combine = 'median'", "reads single"),
            ("training.algorithm = { kind = 'fed_nova' }", "more than one sum"),
            ("round.selection = { kind = 'weighted' }", "known of them"),
            ("round.mode = { kind = 'buffered', buffer = 3, concurrency = 7 }", "weighed down"),
            (&format!("round.mode = {{ {CONSTANT}, fetch_every = 2 }}"), "several times"),
            ("round.mode = { kind = 'stale_synchronous', members = 4 }", "clocks"),
            ("update.norm_max = { quantile = 0.5 }", "norm bound"),
            ("aggregation.combine = 'uniform_mean'\n[secure_aggregation]", "the clip follows"),
        ] {
            assert!(suits(settings).is_err_and(|reason| reason.contains(word)), "{settings}");
        }
    }
}
