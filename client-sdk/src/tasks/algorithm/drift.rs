//! The client's half of SCAFFOLD and FedDyn: a vector of its own that corrects its gradients.
//!
//! The coordinator's halves are `ControlStep` and `Dynamic` in `tributary_engine::aggregate`. The vector moves on by
//! the values that the coordinator decodes, not by those before the codec, so the coordinator's mean of all clients'
//! vectors stays their mean whatever the codec rounds.

use tributary_protocol::plan::{self, Control};

use super::contract::{Algorithm, Reached};
use crate::models::Base;
use crate::store::kept::Kept;
use crate::trainer::TrainError;

/// The kept vector that corrects the gradients of the next round.
const OWN: &str = "own";

/// The vectors of a round.
#[derive(Debug)]
pub(super) struct Drift<'a> {
    algorithm: plan::Algorithm,
    /// SCAFFOLD: the control variate of the model's version. Empty for zeros.
    server: &'a [f32],
    /// SCAFFOLD: the client's control vector. FedDyn: its linear term. It has a value for each shared parameter.
    own: Vec<f32>,
}

impl<'a> Drift<'a> {
    /// A client that keeps nothing, such as a new one, begins with zeros.
    pub(super) fn begin(algorithm: plan::Algorithm, base: &'a Base, kept: Option<Kept>) -> Self {
        let total = base.parts.shared().total();
        let own = kept.and_then(|mut kept| kept.take(OWN)).filter(|own| own.len() == total);
        let server = base.control.as_deref().unwrap_or_default();
        Self { algorithm, server, own: own.unwrap_or_else(|| vec![0.0; total]) }
    }

    fn server(&self, place: usize) -> f32 {
        self.server.get(place).copied().unwrap_or_default()
    }

    /// Option II of SCAFFOLD takes the mean gradient of `steps` steps of this learning rate for the client's next
    /// control vector: `c_k' = c_k - c - delta / (steps rate)`. This is its change.
    fn mean_change(&self, delta: &[f32], steps: u64, rate: f64) -> Vec<f32> {
        let length = steps.max(1) as f64 * rate;
        let change =
            |(place, delta): (usize, &f32)| (-f64::from(self.server(place)) - f64::from(*delta) / length) as f32;
        delta.iter().enumerate().map(change).collect()
    }
}

impl Algorithm for Drift<'_> {
    /// `c - c_k` in SCAFFOLD, the negative linear term in FedDyn.
    fn constant(&self) -> Option<Vec<f32>> {
        let constant: Vec<f32> = match self.algorithm.sends_control() {
            true => self.own.iter().enumerate().map(|(place, own)| self.server(place) - own).collect(),
            false => self.own.iter().map(|own| -own).collect(),
        };
        constant.iter().any(|value| *value != 0.0).then_some(constant)
    }

    /// The delta, and behind it the change of the control vector where there is one.
    fn values(
        &mut self,
        reached: Reached<'_>,
        gradient: &mut dyn FnMut() -> Result<Vec<f32>, TrainError>,
    ) -> Result<Vec<f32>, TrainError> {
        let Reached { steps, learning_rate, .. } = reached;
        let mut values = reached.delta();
        if let plan::Algorithm::Scaffold { control, .. } = self.algorithm {
            let change = match control {
                Control::Gradient => gradient()?.iter().zip(&self.own).map(|(gradient, own)| gradient - own).collect(),
                Control::Steps => self.mean_change(&values, steps, learning_rate),
            };
            values.extend(change);
        }
        Ok(values)
    }

    fn keep(self: Box<Self>, sent: &dyn Fn() -> Vec<f32>, kept: &mut Kept) {
        let sent = sent();
        let (delta, change) = sent.split_at(self.own.len());
        let next: Vec<f32> = match self.algorithm {
            plan::Algorithm::FedDyn { alpha, .. } => {
                let moved = |(own, delta): (&f32, &f32)| (f64::from(*own) - alpha * f64::from(*delta)) as f32;
                self.own.iter().zip(delta).map(moved).collect()
            }
            _ => self.own.iter().zip(change).map(|(own, change)| own + change).collect(),
        };
        kept.put(OWN, next, self.own);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tributary_protocol::model::Model;

    use super::*;
    use crate::fixtures::{self, assignment};

    fn base(control: Option<[f32; 2]>) -> Base {
        let parts = assignment(&json!({})).plan.model.parts().unwrap();
        let model = Model::new(Arc::clone(parts.model()), vec![0.0; 2]).unwrap();
        Base { model, parts, control: control.map(Vec::from), updates: 0 }
    }

    fn kept(own: &[f32], before: &[f32], dropped_round: Option<u32>) -> Option<Kept> {
        Some(fixtures::kept([("own", own), ("own_before", before)], dropped_round))
    }

    /// What is sent after two steps of 0.25 with this delta.
    fn values(drift: &mut Drift<'_>, base: &Base, delta: [f32; 2], gradient: Option<[f32; 2]>) -> Vec<f32> {
        let (start, parts) = (&base.model, &base.parts);
        let reached = Reached { start, values: delta.to_vec(), parts, steps: 2, learning_rate: 0.25 };
        drift.values(reached, &mut || Ok(gradient.expect("it is not asked for").to_vec())).unwrap()
    }

    /// What is kept after these values were sent: the next vector, and the one before.
    fn after(drift: Drift<'_>, sent: &[f32]) -> [Vec<f32>; 2] {
        let mut kept = Kept::after(&assignment(&json!({})));
        Box::new(drift).keep(&|| sent.to_vec(), &mut kept);
        let vectors = kept.into_state().unwrap().vectors;
        ["own", "own_before"].map(|name| vectors[name].clone())
    }

    const STEPS: plan::Algorithm = plan::Algorithm::Scaffold { clients: 2, control: Control::Steps };
    const GRADIENT: plan::Algorithm = plan::Algorithm::Scaffold { clients: 2, control: Control::Gradient };

    #[test]
    fn scaffold_corrects_by_the_difference_and_keeps_what_was_sent() {
        let base = base(Some([1.0, -2.0]));
        let begin = |algorithm| Drift::begin(algorithm, &base, kept(&[0.5, 1.0], &[9.0; 2], None));
        let mut drift = begin(STEPS);
        assert_eq!(drift.constant(), Some(vec![0.5, -3.0]));
        // The mean gradient of two steps of 0.25 is -2 delta, and the change is that of c_k - c + (x - y) / (K rate).
        assert_eq!(values(&mut drift, &base, [1.0, -0.5], None), [1.0, -0.5, -3.0, 3.0]);
        let by_gradient = values(&mut begin(GRADIENT), &base, [1.0, -0.5], Some([4.0, 5.0]));
        assert_eq!(by_gradient, [1.0, -0.5, 3.5, 4.0], "option I");
        assert_eq!(after(drift, &[1.0, -0.5, -2.5, 3.0]), [[-2.0, 4.0], [0.5, 1.0]]);
    }

    #[test]
    fn fed_dyn_subtracts_its_linear_term_and_moves_it_by_what_was_sent() {
        let base = base(None);
        let algorithm = plan::Algorithm::FedDyn { alpha: 0.5, clients: 2 };
        let mut drift = Drift::begin(algorithm, &base, kept(&[0.5, 1.0], &[9.0; 2], None));
        assert_eq!(drift.constant(), Some(vec![-0.5, -1.0]));
        assert_eq!(values(&mut drift, &base, [1.0, 1.0], None), [1.0, 1.0], "no control vector is sent");
        assert_eq!(after(drift, &[1.0, -4.0])[0], [0.0, 3.0]);
    }

    #[test]
    fn a_round_that_was_abandoned_is_as_if_it_had_not_been() {
        let base = base(None);
        let own = |dropped| Drift::begin(STEPS, &base, kept(&[0.5, 1.0], &[9.0, 8.0], dropped)).own;
        assert_eq!((own(None), own(Some(2))), (vec![0.5, 1.0], vec![0.5, 1.0]), "another round was dropped");
        assert_eq!(own(Some(3)), [9.0, 8.0]);
    }

    #[test]
    fn a_new_client_begins_with_zeros_which_correct_nothing() {
        let base = base(None);
        assert_eq!(Drift::begin(STEPS, &base, None).constant(), None);
        assert_eq!(Drift::begin(STEPS, &base, kept(&[1.0], &[1.0], None)).own, [0.0; 2], "of another model");
    }
}
