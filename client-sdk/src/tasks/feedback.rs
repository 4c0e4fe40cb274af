//! Error feedback: the residual that updates leave out, which later ones add.

use tributary_protocol::update::Residual;

use crate::store::kept::Kept;

/// The kept vector of what earlier updates left out.
const RESIDUAL: &str = "residual";
/// The kept vector of the momentum of `dgc`.
const MOMENTUM: &str = "momentum";

/// What earlier updates left out; `None` if something else was kept. After a round that was abandoned, what was kept
/// before it: the update that the rest was left out of does not count.
pub(super) fn found(mut kept: Kept) -> Option<Residual> {
    let values = kept.take(RESIDUAL)?;
    let (round, model_sha256) = kept.left_by();
    Some(Residual { values, momentum: kept.take(MOMENTUM), round, model_sha256 })
}

/// Keeps what an update leaves out; nothing without error feedback. `before` is what was found.
pub(super) fn keep(left_out: Option<Residual>, before: Option<Residual>, kept: &mut Kept) {
    let Some(left_out) = left_out else { return };
    let (values, momentum) = before.map(|before| (before.values, before.momentum)).unzip();
    kept.put(RESIDUAL, left_out.values, values);
    kept.put(MOMENTUM, left_out.momentum, momentum.flatten());
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::device::Assignment;
    use tributary_protocol::hash::Sha256Hash;

    use super::*;
    use crate::fixtures::{self, assignment};

    #[test]
    fn what_error_feedback_leaves_comes_back_from_the_client_state() {
        for momentum in [None, Some(vec![3.0, 4.0])] {
            let residual = |value| Residual {
                values: vec![value, -2.0],
                momentum: momentum.clone(),
                round: 4,
                model_sha256: Sha256Hash([1; 32]),
            };
            let comes_back = |before: Option<Residual>, dropped| {
                let assignment = assignment(&json!({ "codec": "dgc" }));
                let mut kept = Kept::after(&assignment);
                keep(Some(residual(1.0)), before, &mut kept);
                let next = Assignment { round: 5, dropped_round: dropped, ..assignment };
                found(Kept::found(kept.into_state().unwrap(), &next))
            };
            assert_eq!(comes_back(Some(residual(5.0)), None), Some(residual(1.0)));
            assert_eq!(comes_back(Some(residual(5.0)), Some(3)), Some(residual(1.0)), "an earlier round was dropped");
            assert_eq!(comes_back(Some(residual(5.0)), Some(4)), Some(residual(5.0)));
            assert_eq!(comes_back(None, Some(4)), None, "the first update");
        }
    }

    #[test]
    fn a_state_without_a_residual_is_not_error_feedbacks() {
        assert_eq!(found(fixtures::kept([("control", &[1.0])], None)), None);
    }
}
