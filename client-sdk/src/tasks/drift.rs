//! The client's half of SCAFFOLD and FedDyn: a vector of its own that corrects its gradients, and moves on by what it
//! sent.
//!
//! It moves by the values that the coordinator decodes, not by those before the codec, so the coordinator's mean of all
//! clients' vectors stays their mean whatever the codec rounds.

use std::collections::BTreeMap;

use tributary_protocol::device::Assignment;
use tributary_protocol::plan::{Algorithm, Control};

use crate::models::Base;
use crate::store::client_state::ClientState;

/// The vector of a client state that corrects the gradients of the next round.
const OWN: &str = "own";
/// The same before the state's round, in case that the round is abandoned.
const OWN_BEFORE: &str = "own_before";

/// The vectors of a round.
#[derive(Debug)]
pub(super) struct Drift<'a> {
    algorithm: Algorithm,
    /// SCAFFOLD: the control variate of the model's version. Empty for zeros.
    server: &'a [f32],
    /// SCAFFOLD: the client's control vector. FedDyn: its linear term. It has a value for each shared parameter.
    own: Vec<f32>,
}

impl<'a> Drift<'a> {
    /// The vectors with which a round begins; `None` if the plan's algorithm keeps none. A client without a state, such
    /// as a new one, begins with zeros.
    pub(super) fn begin(
        assignment: &Assignment,
        base: &'a Base,
        kept: impl FnOnce() -> Option<ClientState>,
    ) -> Option<Self> {
        let algorithm = assignment.plan.training.algorithm;
        if !algorithm.keeps_state() {
            return None;
        }
        let total = base.parts.shared().total();
        let kept = kept().and_then(|mut kept| {
            let was_dropped = kept.was_dropped(assignment);
            kept.vectors.remove(if was_dropped { OWN_BEFORE } else { OWN })
        });
        let own = kept.filter(|own| own.len() == total).unwrap_or_else(|| vec![0.0; total]);
        Some(Self { algorithm, server: base.control.as_deref().unwrap_or_default(), own })
    }

    /// What is added to each gradient: `c - c_k` in SCAFFOLD, the negative linear term in FedDyn. `None` for zeros,
    /// with which training has the bits of training without them.
    pub(super) fn constant(&self) -> Option<Vec<f32>> {
        let constant: Vec<f32> = match self.algorithm.sends_control() {
            true => self.own.iter().enumerate().map(|(place, own)| self.server(place) - own).collect(),
            false => self.own.iter().map(|own| -own).collect(),
        };
        constant.iter().any(|value| *value != 0.0).then_some(constant)
    }

    /// Whether [`Self::change`] needs the gradient of all examples at the global model.
    pub(super) fn needs_gradient(&self) -> bool {
        matches!(self.algorithm, Algorithm::Scaffold { control: Control::Gradient, .. })
    }

    /// The change of the control vector, which is sent behind the delta; empty if there is none. Option II of SCAFFOLD
    /// takes the mean gradient of `steps` steps of this learning rate: `c_k' = c_k - c - delta / (steps rate)`.
    pub(super) fn change(&self, delta: &[f32], gradient: Option<&[f32]>, steps: u64, rate: f64) -> Vec<f32> {
        if !self.algorithm.sends_control() {
            return Vec::new();
        }
        if let Some(gradient) = gradient {
            return gradient.iter().zip(&self.own).map(|(gradient, own)| gradient - own).collect();
        }
        let length = steps.max(1) as f64 * rate;
        let change =
            |(place, delta): (usize, &f32)| (-f64::from(self.server(place)) - f64::from(*delta) / length) as f32;
        delta.iter().enumerate().map(change).collect()
    }

    /// The vectors that the job keeps once an update with these values is accepted.
    pub(super) fn after(self, sent: &[f32]) -> BTreeMap<String, Vec<f32>> {
        let (delta, change) = sent.split_at(self.own.len());
        let next: Vec<f32> = match self.algorithm {
            Algorithm::FedDyn { alpha, .. } => {
                let moved = |(own, delta): (&f32, &f32)| (f64::from(*own) - alpha * f64::from(*delta)) as f32;
                self.own.iter().zip(delta).map(moved).collect()
            }
            _ => self.own.iter().zip(change).map(|(own, change)| own + change).collect(),
        };
        BTreeMap::from([(OWN.to_owned(), next), (OWN_BEFORE.to_owned(), self.own)])
    }

    fn server(&self, place: usize) -> f32 {
        self.server.get(place).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::id::JobId;
    use tributary_protocol::model::{Model, ParameterList, ParameterSpec};
    use tributary_protocol::sharing::Sharing;

    use super::*;

    fn assignment(algorithm: serde_json::Value, dropped_round: Option<u32>) -> Assignment {
        let plan = json!({
            "model": { "parameters": [{ "name": "w", "shape": [2] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 }, "algorithm": algorithm },
            "codec": "f32", "weight_max": 10,
        });
        serde_json::from_value(json!({
            "id": tributary_protocol::id::AssignmentId::from_random([6; 16]), "task": "train",
            "job": JobId::from_random([5; 16]), "round": 4, "model_version": 2, "model_sha256": Sha256Hash([0; 32]),
            "plan": plan, "seed": 1, "deadline_in_ms": 1000, "dropped_round": dropped_round,
        }))
        .unwrap()
    }

    fn base(control: Option<[f32; 2]>) -> Base {
        let parameters = ParameterList::new(vec![ParameterSpec::new("w", [2])]).unwrap();
        let parts = Sharing::default().parts(parameters).unwrap();
        let model = Model::new(Arc::clone(parts.model()), vec![0.0; 2]).unwrap();
        Base { model, parts, control: control.map(Vec::from), updates: 0 }
    }

    fn state(own: [f32; 2], before: [f32; 2]) -> ClientState {
        let vectors = BTreeMap::from([(OWN.to_owned(), own.to_vec()), (OWN_BEFORE.to_owned(), before.to_vec())]);
        ClientState { job: JobId::from_random([5; 16]), round: 3, model_sha256: Sha256Hash([0; 32]), vectors }
    }

    #[test]
    fn scaffold_corrects_by_the_difference_and_keeps_what_was_sent() {
        let algorithm = json!({ "kind": "scaffold", "clients": 2 });
        let (assignment, base) = (assignment(algorithm, None), base(Some([1.0, -2.0])));
        let drift = Drift::begin(&assignment, &base, || Some(state([0.5, 1.0], [9.0; 2]))).unwrap();
        assert_eq!(drift.constant(), Some(vec![0.5, -3.0]));
        // The mean gradient of two steps of 0.25 is -2 delta, and the change is that of c_k - c + (x - y) / (K rate).
        let change = drift.change(&[1.0, -0.5], None, 2, 0.25);
        assert_eq!(change, [-3.0, 3.0]);
        assert_eq!(drift.change(&[1.0, -0.5], Some(&[4.0, 5.0]), 2, 0.25), [3.5, 4.0], "option I");
        let kept = drift.after(&[1.0, -0.5, -2.5, 3.0]);
        assert_eq!((&kept[OWN], &kept[OWN_BEFORE]), (&vec![-2.0, 4.0], &vec![0.5, 1.0]));
    }

    #[test]
    fn fed_dyn_subtracts_its_linear_term_and_moves_it_by_what_was_sent() {
        let algorithm = json!({ "kind": "fed_dyn", "alpha": 0.5, "clients": 2 });
        let (assignment, base) = (assignment(algorithm, None), base(None));
        let drift = Drift::begin(&assignment, &base, || Some(state([0.5, 1.0], [9.0; 2]))).unwrap();
        assert_eq!(drift.constant(), Some(vec![-0.5, -1.0]));
        assert!(drift.change(&[1.0, 1.0], None, 2, 0.25).is_empty() && !drift.needs_gradient());
        assert_eq!(drift.after(&[1.0, -4.0])[OWN], [0.0, 3.0]);
    }

    #[test]
    fn a_round_that_was_abandoned_is_as_if_it_had_not_been() {
        let algorithm = json!({ "kind": "scaffold", "clients": 2 });
        let (base, kept) = (base(None), || Some(state([0.5, 1.0], [9.0, 8.0])));
        let own = |dropped| Drift::begin(&assignment(algorithm.clone(), dropped), &base, kept).unwrap().own;
        assert_eq!((own(None), own(Some(2))), (vec![0.5, 1.0], vec![0.5, 1.0]), "another round was dropped");
        assert_eq!(own(Some(3)), [9.0, 8.0]);
    }

    #[test]
    fn a_new_client_begins_with_zeros_which_correct_nothing() {
        let algorithm = json!({ "kind": "scaffold", "clients": 2 });
        let (assignment, base) = (assignment(algorithm, None), base(None));
        assert_eq!(Drift::begin(&assignment, &base, || None).unwrap().constant(), None);
        let short = ClientState { vectors: BTreeMap::from([(OWN.to_owned(), vec![1.0])]), ..state([0.0; 2], [0.0; 2]) };
        assert_eq!(Drift::begin(&assignment, &base, || Some(short)).unwrap().own, [0.0; 2]);
        let plain = self::assignment(json!({ "kind": "fed_prox", "mu": 1.0 }), None);
        assert!(Drift::begin(&plain, &base, || panic!("nothing is kept")).is_none());
    }
}
