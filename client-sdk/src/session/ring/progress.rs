//! How far a member has come that exchanges its model while it trains.

use tributary_protocol::sharing::{Part, Parts};

use crate::trainer::{Checkpoint, TrainError};

/// Between two exchanges. Vectors have a value for each shared parameter.
///
/// A member completes an exchange only if all others took part in it. So after a failure members are one exchange apart
/// at most. A member that is ahead goes back to where it was before its last exchange, and makes it again. It trains
/// nothing again for that.
pub(super) struct Progress<'a> {
    parts: &'a Parts,
    exchanged: u32,
    /// What all members have had since the last exchange; in gossip, what this one has.
    anchor: Vec<f32>,
    /// In gossip: how far the member's own model is from the version, in fixed point.
    exact: Option<Vec<i64>>,
    before: Option<Before>,
    /// A training that has come to the next exchange.
    waiting: Option<Checkpoint>,
    /// Where the training goes on.
    resume: Option<Checkpoint>,
}

/// How a member was before its last exchange.
struct Before {
    anchor: Vec<f32>,
    exact: Option<Vec<i64>>,
    trained: Checkpoint,
}

impl<'a> Progress<'a> {
    /// Before the first exchange of a training that begins with these values of the whole model.
    pub(super) fn new(parts: &'a Parts, values: &[f32]) -> Self {
        let anchor = parts.take(Part::Shared, values);
        Self { parts, exchanged: 0, anchor, exact: None, before: None, waiting: None, resume: None }
    }

    /// The training begins with the member's own shared values instead.
    pub(super) fn begins_with(&mut self, own: Vec<f32>, mut values: Vec<f32>) {
        self.parts.put(Part::Shared, &own, &mut values);
        self.resume = Some(Checkpoint::new(0, 0.0).with_values(values));
        self.anchor = own;
    }

    /// How far the member's own model is from the version, in fixed point; none before the first exchange.
    pub(super) fn exact(&self) -> Option<&[i64]> {
        self.exact.as_deref()
    }

    /// Number of completed exchanges.
    pub(super) fn exchanged(&self) -> u32 {
        self.exchanged
    }

    /// What all members have had since the last one.
    pub(super) fn anchor(&self) -> &[f32] {
        &self.anchor
    }

    /// Where the training goes on; none at its beginning.
    pub(super) fn resume(&self) -> Option<&Checkpoint> {
        self.resume.as_ref()
    }

    /// The training has come to the next exchange.
    ///
    /// # Errors
    /// [`TrainError::CannotExchange`] for a trainer that keeps the model in a format of its own.
    pub(super) fn comes(&mut self, trained: Checkpoint) -> Result<(), TrainError> {
        let is_whole = trained.values().map(<[f32]>::len) == Some(self.parts.model().total());
        self.waiting = Some(trained);
        if is_whole { Ok(()) } else { Err(TrainError::CannotExchange) }
    }

    /// The values that the member brings to the exchange for which it waits.
    pub(super) fn brings(&self) -> Option<Vec<f32>> {
        self.waiting.as_ref()?.values().map(|values| self.parts.take(Part::Shared, values))
    }

    /// The exchange is complete, and training goes on with these values.
    pub(super) fn completes(&mut self, mean: Vec<f32>, exact: Option<Vec<i64>>) {
        let Some(trained) = self.waiting.take() else { return };
        let mut values = trained.values().map(<[f32]>::to_vec).unwrap_or_default();
        self.parts.put(Part::Shared, &mean, &mut values);
        self.resume = Some(trained.clone().with_values(values));
        let (anchor, exact) = (std::mem::replace(&mut self.anchor, mean), std::mem::replace(&mut self.exact, exact));
        self.before = Some(Before { anchor, exact, trained });
        self.exchanged += 1;
    }

    /// Goes back to where so many exchanges were complete. False if the member cannot.
    pub(super) fn goes_back(&mut self, exchanged: u32) -> bool {
        if exchanged == self.exchanged {
            return true;
        }
        match self.before.take() {
            Some(Before { anchor, exact, trained }) if exchanged + 1 == self.exchanged => {
                (self.anchor, self.exact, self.exchanged) = (anchor, exact, exchanged);
                self.waiting = Some(trained);
                true
            }
            _ => false,
        }
    }

    /// The member goes on alone, with what it has trained itself.
    pub(super) fn goes_alone(&mut self) {
        if let Some(trained) = self.waiting.take() {
            self.resume = Some(trained);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::job_model::JobModel;

    use super::*;

    fn parts() -> Parts {
        let parameter = |name: &str| json!({ "name": name, "shape": [1] });
        let parameters = json!([parameter("body"), parameter("head"), parameter("neck")]);
        let model: JobModel =
            serde_json::from_value(json!({ "parameters": parameters, "personal": ["head"] })).unwrap();
        model.parts().unwrap()
    }

    fn at(steps: u64, values: &[f32]) -> Checkpoint {
        Checkpoint::new(steps, 0.5).with_values(values.to_vec())
    }

    #[test]
    fn personal_values_stay_and_shared_ones_become_the_mean() {
        let parts = parts();
        let mut progress = Progress::new(&parts, &[1.0, 2.0, 3.0]);
        assert_eq!((progress.anchor(), progress.resume(), progress.brings()), (&[1.0, 3.0][..], None, None));
        progress.comes(at(4, &[1.5, 9.0, 3.5])).unwrap();
        assert_eq!(progress.brings().unwrap(), [1.5, 3.5]);
        progress.completes(vec![1.25, 3.25], None);
        assert_eq!(progress.resume(), Some(&at(4, &[1.25, 9.0, 3.25])));
        assert_eq!((progress.anchor(), progress.exchanged(), progress.brings()), (&[1.25, 3.25][..], 1, None));
    }

    #[test]
    fn whoever_is_ahead_makes_its_last_exchange_again_and_trains_nothing_again() {
        let parts = parts();
        let mut progress = Progress::new(&parts, &[0.0; 3]);
        progress.comes(at(4, &[1.0, 7.0, 1.0])).unwrap();
        progress.completes(vec![2.0, 2.0], None);
        progress.comes(at(8, &[3.0, 8.0, 3.0])).unwrap();
        assert!(progress.goes_back(1), "it is there");
        assert_eq!(progress.brings().unwrap(), [3.0, 3.0]);
        assert!(progress.goes_back(0));
        assert_eq!((progress.anchor(), progress.brings().unwrap()), (&[0.0, 0.0][..], vec![1.0, 1.0]));
        progress.completes(vec![1.5, 1.5], None);
        assert_eq!((progress.resume(), progress.exchanged()), (Some(&at(4, &[1.5, 7.0, 1.5])), 1));
    }

    #[test]
    fn nobody_goes_back_by_two_or_ahead() {
        let parts = parts();
        let mut progress = Progress::new(&parts, &[0.0; 3]);
        assert!(!progress.goes_back(1));
        for steps in [1, 2] {
            progress.comes(at(steps, &[1.0; 3])).unwrap();
            progress.completes(vec![1.0, 1.0], None);
        }
        assert!(!progress.goes_back(0) && !progress.goes_back(3));
    }

    #[test]
    fn a_member_that_goes_on_alone_has_what_it_trained() {
        let parts = parts();
        let mut progress = Progress::new(&parts, &[0.0; 3]);
        progress.comes(at(4, &[1.0, 7.0, 1.0])).unwrap();
        progress.goes_alone();
        assert_eq!((progress.resume(), progress.brings()), (Some(&at(4, &[1.0, 7.0, 1.0])), None));
        let without_values = progress.comes(Checkpoint::new(5, 0.5));
        assert_eq!(without_values, Err(TrainError::CannotExchange));
    }
}
