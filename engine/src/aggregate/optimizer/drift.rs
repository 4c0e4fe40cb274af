//! What the server keeps of the clients' own vectors: the means over all clients, also those that were not selected.

use tributary_protocol::model::Companion;

use super::step::{AggregateError, Optimizer};
use crate::aggregate::combine::Combined;

/// The share of a round's updates in all clients of the job.
pub fn share(updates: u32, clients: u32) -> f64 {
    f64::from(updates) / f64::from(clients.max(1))
}

/// SCAFFOLD's control variate (Karimireddy et al. 2020, <https://arxiv.org/abs/1910.06378>, algorithm 1):
/// `c = c + |S| / N mean(c_i' - c_i)`.
///
/// An unselected client's vector does not change, so c stays the mean of the vectors of all N clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlStep {
    /// `|S| / N`.
    pub share: f64,
    /// Where the change of the control vectors begins in an update.
    pub first: usize,
}

impl ControlStep {
    /// Moves a block of the control variate on. It belongs to the shared parameters from `first` on.
    ///
    /// # Errors
    /// [`AggregateError::NoUpdates`], [`AggregateError::WrongLength`].
    pub fn apply(&self, combined: &dyn Combined, first: usize, control: &mut [f64]) -> Result<(), AggregateError> {
        let block = self.first + first..self.first + first + control.len();
        let (model, updates) = (block.end, combined.parameters_total());
        if model > updates {
            return Err(AggregateError::WrongLength { model, updates });
        }
        let changes = combined.mean(block).ok_or(AggregateError::NoUpdates)?;
        for (value, change) in control.iter_mut().zip(changes) {
            *value += self.share * change;
        }
        Ok(())
    }
}

/// FedDyn (Acar et al. 2021, <https://arxiv.org/abs/2111.04263>, algorithm 1): `h = h - alpha |S| / m D`, and the next
/// model is the mean of the clients' models minus `h / alpha`. So the step is `D - h / alpha`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dynamic {
    pub alpha: f64,
    /// `|S| / m`.
    pub share: f64,
}

impl Optimizer for Dynamic {
    fn companions(&self) -> &'static [Companion] {
        &[Companion::Linear]
    }

    fn initial(&self, _: Companion) -> f64 {
        0.0
    }

    fn step(&self, block: &mut [f64], companions: &mut [Vec<f64>]) {
        let [linear] = companions else { return };
        for (value, h) in block.iter_mut().zip(linear) {
            *h -= self.alpha * self.share * *value;
            *value -= *h / self.alpha;
        }
    }
}

/// The centre of elastic averaging (Zhang, Choromanska and LeCun 2015, <https://arxiv.org/abs/1412.6651>, algorithm 1):
/// it moves by the sum of the clients' pulls, `x = x + sum alpha (x_i - x)`, so that the sum of all weights is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elastic {
    /// Updates of which the combined one is the mean.
    pub updates: u32,
}

impl Optimizer for Elastic {
    fn companions(&self) -> &'static [Companion] {
        &[]
    }

    fn initial(&self, _: Companion) -> f64 {
        0.0
    }

    fn step(&self, block: &mut [f64], _: &mut [Vec<f64>]) {
        for value in block {
            *value *= f64::from(self.updates);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::step;

    /// The convex example of client drift: `f_i(y) = a_i / 2 (y - b_i)^2`, with the optimum at 0.8.
    const CURVES: [[f64; 2]; 2] = [[1.0, 0.0], [4.0, 1.0]];

    fn near(got: f64, printed: f64, digits: i32) -> bool {
        (got - printed).abs() <= 0.5 * 10f64.powi(-digits) + 1e-15
    }

    /// Five local steps of SCAFFOLD; returns the local model and the next control vector.
    fn local(curve: [f64; 2], x: f64, constant: f64, own: f64, server: f64) -> [f64; 2] {
        let mut y = x;
        for _ in 0..5 {
            y -= 0.1 * (curve[0] * (y - curve[1]) + constant);
        }
        [y, own - server + (x - y) / (5.0 * 0.1)]
    }

    #[test]
    fn scaffold_removes_the_drift_of_the_convex_example() {
        let (mut x, mut server, mut own) = (0.0, vec![0.0], [0.0; 2]);
        let (mut plain, mut rounds) = (0.0, Vec::new());
        for _ in 0..400 {
            let reached =
                [0, 1].map(|client| local(CURVES[client], x, server[0] - own[client], own[client], server[0]));
            let mean =
                |of: fn([f64; 2], f64, f64) -> f64| (of(reached[0], x, own[0]) + of(reached[1], x, own[1])) / 2.0;
            let combined = vec![mean(|reached, x, _| reached[0] - x), mean(|reached, _, own| reached[1] - own)];
            x += combined[0];
            ControlStep { share: 1.0, first: 1 }.apply(&combined, 0, &mut server).unwrap();
            own = reached.map(|reached| reached[1]);
            assert!((server[0] - (own[0] + own[1]) / 2.0).abs() < 1e-12, "c is the mean of all c_i");
            rounds.push(x);
            plain = (local(CURVES[0], plain, 0.0, 0.0, 0.0)[0] + local(CURVES[1], plain, 0.0, 0.0, 0.0)[0]) / 2.0;
        }
        assert!(near(rounds[0], 0.46112, 5) && near(rounds[1], 0.697_709_144, 9), "{:?}", &rounds[..3]);
        assert!(near(rounds[2], 0.785_305_408_756, 12) && near(x, 0.8, 9), "{:?}", &rounds[..3]);
        assert!(near(plain, 0.692_502_346_5, 10), "federated averaging stays at its own point: {plain}");
    }

    /// The optimum of `f_i(y) - g y + alpha / 2 (y - x)^2`.
    fn solved([a, b]: [f64; 2], alpha: f64, linear: f64, x: f64) -> f64 {
        (a * b + linear + alpha * x) / (a + alpha)
    }

    #[test]
    fn fed_dyn_meets_the_printed_rounds_and_their_limit() {
        for (alpha, printed) in
            [(2.0, [0.666_667, 0.777_778, 0.814_815, 0.820_988]), (0.5, [0.888_889, 0.740_741, 0.724_280, 0.735_254])]
        {
            let (mut x, mut linear, mut own, mut rounds) = (0.0, vec![vec![0.0]], [0.0; 2], Vec::new());
            for _ in 0..400 {
                let reached = [0, 1].map(|client| solved(CURVES[client], alpha, own[client], x));
                let combined = vec![reached.iter().map(|reached| reached - x).sum::<f64>() / 2.0];
                let moved = step(&Dynamic { alpha, share: 1.0 }, &combined, 0..1, &mut linear).unwrap();
                for (own, reached) in own.iter_mut().zip(reached) {
                    *own -= alpha * (reached - x);
                }
                x += moved[0];
                rounds.push(x);
            }
            assert!(rounds.iter().zip(printed).all(|(x, printed)| near(*x, printed, 6)), "{:?}", &rounds[..4]);
            assert!(near(x, 0.8, 9), "{x}");
        }
    }

    #[test]
    fn fed_prox_has_the_printed_fixed_points() {
        for (mu, printed) in [(0.1, 0.517_647), (1.0, 0.615_385), (10.0, 0.758_621), (100.0, 0.795_276)] {
            let mut x = 0.0;
            for _ in 0..20_000 {
                x = CURVES.iter().map(|curve| solved(*curve, mu, 0.0, x)).sum::<f64>() / 2.0;
            }
            assert!(near(x, printed, 6), "{mu}: {x}");
        }
    }

    #[test]
    fn a_control_variate_counts_the_clients_that_were_not_selected() {
        let mut control = vec![1.0, -1.0];
        let combined = vec![9.0, 9.0, 9.0, 0.5, 4.0];
        ControlStep { share: share(2, 8), first: 3 }.apply(&combined, 0, &mut control).unwrap();
        assert_eq!(control, [1.125, 0.0]);
        let behind = ControlStep { share: 1.0, first: 3 }.apply(&combined, 1, &mut control);
        assert_eq!(behind, Err(AggregateError::WrongLength { model: 6, updates: 5 }));
    }

    /// Goal: the sum of all clients' weights and of the centre stays what it was, whatever they learned; with
    /// `alpha = 1 / p` and clients that begin with the centre, the centre becomes their mean.
    #[test]
    fn the_elastic_exchange_keeps_the_sum_of_all_weights() {
        let (alpha, mut centre, mut own) = (0.125, 0.5, [0.5; 4]);
        for round in 0..5 {
            let reached: Vec<f64> = (0..4).map(|client| own[client] + f64::from(client as u32 * 3 + round)).collect();
            let before = centre + reached.iter().sum::<f64>();
            let pulls: Vec<f64> = reached.iter().map(|reached| alpha * (reached - centre)).collect();
            let combined = vec![pulls.iter().sum::<f64>() / 4.0];
            centre += step(&Elastic { updates: 4 }, &combined, 0..1, &mut []).unwrap()[0];
            own = [0, 1, 2, 3].map(|client| reached[client] - pulls[client]);
            assert_eq!(centre + own.iter().sum::<f64>(), before, "round {round}");
        }
        let combined = vec![[4.0, 8.0, -4.0, 0.0].iter().map(|delta| delta / 4.0).sum::<f64>() / 4.0];
        assert_eq!(step(&Elastic { updates: 4 }, &combined, 0..1, &mut []).unwrap(), [2.0], "the mean of the deltas");
    }
}
