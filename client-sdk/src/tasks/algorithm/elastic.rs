//! The client's half of elastic averaging: weights of its own, which each update draws towards the model.
//!
//! The coordinator's half is `Elastic` in `tributary_engine::aggregate`.

use std::borrow::Cow;
use std::sync::Arc;

use tributary_protocol::model::Model;
use tributary_protocol::sharing::Part;

use super::contract::{Algorithm, Reached};
use crate::models::Base;
use crate::store::kept::Kept;
use crate::trainer::TrainError;

/// The kept vector of the client's own weights: the shared ones.
const OWN: &str = "elastic";

/// A client's half of elastic averaging (Zhang, Choromanska and LeCun 2015, <https://arxiv.org/abs/1412.6651>,
/// algorithm 1): its weights x_i and the model x are drawn together by `d = alpha (x_i - x)`.
///
/// The client moves by the values that the coordinator decodes and adds, with the other sign, so the sum of x_i and x
/// changes by the rounding of two additions in f32 alone.
#[derive(Debug)]
pub(super) struct Elastic<'a> {
    alpha: f64,
    base: &'a Base,
    /// The shared weights with which the round begins.
    start: Vec<f32>,
    /// Those that the training has reached.
    reached: Vec<f32>,
}

impl<'a> Elastic<'a> {
    /// A client without weights of its own begins with the model's.
    pub(super) fn begin(alpha: f64, base: &'a Base, kept: Option<Kept>) -> Self {
        let own = kept.and_then(|mut kept| kept.take(OWN)).filter(|own| own.len() == base.parts.shared().total());
        let start = own.unwrap_or_else(|| base.parts.take(Part::Shared, base.model.values()));
        Self { alpha, base, start, reached: Vec::new() }
    }
}

impl Algorithm for Elastic<'_> {
    /// The model with the client's own weights in place of the shared ones.
    fn start<'m>(&self, model: Cow<'m, Model>) -> Cow<'m, Model> {
        let (parameters, mut values) = (Arc::clone(model.parameters()), model.into_owned().into_values());
        self.base.parts.put(Part::Shared, &self.start, &mut values);
        Cow::Owned(Model::new(parameters, values).expect("both are finite"))
    }

    /// The pull by which the model moves.
    fn values(
        &mut self,
        reached: Reached<'_>,
        _: &mut dyn FnMut() -> Result<Vec<f32>, TrainError>,
    ) -> Result<Vec<f32>, TrainError> {
        let Base { model, parts, .. } = self.base;
        self.reached = parts.take(Part::Shared, &reached.values);
        let centre = parts.take(Part::Shared, model.values());
        let pull = |(own, centre): (&f32, &f32)| (self.alpha * (f64::from(*own) - f64::from(*centre))) as f32;
        Ok(self.reached.iter().zip(&centre).map(pull).collect())
    }

    fn keep(self: Box<Self>, sent: &dyn Fn() -> Vec<f32>, kept: &mut Kept) {
        let next: Vec<f32> = self.reached.iter().zip(sent()).map(|(own, pull)| own - pull).collect();
        kept.put(OWN, next, self.start);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{self, assignment};

    fn kept(dropped_round: Option<u32>) -> Option<Kept> {
        Some(fixtures::kept([("elastic", &[8.0, -8.0]), ("elastic_before", &[2.0, -2.0])], dropped_round))
    }

    /// Goal: the frozen parameter is the model's, the others the client's; both sides move by the same values; and
    /// after a round that was abandoned the client goes back.
    #[test]
    fn a_client_trains_from_its_own_weights_and_moves_by_what_was_sent() {
        let parameters = json!([{ "name": "w", "shape": [2] }, { "name": "f", "shape": [1] }]);
        let assignment = assignment(&json!({ "model": { "parameters": parameters, "frozen": ["f"] } }));
        let parts = assignment.plan.model.parts().unwrap();
        let model = Model::new(Arc::clone(parts.model()), vec![1.0, 0.0, 7.0]).unwrap();
        let base = Base { model, parts, control: None, updates: 0 };
        let mut own = Elastic::begin(0.25, &base, kept(None));
        let start = own.start(Cow::Borrowed(&base.model)).into_owned();
        assert_eq!(start.values(), [8.0, -8.0, 7.0]);
        let values = vec![9.0, -4.0, 7.0];
        let reached = Reached { start: &start, values, parts: &base.parts, steps: 1, learning_rate: 0.1 };
        let pull = own.values(reached, &mut || panic!("no gradient is needed")).unwrap();
        assert_eq!(pull, [2.0, -1.0]);
        // The codec has rounded what arrives.
        let mut next = Kept::after(&assignment);
        Box::new(own).keep(&|| vec![1.5, -1.0], &mut next);
        let next = next.into_state().unwrap().vectors;
        assert_eq!((&next["elastic"], &next["elastic_before"]), (&vec![7.5, -3.0], &vec![8.0, -8.0]));
        let start = |kept| Elastic::begin(0.25, &base, kept).start;
        assert_eq!((start(kept(Some(3))), start(kept(Some(2)))), (vec![2.0, -2.0], vec![8.0, -8.0]));
        assert_eq!(start(None), [1.0, 0.0], "a new client begins with the model");
    }
}
