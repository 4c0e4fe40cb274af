//! The weight mu of FedProx's proximal term, as it follows the training loss (Li et al. 2020,
//! <https://arxiv.org/abs/1812.06127>, section 5.3.2): it rises when the loss rises, and falls after several falls.

use serde::{Deserialize, Serialize};
use tributary_protocol::plan::{AdaptiveMu, Algorithm, MU_MAX};

/// The weight of a round, and what the next one follows from. It is stored with the round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proximal {
    /// The weight with which the clients of the round train.
    pub mu: f64,
    /// Falls of the loss in a row before this round.
    pub falls: u32,
    /// Training loss of the last committed round before this one; none before the first.
    pub loss: Option<f64>,
}

impl Proximal {
    /// The weight of the round after one with the weight `before` that ended with this training loss; none for a round
    /// without a result, after which nothing changes. `None` if the algorithm's weight does not adapt.
    #[must_use]
    pub fn next(algorithm: &Algorithm, before: Option<Self>, loss: Option<f64>) -> Option<Self> {
        let AdaptiveMu { step, falls } = algorithm.adaptive_mu()?;
        let before = before.unwrap_or(Self { mu: algorithm.proximal(), falls: 0, loss: None });
        let Some(now) = loss.filter(|loss| loss.is_finite()) else { return Some(before) };
        let next = Self { falls: 0, loss: Some(now), ..before };
        Some(match before.loss {
            Some(last) if now > last => Self { mu: (before.mu + step).min(MU_MAX), ..next },
            Some(last) if now < last && before.falls + 1 >= falls => Self { mu: (before.mu - step).max(0.0), ..next },
            Some(last) if now < last => Self { falls: before.falls + 1, ..next },
            _ => next,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(mu: f64, losses: &[Option<f64>]) -> Vec<f64> {
        let algorithm = Algorithm::FedProx { mu, adaptive: Some(AdaptiveMu { step: 0.5, falls: 2 }) };
        let mut now = Proximal::next(&algorithm, None, None).unwrap();
        let mut weights = vec![now.mu];
        for loss in losses {
            now = Proximal::next(&algorithm, Some(now), *loss).unwrap();
            weights.push(now.mu);
        }
        weights
    }

    #[test]
    fn the_weight_rises_with_the_loss_and_falls_after_falls_in_a_row() {
        let losses = [3.0, 2.0, 1.0, 0.9, 2.0, 1.5, 1.5, 1.0, 0.5, 0.4, 0.3].map(Some);
        assert_eq!(weights(1.0, &losses), [1.0, 1.0, 1.0, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.0]);
    }

    #[test]
    fn rounds_without_a_result_change_nothing_and_the_weight_stays_in_its_range() {
        assert_eq!(
            weights(0.0, &[Some(1.0), None, Some(2.0), None, None, Some(1.0)]),
            [0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5]
        );
        assert_eq!(weights(0.25, &[3.0, 2.0, 1.0].map(Some)).last(), Some(&0.0));
        assert_eq!(weights(1e3, &[1.0, 2.0].map(Some)).last(), Some(&1e3));
        assert_eq!(weights(1.0, &[Some(f64::NAN)]), [1.0, 1.0]);
        assert_eq!(Proximal::next(&Algorithm::FedProx { mu: 1.0, adaptive: None }, None, None), None);
    }
}
