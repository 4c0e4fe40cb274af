//! The client's half of elastic averaging: weights of its own, which each update draws towards the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_protocol::device::Assignment;
use tributary_protocol::model::Model;
use tributary_protocol::sharing::{Part, Parts};

use crate::store::client_state::ClientState;

/// The vector of a client state that holds the client's own weights: the shared ones.
const OWN: &str = "elastic";
/// The same before the state's round, in case that the round is abandoned.
const OWN_BEFORE: &str = "elastic_before";

/// A client's half of elastic averaging (Zhang, Choromanska and LeCun 2015, <https://arxiv.org/abs/1412.6651>,
/// algorithm 1): its weights x_i and the model x are drawn together by `d = alpha (x_i - x)`.
///
/// The client moves by the values that the coordinator decodes and adds, with the other sign, so the sum of x_i and x
/// changes by the rounding of two additions in f32 alone.
#[derive(Debug)]
pub(super) struct Elastic {
    alpha: f64,
    /// The shared weights with which the round begins.
    start: Vec<f32>,
    /// Those that the training has reached.
    reached: Vec<f32>,
}

impl Elastic {
    /// `None` if the plan's algorithm is another one. A client without weights of its own begins with the model's.
    pub(super) fn begin(
        assignment: &Assignment,
        model: &Model,
        parts: &Parts,
        kept: impl FnOnce() -> Option<ClientState>,
    ) -> Option<Self> {
        let alpha = assignment.plan.training.algorithm.elastic()?;
        let kept = kept().and_then(|mut kept| {
            let was_dropped = kept.was_dropped(assignment);
            kept.vectors.remove(if was_dropped { OWN_BEFORE } else { OWN })
        });
        let own = kept.filter(|own| own.len() == parts.shared().total());
        let start = own.unwrap_or_else(|| parts.take(Part::Shared, model.values()));
        Some(Self { alpha, start, reached: Vec::new() })
    }

    /// The model with the client's own weights in place of the shared ones: where its training begins.
    pub(super) fn own_model(&self, model: &Model, parts: &Parts) -> Model {
        let mut values = model.values().to_vec();
        parts.put(Part::Shared, &self.start, &mut values);
        Model::new(Arc::clone(model.parameters()), values).expect("both are finite")
    }

    /// The pull by which the model moves, of the values that the training has reached.
    pub(super) fn pull(&mut self, reached: &[f32], model: &Model, parts: &Parts) -> Vec<f32> {
        self.reached = parts.take(Part::Shared, reached);
        let centre = parts.take(Part::Shared, model.values());
        let pull = |(own, centre): (&f32, &f32)| (self.alpha * (f64::from(*own) - f64::from(*centre))) as f32;
        self.reached.iter().zip(&centre).map(pull).collect()
    }

    /// The vectors that the job keeps once an update with these values is accepted.
    pub(super) fn after(self, sent: &[f32]) -> BTreeMap<String, Vec<f32>> {
        let next = self.reached.iter().zip(sent).map(|(own, pull)| own - pull).collect();
        BTreeMap::from([(OWN.to_owned(), next), (OWN_BEFORE.to_owned(), self.start)])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::id::{AssignmentId, JobId};
    use tributary_protocol::job_model::JobModel;

    use super::*;

    fn assignment(dropped_round: Option<u32>) -> Assignment {
        let plan = json!({
            "model": { "parameters": [{ "name": "w", "shape": [2] }, { "name": "f", "shape": [1] }], "frozen": ["f"] },
            "training": {
                "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 },
                "algorithm": { "kind": "easgd", "alpha": 0.25 },
            },
            "codec": "f32", "weight_max": 10,
        });
        serde_json::from_value(json!({
            "id": AssignmentId::from_random([6; 16]), "task": "train", "job": JobId::from_random([5; 16]), "round": 4,
            "model_version": 2, "model_sha256": Sha256Hash([0; 32]), "plan": plan, "seed": 1, "deadline_in_ms": 1000,
            "dropped_round": dropped_round,
        }))
        .unwrap()
    }

    fn kept() -> Option<ClientState> {
        let vectors = [(OWN, vec![8.0, -8.0]), (OWN_BEFORE, vec![2.0, -2.0])];
        let vectors = vectors.map(|(name, values)| (name.to_owned(), values)).into();
        Some(ClientState { job: JobId::from_random([5; 16]), round: 3, model_sha256: Sha256Hash([0; 32]), vectors })
    }

    /// Goal: the frozen parameter is the model's, the others the client's; both sides move by the same values; and
    /// after a round that was abandoned the client goes back.
    #[test]
    fn a_client_trains_from_its_own_weights_and_moves_by_what_was_sent() {
        let assignment = assignment(None);
        let model: &JobModel = &assignment.plan.model;
        let parts = model.parts().unwrap();
        let model = Model::new(Arc::clone(parts.model()), vec![1.0, 0.0, 7.0]).unwrap();
        let mut own = Elastic::begin(&assignment, &model, &parts, kept).unwrap();
        assert_eq!(own.own_model(&model, &parts).values(), [8.0, -8.0, 7.0]);
        assert_eq!(own.pull(&[9.0, -4.0, 7.0], &model, &parts), [2.0, -1.0]);
        // The codec has rounded what arrives.
        let next = own.after(&[1.5, -1.0]);
        assert_eq!((&next[OWN], &next[OWN_BEFORE]), (&vec![7.5, -3.0], &vec![8.0, -8.0]));
        let start = |dropped, kept: Option<ClientState>| {
            Elastic::begin(&self::assignment(dropped), &model, &parts, || kept).unwrap().start
        };
        assert_eq!((start(Some(3), kept()), start(Some(2), kept())), (vec![2.0, -2.0], vec![8.0, -8.0]));
        assert_eq!(start(None, None), [1.0, 0.0], "a new client begins with the model");
    }
}
