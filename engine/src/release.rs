//! Releases: whom one is meant for, and whether an evaluation lets it out.

use std::collections::BTreeMap;

use tributary_protocol::attributes::Attributes;
use tributary_protocol::gate::{Gate, Measure};
use tributary_protocol::id::{ClientId, ReleaseId};
use tributary_protocol::release::{Share, place};
use tributary_protocol::state::ReleaseState;

/// What decides for whom a release is.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    pub id: ReleaseId,
    pub state: ReleaseState,
    pub share: Share,
    pub attributes: &'a BTreeMap<String, String>,
}

impl Reach<'_> {
    /// Whether a client of its population has it, unless a newer one is meant for the client.
    #[must_use]
    pub fn covers(&self, client: ClientId, attributes: &Attributes) -> bool {
        self.state == ReleaseState::Out
            && attributes.include(self.attributes)
            && (self.share.is_all() || self.share.covers(place(self.id, client)))
    }

    /// Whether every client of its population has it, or a newer one.
    #[must_use]
    pub fn covers_all(&self) -> bool {
        self.state == ReleaseState::Out && self.share.is_all() && self.attributes.is_empty()
    }
}

/// What an evaluation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurement {
    /// The lower end of the 95 % interval of the accuracy.
    pub accuracy_low: Option<f64>,
    pub loss: Option<f64>,
    /// Mean of the metric that the gate names.
    pub metric: Option<f64>,
}

/// Whether an evaluation lets a release out, and the reason for people.
#[must_use]
pub fn judge(gate: &Gate, measured: Option<Measurement>) -> (bool, String) {
    let Some(measured) = measured else { return (false, format!("{gate}: no client has evaluated it")) };
    let (what, value) = match &gate.measure {
        Measure::Accuracy => ("lower bound of the accuracy".to_owned(), measured.accuracy_low),
        Measure::Loss => ("loss".to_owned(), measured.loss),
        Measure::Metric(name) => (name.to_string(), measured.metric),
    };
    match value {
        Some(value) => (gate.is_met(value), format!("{gate}: {what} {value:.4}")),
        None => (false, format!("{gate}: the evaluation has no {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_for_those_with_its_attributes_within_its_share() {
        let (id, attributes) =
            (ReleaseId::from_random([1; 16]), BTreeMap::from([("os".to_owned(), "android".to_owned())]));
        let share = Share::try_from(500_000).unwrap();
        let reach = Reach { id, state: ReleaseState::Out, share, attributes: &attributes };
        let client = |number: u8| ClientId::from_random([number; 16]);
        let android: Attributes = attributes.clone().try_into().unwrap();
        let covered = (0..=255).filter(|number| reach.covers(client(*number), &android)).count();
        assert!((100..156).contains(&covered), "{covered} of 256");
        assert!((0..=255).all(|number| !reach.covers(client(number), &Attributes::default())));
        for state in [ReleaseState::Held, ReleaseState::Withdrawn, ReleaseState::Refused] {
            assert!((0..=255).all(|number| !Reach { state, ..reach }.covers(client(number), &android)));
        }
        let none = BTreeMap::new();
        let all = Reach { share: Share::ALL, attributes: &none, ..reach };
        assert!(all.covers_all() && !reach.covers_all());
        assert!(!Reach { state: ReleaseState::Withdrawn, ..all }.covers_all());
    }

    #[test]
    fn a_gate_is_judged_by_the_evaluation() {
        let gate: Gate = "accuracy >= 0.9".parse().unwrap();
        let measured = |low| Some(Measurement { accuracy_low: low, loss: Some(0.2), metric: None });
        assert_eq!(
            judge(&gate, measured(Some(0.93))),
            (true, "accuracy >= 0.9: lower bound of the accuracy 0.9300".into())
        );
        assert!(!judge(&gate, measured(Some(0.89))).0 && !judge(&gate, measured(None)).0);
        assert_eq!(judge(&gate, None), (false, "accuracy >= 0.9: no client has evaluated it".into()));
        assert!(judge(&"loss <= 0.2".parse().unwrap(), measured(None)).0);
        assert!(!judge(&"auc >= 0.2".parse().unwrap(), measured(None)).0);
    }
}
