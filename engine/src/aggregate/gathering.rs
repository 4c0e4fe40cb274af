//! What a job's rule needs of its updates, and which combination it makes of them.

use std::cmp::Ordering;

use tributary_protocol::coded::Code;
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::job_file::{
    CenteredClipping, Combine, GeometricMedian, JobFile, Krum, MultiKrum, NormClipping, QFedAvg, TrimmedMean,
};
use tributary_protocol::model::Companion;
use tributary_protocol::plan::{Algorithm, Optimizer};

use super::robust::{Distances, Middle, centre, krum};
use crate::coded::cyclic::decode;

/// Added to losses, so that a loss of 0 has a power (as in the authors' code of q-FedAvg).
const LOSS_FLOOR: f64 = 1e-10;

/// What is known of an accepted update without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub figures: Figures,
    /// The weight of the figures, less what staleness takes from it.
    pub weight: Weight,
    /// Enrolment number of the client.
    pub enrolment: u64,
    /// Of a combination of a code: its entry for each part, or run of parts.
    pub row: Option<Vec<f64>>,
}

impl Facts {
    /// L2 norm; 0 where it was not measured.
    pub fn norm(&self) -> f64 {
        self.figures.norm.unwrap_or(0.0)
    }

    /// Mean loss of the training; 0 where it is not told, which jobs whose rules read losses do not accept.
    pub fn loss(&self) -> f64 {
        self.figures.loss.unwrap_or(0.0)
    }

    /// The order in which rules see the updates of a round: by norm, then by enrolment. It does not depend on ids or on
    /// the order of arrival, so a seed gives the same model again.
    pub fn order(&self, other: &Self) -> Ordering {
        self.norm().total_cmp(&other.norm()).then(self.enrolment.cmp(&other.enrolment))
    }
}

/// How each update weighs in a running sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighing {
    /// By its examples.
    Examples,
    /// As one.
    Uniform,
}

impl Weighing {
    /// The weight in the sum of an update with this contribution.
    pub fn weight(self, contribution: Contribution) -> Weight {
        match self {
            Self::Examples => contribution.weight,
            Self::Uniform => Weight::examples(contribution.updates),
        }
    }
}

/// What a rule needs of the updates of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gathering {
    /// A running sum: each update is added when it arrives.
    Sum(Weighing),
    /// The reports of all updates, before the first is added.
    Reports(Reports),
    /// The distances of all pairs, then a sum.
    Pairs(Pairs),
    /// The distances of all pairs, then every value of the selected ones.
    Bulyan { byzantine: u32 },
    /// Every value.
    Median,
    /// Every value.
    Trimmed(TrimmedMean),
}

/// Coefficients that follow from the reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reports {
    /// q-FedAvg with the clients' learning rate.
    Fair { q: f64, learning_rate: f64 },
    /// Norms above the bound are scaled down to it.
    Clipped { norm: f64 },
    /// FedNova, for steps with this momentum and this product of learning rate and proximal weight.
    Normalised { momentum: f64, proximal_rate: f64 },
    /// Combinations of a code: the weights by which those that came give the mean over all parts.
    Decoded,
}

/// Coefficients that follow from the distances of pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pairs {
    Krum { byzantine: u32, keep: Keep },
    GeometricMedian(GeometricMedian),
    CenteredClipping(CenteredClipping),
}

/// How many updates Krum averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Exactly(u32),
    /// All but the wrong ones.
    Right,
}

/// The combination that a rule makes of the updates of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// The exact mean, weighted by examples.
    WeightedMean,
    /// The sum of updates times coefficients, in the order of the facts; that of the centre is last if the rule has
    /// one.
    Mixture(Vec<f64>),
    /// The middle of each coordinate over these updates.
    Coordinates { members: Vec<usize>, middle: Middle },
}

/// The gathering of a job's rounds that start from this model version.
pub fn gathering_of(file: &JobFile, version: u32) -> Gathering {
    if file.coded.as_ref().is_some_and(|coded| coded.code == Code::Cyclic || coded.tree.is_some()) {
        return Gathering::Reports(Reports::Decoded);
    }
    match file.aggregation.combine {
        Combine::WeightedMean => match file.training.algorithm {
            Algorithm::FedNova { mu } => {
                let training = file.training.at_version(version);
                let momentum = match training.optimizer {
                    Optimizer::Sgd { momentum, .. } => momentum,
                    _ => 0.0,
                };
                let proximal_rate = mu * training.optimizer.learning_rate();
                Gathering::Reports(Reports::Normalised { momentum, proximal_rate })
            }
            Algorithm::Plain
            | Algorithm::FedProx { .. }
            | Algorithm::Scaffold { .. }
            | Algorithm::FedDyn { .. }
            | Algorithm::Easgd { .. } => Gathering::Sum(Weighing::Examples),
        },
        Combine::UniformMean
        | Combine::QFedAvg(QFedAvg { q: 0.0 })
        | Combine::TrimmedMean(TrimmedMean { trim: 0.0 }) => Gathering::Sum(Weighing::Uniform),
        Combine::QFedAvg(QFedAvg { q }) => {
            let learning_rate = file.training.at_version(version).optimizer.learning_rate();
            Gathering::Reports(Reports::Fair { q, learning_rate })
        }
        Combine::NormClipping(NormClipping { norm, .. }) => Gathering::Reports(Reports::Clipped { norm }),
        Combine::Median => Gathering::Median,
        Combine::TrimmedMean(settings) => Gathering::Trimmed(settings),
        Combine::Krum(Krum { byzantine }) => Gathering::Pairs(Pairs::Krum { byzantine, keep: Keep::Exactly(1) }),
        Combine::MultiKrum(MultiKrum { byzantine, keep }) => {
            Gathering::Pairs(Pairs::Krum { byzantine, keep: keep.map_or(Keep::Right, Keep::Exactly) })
        }
        Combine::Bulyan(Krum { byzantine }) => Gathering::Bulyan { byzantine },
        Combine::GeometricMedian(settings) => Gathering::Pairs(Pairs::GeometricMedian(settings)),
        Combine::CenteredClipping(settings) => Gathering::Pairs(Pairs::CenteredClipping(settings)),
    }
}

impl Gathering {
    /// How updates weigh in the running sum; none if there is no running sum.
    pub fn weighing(&self) -> Option<Weighing> {
        match self {
            Self::Sum(weighing) => Some(*weighing),
            _ => None,
        }
    }

    /// The gathering of a round that clips to this norm, if it adapts.
    #[must_use]
    pub fn clipped_to(self, adapted: Option<f64>) -> Self {
        match (self, adapted) {
            (Self::Reports(Reports::Clipped { .. }), Some(norm)) => Self::Reports(Reports::Clipped { norm }),
            (gathering, _) => gathering,
        }
    }

    pub fn needs_distances(&self) -> bool {
        matches!(self, Self::Pairs(_) | Self::Bulyan { .. })
    }

    /// Whether the rule reads the norms of updates.
    pub fn needs_norms(&self) -> bool {
        matches!(self, Self::Reports(Reports::Fair { .. } | Reports::Clipped { .. }))
    }

    /// The companion of a model version that the rule starts from and replaces by its result.
    pub fn centre(&self) -> Option<Companion> {
        matches!(self, Self::Pairs(Pairs::CenteredClipping(_))).then_some(Companion::Centre)
    }

    /// The combination of updates with these facts, of which there is at least one. `distances` are those of the
    /// updates in the same order, with the centre behind them if the rule has one.
    ///
    /// # Panics
    /// If the rule needs distances and there are none.
    pub fn recipe(&self, facts: &[Facts], distances: Option<&Distances>) -> Recipe {
        let distances = || distances.expect("a rule that needs distances is given them");
        let all = || (0..facts.len()).collect();
        match *self {
            Self::Sum(Weighing::Examples) => Recipe::WeightedMean,
            Self::Sum(Weighing::Uniform) => Recipe::Mixture(vec![1.0 / facts.len() as f64; facts.len()]),
            Self::Reports(reports) => reports.coefficients(facts).map_or(Recipe::WeightedMean, Recipe::Mixture),
            Self::Pairs(pairs) => Recipe::Mixture(pairs.coefficients(distances())),
            Self::Bulyan { byzantine } => {
                let members = krum::repeated(distances(), byzantine);
                let keep = members.len().saturating_sub(2 * byzantine as usize).max(1);
                Recipe::Coordinates { members, middle: Middle::Nearest { keep } }
            }
            Self::Median => Recipe::Coordinates { members: all(), middle: Middle::Median },
            Self::Trimmed(settings) => {
                let cut = settings.cut(u32::try_from(facts.len()).unwrap_or(u32::MAX)) as usize;
                Recipe::Coordinates { members: all(), middle: Middle::Trimmed { cut } }
            }
        }
    }
}

impl Reports {
    /// The coefficients; none if they are those of the weighted mean, whose sum is exact.
    fn coefficients(&self, facts: &[Facts]) -> Option<Vec<f64>> {
        match *self {
            Self::Fair { q, learning_rate } => Some(fair(facts, q, learning_rate)),
            Self::Clipped { norm } => facts.iter().any(|facts| facts.norm() > norm).then(|| {
                let scaled = |facts: &Facts| if facts.norm() > norm { norm / facts.norm() } else { 1.0 };
                shares(facts).iter().zip(facts).map(|(share, facts)| share * scaled(facts)).collect()
            }),
            Self::Normalised { momentum, proximal_rate } => {
                let counts: Vec<f64> =
                    facts.iter().map(|facts| step_count(facts.figures.steps, momentum, proximal_rate)).collect();
                let shares = shares(facts);
                let effective: f64 = shares.iter().zip(&counts).map(|(share, count)| share * count).sum();
                let is_equal = counts.iter().all(|count| *count == counts[0]);
                let coefficient = |(share, count): (&f64, &f64)| share * effective / count;
                (!is_equal).then(|| shares.iter().zip(&counts).map(coefficient).collect())
            }
            Self::Decoded => {
                let rows: Option<Vec<&[f64]>> = facts.iter().map(|facts| facts.row.as_deref()).collect();
                // Rows that do not decode make no model: it is not finite, and its round is abandoned.
                let undecoded = || vec![f64::NAN; facts.len()];
                Some(rows.and_then(|rows| decode(&rows)).unwrap_or_else(undecoded))
            }
        }
    }
}

/// The share of each update in the examples of all.
fn shares(facts: &[Facts]) -> Vec<f64> {
    let total: f64 = facts.iter().map(|facts| facts.weight.as_f64()).sum();
    facts.iter().map(|facts| facts.weight.as_f64() / total).collect()
}

/// The mean loss of the updates, weighted by examples. The facts are added in their order.
pub fn mean_loss(facts: &[Facts]) -> f64 {
    shares(facts).iter().zip(facts).map(|(share, facts)| share * facts.loss()).sum()
}

/// q-FedAvg (Li et al. 2020, <https://arxiv.org/abs/1905.10497>, algorithm 2). With L = 1 / learning rate and
/// `g_k = -L d_k`, the step is `-sum F_k^q g_k / sum h_k`, where `h_k = q F_k^(q-1) |g_k|^2 + L F_k^q`.
fn fair(facts: &[Facts], q: f64, learning_rate: f64) -> Vec<f64> {
    let lipschitz = 1.0 / learning_rate;
    let loss = |facts: &Facts| facts.loss().max(0.0) + LOSS_FLOOR;
    let curvature = |facts: &Facts| {
        q * loss(facts).powf(q - 1.0) * (lipschitz * facts.norm()).powi(2) + lipschitz * loss(facts).powf(q)
    };
    let total: f64 = facts.iter().map(curvature).sum();
    facts.iter().map(|facts| lipschitz * loss(facts).powf(q) / total).collect()
}

/// The norm of FedNova's accumulation vector (Wang et al. 2020, <https://arxiv.org/abs/2007.07481>, section 4): how
/// many plain gradient steps these steps add up to.
fn step_count(steps: u64, momentum: f64, proximal_rate: f64) -> f64 {
    let steps = i32::try_from(steps.max(1)).unwrap_or(i32::MAX);
    let count = f64::from(steps);
    if momentum > 0.0 {
        (count - momentum * (1.0 - momentum.powi(steps)) / (1.0 - momentum)) / (1.0 - momentum)
    } else if proximal_rate > 0.0 {
        (1.0 - (1.0 - proximal_rate).powi(steps)) / proximal_rate
    } else {
        count
    }
}

impl Pairs {
    fn coefficients(&self, distances: &Distances) -> Vec<f64> {
        match *self {
            Self::Krum { byzantine, keep } => {
                let n = distances.vectors();
                let right = n.saturating_sub(byzantine as usize).max(1);
                let count = match keep {
                    Keep::Exactly(count) => (count as usize).clamp(1, right),
                    Keep::Right => right,
                };
                let mut coefficients = vec![0.0; n];
                for selected in krum::best(distances, byzantine, count) {
                    coefficients[selected] = 1.0 / count as f64;
                }
                coefficients
            }
            Self::GeometricMedian(settings) => centre::geometric_median(distances, settings),
            Self::CenteredClipping(settings) => centre::centered_clipping(distances, settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(got: f64, wanted: f64) {
        assert!((got - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{got} is not {wanted}");
    }

    fn of(norm: f64, loss: f64) -> Facts {
        let weight = Weight::examples(1);
        let contribution = Contribution::of_one(weight);
        let figures = Figures { contribution, norm: Some(norm), loss: Some(loss), ..Figures::default() };
        Facts { figures, weight, enrolment: 1, row: None }
    }

    /// The mean of a group under secure aggregation.
    fn of_group(members: u32, norm: f64) -> Facts {
        let weight = Weight::examples(members);
        let contribution = Contribution { weight, updates: members };
        Facts {
            figures: Figures { contribution, norm: Some(norm), ..Figures::default() },
            weight,
            enrolment: 1,
            row: None,
        }
    }

    /// Rows (1/2, 1, 0), (0, 1, -1), (1/2, 0, 1): any two of three members give the sum of all parts.
    #[test]
    fn combinations_of_a_cyclic_code_are_decoded() {
        let decoded = Gathering::Reports(Reports::Decoded);
        let combination = |row: [f64; 3]| Facts { row: Some(row.to_vec()), ..of(1.0, 1.0) };
        let [first, second, third] = [[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]].map(combination);
        for (facts, wanted) in [
            ([first.clone(), second.clone()], [2.0, -1.0]),
            ([first.clone(), third.clone()], [1.0, 1.0]),
            ([second, third], [1.0, 2.0]),
        ] {
            let Recipe::Mixture(coefficients) = decoded.recipe(&facts, None) else { panic!("combinations are mixed") };
            coefficients.iter().zip(wanted).for_each(|(got, wanted)| near(*got, wanted));
        }
        let Recipe::Mixture(coefficients) = decoded.recipe(&[first], None) else { panic!() };
        assert!(coefficients[0].is_nan(), "one combination lacks a part");
    }

    #[test]
    fn means_of_groups_count_by_their_members_where_they_are_clipped_and_alike_where_their_middle_is_taken() {
        let clipped = Gathering::Reports(Reports::Clipped { norm: 0.5 });
        let groups = [of_group(20, 0.4), of_group(10, 1.0)];
        let Recipe::Mixture(coefficients) = clipped.recipe(&groups, None) else { panic!("one of them is long") };
        near(coefficients[0], 2.0 / 3.0);
        near(coefficients[1], 1.0 / 6.0);
        assert_eq!(clipped.recipe(&[of_group(20, 0.4), of_group(10, 0.5)], None), Recipe::WeightedMean);
        assert!(clipped.needs_norms() && !Gathering::Median.needs_norms());
        let members = vec![0, 1];
        let median = Recipe::Coordinates { members, middle: Middle::Median };
        assert_eq!(Gathering::Median.recipe(&groups, None), median);
    }

    proptest! {
        #[test]
        fn no_group_moves_the_step_by_more_than_its_share_of_the_bound(
            groups in prop::collection::vec((3u32..1_000, 0f64..1e6), 1..12), bound in 1e-3f64..10.0,
        ) {
            let facts: Vec<Facts> = groups.iter().map(|(members, norm)| of_group(*members, *norm)).collect();
            let members: f64 = groups.iter().map(|(members, _)| f64::from(*members)).sum();
            let coefficients = match (Gathering::Reports(Reports::Clipped { norm: bound })).recipe(&facts, None) {
                Recipe::Mixture(coefficients) => coefficients,
                _ => shares(&facts),
            };
            for ((of_group, norm), coefficient) in groups.iter().zip(coefficients) {
                let share = f64::from(*of_group) / members;
                prop_assert!(coefficient * norm <= share * norm.min(bound) * (1.0 + 1e-9), "{of_group} {norm}");
            }
        }
    }

    /// The norms of accumulation vectors that FedNova's authors print: momentum of 0.9, and a proximal term whose
    /// product with the learning rate is 0.05.
    #[test]
    fn steps_with_momentum_or_a_proximal_term_count_as_printed() {
        for (steps, momentum, proximal) in [(2, 2.9, 1.95), (4, 9.049, 3.709_875), (8, 28.742_048_9, 6.731_591_374)] {
            near(step_count(steps, 0.9, 0.0), momentum);
            near(step_count(steps, 0.0, 0.05), proximal);
            near(step_count(steps, 0.0, 0.0), steps as f64);
        }
        near(step_count(0, 0.9, 0.0), 1.0);
    }

    /// By hand, with L = 2 and q = 2: the curvatures are 2 * 2 * 6^2 + 2 * 2^2 = 152 and 2 * 1 * 2^2 + 2 * 1^2 = 10.
    #[test]
    fn fair_shares_follow_losses_norms_and_the_learning_rate() {
        let shares = fair(&[of(3.0, 2.0), of(1.0, 1.0)], 2.0, 0.5);
        near(shares[0], 8.0 / 162.0);
        near(shares[1], 2.0 / 162.0);
        let [without_loss, ..] = fair(&[of(1.0, 0.0), of(1.0, 1.0)], 0.5, 0.5)[..] else { panic!("two shares") };
        assert!(without_loss > 0.0 && without_loss.is_finite(), "{without_loss}");
    }
}
