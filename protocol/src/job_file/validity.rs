//! Pairs of settings that make no sense together, each with the reason.

use super::combine::{Combine, Krum, MultiKrum, NormClipping, TrimmedMean, trimmed};
use super::{Divisor, JobFile, JobFileError, Mode, NormMax, RoundPolicy, Selection, ServerOptimizer, StalenessWeight};
use crate::layers::{Layer, ModelSpec};
use crate::plan::{Algorithm, Optimizer};
use crate::update::CodecName;

/// Most updates of a round whose distances are computed in pairs: the work grows with their square.
const PAIRS_COHORT_MAX: u32 = 256;
/// Most updates of a round that are read in stripes of parameters: more would make the stripes too narrow.
const STRIPES_COHORT_MAX: u32 = 1024;
/// Most values of all updates of such a round, 4 GiB: each update is decoded once per stripe.
const STRIPES_VALUES_MAX: u64 = 1 << 30;

/// Refuses a job whose settings contradict each other, and says why.
pub(super) fn check(job: &JobFile) -> Result<(), JobFileError> {
    let (least, most) = match job.round.mode {
        Mode::Synchronous => ("[round] updates_min", "[round] updates_goal and over_selection"),
        Mode::Buffered { .. } => ("[round] mode buffer", "[round] mode buffer"),
        Mode::StaleSynchronous { .. } => ("[round] mode", "[round] mode members"),
    };
    for (first, second, refusal) in [
        ("[round] mode", "settings of cohorts", cohorts(job)),
        ("[round] mode", "[eligibility] separation_rounds", rest(job)),
        ("[round] adapt", "[round] selection and [training] partial_work", adapting(job)),
        ("[round] mode", "[training] algorithm", drift(job)),
        ("[round] mode", "[training] algorithm adaptive", adaptive(job)),
        ("[round] mode fetch_every and push_every", "[training] algorithm", cadence(job)),
        ("[round] mode fetch_every", "[round] mode staleness_weight", aged(job)),
        ("[training] algorithm easgd", "[round] mode", elastic_centre(job)),
        ("[round] mode staleness_weight", "[aggregation] combine", staleness(job)),
        ("[aggregation] combine", least, too_few(job)),
        ("[aggregation] combine", most, too_many(job)),
        ("[aggregation] combine", "[update] codec", codec(job)),
        ("[aggregation] combine", "[update] norm_max", norm(job)),
        ("[aggregation] combine", "[training]", training(job)),
        ("[training] algorithm", "[aggregation] combine", algorithm(job)),
        ("[training] algorithm", "[round] updates_goal and over_selection", cohort(job)),
        ("[training] algorithm", "[update] codec", feedback(job)),
        ("[training] algorithm", "[aggregation.optimizer]", server(job)),
        ("[training] algorithm", "[model]", model(job)),
        ("[aggregation.optimizer]", "[model] batch_norm", optimizer(job)),
        ("[aggregation.optimizer] lbfgs", "[training]", gradient(job)),
        ("[aggregation.optimizer] lbfgs", "[model]", incomparable(job)),
        ("[aggregation.optimizer] lbfgs", "[aggregation] combine and schedule", search(job)),
        ("[aggregation.optimizer] lbfgs", "[round] mode", together(job)),
        ("[aggregation.optimizer] lbfgs", "[update] codec", residual(job)),
        ("[aggregation.optimizer] lbfgs", "[download]", trial(job)),
    ] {
        if let Some(why) = refusal {
            return Err(JobFileError::Senseless { first, second, why });
        }
    }
    Ok(())
}

/// A buffered job has no cohorts: it draws a client whenever one may work. One with clocks has members, for which it
/// waits once.
fn cohorts(job: &JobFile) -> Option<String> {
    let (round, default) = (&job.round, RoundPolicy::default());
    let timeout_ms = match round.mode {
        Mode::StaleSynchronous { .. } => round.selection_timeout_ms,
        _ => default.selection_timeout_ms,
    };
    // In a buffered job the deadline of a client may follow the measured times; there is no goal that could follow.
    let adapt = match round.mode {
        Mode::Buffered { .. } => round.adapt.clone().filter(|adapt| adapt.updates_goal_min.is_none()),
        _ => None,
    };
    let of_mode = RoundPolicy {
        mode: round.mode,
        adapt,
        deadline_ms: round.deadline_ms,
        backoff_ms: round.backoff_ms,
        backoff_max_ms: round.backoff_max_ms,
        selection_timeout_ms: timeout_ms,
        ..default
    };
    if *round == of_mode {
        return None;
    }
    match round.mode {
        Mode::Synchronous => None,
        Mode::Buffered { .. } => Some(
            "leave out updates_goal, updates_min, over_selection, available_min, selection, selection_timeout_ms and adapt \
             updates_goal_min: clients are drawn one by one, and a full buffer makes a version"
                .to_owned(),
        ),
        Mode::StaleSynchronous { .. } => Some(
            "leave out updates_goal, updates_min, over_selection, available_min, selection and adapt: members stay, their \
             number is that of the updates of a version, and a deadline that follows the fast ones would make slow ones leave"
                .to_owned(),
        ),
    }
}

/// What such a client downloads beside the model, and what it keeps, belong to the newest version.
fn drift(job: &JobFile) -> Option<String> {
    let is_stale = job.round.mode.buffered().is_some() && job.training.algorithm.keeps_state();
    is_stale
        .then(|| "its corrections are those of the newest version, and clients of this mode may be behind".to_owned())
}

/// The weight of a round is stored with it, and clients of a buffer outlast rounds.
fn adaptive(job: &JobFile) -> Option<String> {
    let adapts = job.training.algorithm.adaptive_mu().is_some();
    (job.round.mode.buffered().is_some() && adapts)
        .then(|| "mu adapts from round to round, and a client of a buffer may train for several".to_owned())
}

/// Formulas with the global model, or with the steps behind an update, are those of one training from that model.
fn cadence(job: &JobFile) -> Option<String> {
    let algorithm = &job.training.algorithm;
    let is_plain = job.round.mode.cadence().is_plain();
    (!is_plain && !algorithm.is_plain() && algorithm.clients().is_none())
        .then(|| format!("{} needs updates that are each one training from the newest model", algorithm.as_str()))
}

/// What the coordinator knows of an update's age is that of its assignment.
fn aged(job: &JobFile) -> Option<String> {
    let Mode::Buffered { staleness_weight, .. } = job.round.mode else { return None };
    let is_discounted = staleness_weight != StalenessWeight::Constant;
    (job.round.mode.cadence().keeps_weights() && is_discounted).then(|| {
        "staleness counts from the assignment, and between fetches a client's own weights are older: set \
         staleness_weight = { kind = \"constant\" }"
            .to_owned()
    })
}

/// The model moves by the sum of the pulls: with more than the whole distance it would pass its clients.
fn elastic_centre(job: &JobFile) -> Option<String> {
    let alpha = job.training.algorithm.elastic()?;
    let updates = job.round.cohort_size();
    if alpha * f64::from(updates) > 1.0 + 1e-9 {
        return Some(format!(
            "the model moves by the sum of the pulls, so alpha times the {updates} updates of a version is at most 1"
        ));
    }
    let buffered = job.round.mode.buffered()?;
    (buffered.staleness_weight != StalenessWeight::Constant).then(|| {
        "a discounted pull would move the model less than its client: set staleness_weight = { kind = \"constant\" }"
            .to_owned()
    })
}

/// A cohort whose size follows the drop-out would cut off some of those that a chance of their own has drawn.
fn adapting(job: &JobFile) -> Option<String> {
    let is_poisson = matches!(job.round.selection, Selection::Poisson { .. });
    if job.round.adapt.is_some() && job.training.partial_work.is_some() {
        return Some("partial work ends with its deadline, so its times do not say how long work takes".to_owned());
    }
    (job.round.adapt.is_some() && is_poisson)
        .then(|| "Poisson sampling draws each client by itself, so no cohort can follow the drop-out".to_owned())
}

/// In a cohort a round that nobody may join is abandoned, and the next one lets clients return.
fn rest(job: &JobFile) -> Option<String> {
    let rests = job.eligibility.separation_rounds > 0;
    (job.round.mode.buffered().is_some() && rests)
        .then(|| "a round of this mode has no end of its own, so clients that all rest would stop the job".to_owned())
}

/// A discount is a weight, so the rule must have weights; and a divisor of its own needs a sum that is divided.
fn staleness(job: &JobFile) -> Option<String> {
    let buffered = job.round.mode.buffered()?;
    if buffered.staleness_weight == StalenessWeight::Constant {
        return None;
    }
    let is_sum = !matches!(job.training.algorithm, Algorithm::FedNova { .. });
    match job.aggregation.combine {
        Combine::WeightedMean if is_sum => None,
        Combine::UniformMean => None,
        Combine::WeightedMean | Combine::NormClipping(_) if buffered.divisor == Divisor::Weights => None,
        Combine::WeightedMean | Combine::NormClipping(_) => Some(
            "the rule divides by the weights: set divisor = \"weights\", or a constant staleness weight".to_owned(),
        ),
        _ => Some("the rule has no weights that a discount could change: set a constant staleness weight".to_owned()),
    }
}

/// Rules that tolerate so many wrong updates need so many in all.
fn too_few(job: &JobFile) -> Option<String> {
    let least = job.round.minimum();
    let (needed, formula) = match job.aggregation.combine {
        Combine::Krum(Krum { byzantine }) | Combine::MultiKrum(MultiKrum { byzantine, .. }) => {
            (byzantine.saturating_mul(2).saturating_add(3), "2 x byzantine + 3")
        }
        Combine::Bulyan(Krum { byzantine }) => (byzantine.saturating_mul(4).saturating_add(3), "4 x byzantine + 3"),
        Combine::Median | Combine::GeometricMedian(_) => (3, "3"),
        Combine::TrimmedMean(TrimmedMean { trim }) if trim > 0.0 && trimmed(trim, least) == 0 => {
            return Some(format!("a trim of {trim} drops nothing of {least} updates"));
        }
        _ => (1, "1"),
    };
    if least < needed {
        return Some(format!("the rule needs {formula} = {needed} updates, and a round may have {least}"));
    }
    match job.aggregation.combine {
        Combine::MultiKrum(MultiKrum { byzantine, keep: Some(keep) }) if keep > least - byzantine => {
            Some(format!("{keep} updates are kept of {least}, of which {byzantine} may be wrong"))
        }
        _ => None,
    }
}

fn too_many(job: &JobFile) -> Option<String> {
    let (most, cost) = match job.aggregation.combine {
        Combine::Krum(_)
        | Combine::MultiKrum(_)
        | Combine::Bulyan(_)
        | Combine::GeometricMedian(_)
        | Combine::CenteredClipping(_) => (PAIRS_COHORT_MAX, "compares every pair of updates"),
        Combine::Median | Combine::TrimmedMean(_) => (STRIPES_COHORT_MAX, "holds a stripe of every update in memory"),
        _ => return None,
    };
    let cohort = job.round.cohort_size();
    if cohort > most {
        return Some(format!("the rule {cost}, so a cohort has at most {most} clients, not {cohort}"));
    }
    let parameters = job.model.parts().map_or(0, |parts| parts.shared().total() as u64);
    let fitting = STRIPES_VALUES_MAX / parameters.max(1);
    (u64::from(cohort) > fitting).then(|| {
        format!("the rule reads every update many times, so with {parameters} parameters a cohort has at most {fitting} clients")
    })
}

/// Where a codec sends zero for most values, zero is the middle of every coordinate.
fn codec(job: &JobFile) -> Option<String> {
    let sends_zeros = matches!(
        job.update.codec.name(),
        CodecName::Ternary | CodecName::Qsgd | CodecName::RandomK | CodecName::TopK | CodecName::Dgc
    );
    let by_coordinate = match job.aggregation.combine {
        Combine::Median | Combine::Bulyan(_) => true,
        Combine::TrimmedMean(TrimmedMean { trim }) => trim > 0.0,
        _ => false,
    };
    (sends_zeros && by_coordinate).then(|| {
        let codec = job.update.codec.name();
        format!("{codec} sends zero for most values, so the middle of most coordinates would be zero")
    })
}

fn norm(job: &JobFile) -> Option<String> {
    match (job.aggregation.combine, job.update.norm_max) {
        (Combine::NormClipping(NormClipping { norm, .. }), Some(NormMax::Fixed(bound))) if bound <= norm => {
            Some(format!("updates with a norm above {bound} are refused, so none is left to clip to {norm}"))
        }
        _ => None,
    }
}

fn training(job: &JobFile) -> Option<String> {
    let is_sgd = matches!(job.training.optimizer, Optimizer::Sgd { .. });
    match job.aggregation.combine {
        Combine::QFedAvg(_) if !is_sgd => {
            Some("q_fedavg divides by the learning rate of SGD; another optimiser has no such rate".to_owned())
        }
        _ => None,
    }
}

/// Shared running variances are parameters like all others. A mean of them is positive; a longer step need not be.
fn optimizer(job: &JobFile) -> Option<String> {
    let is_mean = matches!(job.aggregation.optimizer, ServerOptimizer::Sgd { momentum: 0.0, .. });
    (job.model.shares_running_statistics() && !is_mean)
        .then(|| "such a step could make a running variance negative; layer_norm has no running values".to_owned())
}

/// Whether the optimiser searches along directions that it makes of gradients.
fn searches(job: &JobFile) -> bool {
    matches!(job.aggregation.optimizer, ServerOptimizer::Lbfgs { .. })
}

/// One step of plain SGD over all examples is the gradient, and its loss is that of the model it started from.
fn gradient(job: &JobFile) -> Option<String> {
    let training = &job.training;
    let plain = Optimizer::Sgd {
        learning_rate: training.optimizer.learning_rate(),
        momentum: 0.0,
        weight_decay: 0.0,
        nesterov: false,
    };
    let is_gradient = training.steps == Some(1)
        && training.work_schedule.is_empty()
        && training.batch_size.is_none()
        && training.partial_work.is_none()
        && training.optimizer == plain
        && training.algorithm.is_plain();
    (searches(job) && !is_gradient).then(|| {
        "updates must be gradients: set steps = 1, no work_schedule, no batch_size, sgd without momentum and \
         weight_decay, and no algorithm"
            .to_owned()
    })
}

fn incomparable(job: &JobFile) -> Option<String> {
    let network = if let ModelSpec::Layers(network) = &job.model.spec { network.layers.as_slice() } else { &[] };
    let is_random = network.iter().any(|layer| matches!(layer, Layer::Dropout { .. }));
    let is_personal = !job.model.sharing.personal.is_empty();
    (searches(job) && (is_random || is_personal)).then(|| {
        "dropout layers and personal parameters change the loss by themselves, so that losses of two rounds cannot be \
         compared"
            .to_owned()
    })
}

fn search(job: &JobFile) -> Option<String> {
    let is_mean = job.aggregation.combine == Combine::WeightedMean && job.aggregation.schedule.is_constant();
    (searches(job) && !is_mean).then(|| {
        "the mean of the gradients must be that of the losses (weighted_mean), and the line search sets the length of a \
         step"
            .to_owned()
    })
}

fn together(job: &JobFile) -> Option<String> {
    (searches(job) && job.round.mode != Mode::Synchronous)
        .then(|| "all gradients of a round must be those of one model".to_owned())
}

fn residual(job: &JobFile) -> Option<String> {
    let feeds_back = job.update.codec.properties().error_feedback;
    (searches(job) && feeds_back).then(|| {
        let codec = job.update.codec.name();
        format!("{codec} sends what earlier updates left out, and a gradient belongs to one model")
    })
}

fn trial(job: &JobFile) -> Option<String> {
    (searches(job) && !job.download.is_plain()).then(|| {
        "a rounded model is not the point whose loss the search compares: set codec = \"f32\" and no delta".to_owned()
    })
}

fn algorithm(job: &JobFile) -> Option<String> {
    let is_mean = matches!(job.aggregation.combine, Combine::WeightedMean);
    let is_uniform = matches!(job.aggregation.combine, Combine::UniformMean);
    match job.training.algorithm {
        Algorithm::FedNova { .. } if !is_mean => {
            Some("fed_nova weighs updates by the steps behind them, which only weighted_mean does".to_owned())
        }
        Algorithm::Easgd { .. } if !is_uniform => {
            Some("the model moves by the sum of the pulls, in which all count alike: uniform_mean".to_owned())
        }
        Algorithm::Scaffold { .. } | Algorithm::FedDyn { .. } if !is_uniform => {
            Some("what clients keep sums up to the state of the model only if all count alike: uniform_mean".to_owned())
        }
        _ => None,
    }
}

fn cohort(job: &JobFile) -> Option<String> {
    let (clients, cohort) = (job.training.algorithm.clients()?, job.round.cohort_size());
    (clients < cohort).then(|| format!("{clients} clients take part in the job, and a cohort has {cohort}"))
}

/// A client's own vector already holds what an update left out, since it moves by what was sent.
fn feedback(job: &JobFile) -> Option<String> {
    let feeds_back = job.update.codec.properties().error_feedback;
    if job.training.algorithm.elastic().is_some() && feeds_back {
        let codec = job.update.codec.name();
        return Some(format!("{codec} sends a part of the pull later, by which the client has already moved"));
    }
    (job.training.algorithm.keeps_state() && feeds_back).then(|| {
        let codec = job.update.codec.name();
        format!("{codec} sends what earlier updates left out, and the client's vector would make up for it once more")
    })
}

fn server(job: &JobFile) -> Option<String> {
    let aggregation = &job.aggregation;
    let adds = matches!(aggregation.optimizer, ServerOptimizer::Sgd { learning_rate: 1.0, momentum: 0.0, .. });
    let is_added = adds && aggregation.schedule.is_constant();
    let has_step = matches!(job.training.algorithm, Algorithm::FedDyn { .. } | Algorithm::Easgd { .. });
    (has_step && !is_added).then(|| {
        let algorithm = job.training.algorithm.as_str();
        format!("{algorithm} has a server step of its own: only sgd with a learning rate of 1 leaves it as it is")
    })
}

fn model(job: &JobFile) -> Option<String> {
    if job.training.algorithm.elastic().is_some() {
        return elastic(job);
    }
    if !job.training.algorithm.keeps_state() {
        return None;
    }
    if job.model.shares_running_statistics() {
        return Some(
            "running means and variances have no gradients to correct; layer_norm has none of them".to_owned(),
        );
    }
    let update = job.training.algorithm.update_parameters(job.model.parts().ok()?.shared());
    update.err().map(|error| format!("an update carries a control vector beside the delta: {error}"))
}

/// A client of elastic averaging keeps every shared parameter as its own, for good.
fn elastic(job: &JobFile) -> Option<String> {
    if !job.model.sharing.personal.is_empty() {
        return Some("each client has weights of its own already: leave personal out".to_owned());
    }
    if job.model.shares_running_statistics() {
        return Some("a pull towards stale values could make a running variance negative: use layer_norm".to_owned());
    }
    let network = if let ModelSpec::Layers(network) = &job.model.spec { network.layers.as_slice() } else { &[] };
    let has_products = network.iter().any(|layer| matches!(layer, Layer::LowRank { .. }));
    has_products.then(|| {
        "the factors of a low_rank layer mean something only together, and those of clients stay apart".to_owned()
    })
}
