//! The private half of a job in virtual time: the noise of its sums, and what its clients may still contribute.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_engine::aggregate::{Grid, NoiseMaker, PrivateSum, SharedCombined};
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::{Buffers, Charged, Terms};
use tributary_engine::round::{Contributed, TaskPolicy, admit_unit};
use tributary_protocol::hash::Sha256Hash;

/// What a private job keeps from round to round.
#[derive(Debug, Default)]
pub(crate) struct Private {
    /// Buffers of correlated noise, with that of the count at the end.
    buffers: Vec<u8>,
    /// By number of the client.
    contributed: BTreeMap<u64, Contributed>,
    charged: Charged,
}

impl Private {
    /// Whether a client may contribute to the version after this one.
    pub(crate) fn admits(&self, terms: &Terms, client: u64, base_version: u32) -> bool {
        let before = self.contributed.get(&client).copied().unwrap_or_default();
        admit_unit(before, base_version, &terms.participation).is_ok()
    }

    pub(crate) fn is_spent(&self, terms: &Terms) -> bool {
        !terms.allows(self.charged)
    }

    /// The private sum of these updates, and the noised share of those within the clip. The key follows from the job's
    /// seed, because a simulation is repeated and protects nobody.
    pub(crate) fn combined<'a>(
        &mut self,
        spec: &JobSpec,
        terms: &Terms,
        (number, policy, base_version): (u32, &TaskPolicy, u32),
        updates: impl Iterator<Item = (u64, &'a [f32])>,
    ) -> (SharedCombined, Option<f64>) {
        let noise = terms.noise(policy.goal, policy.available_min);
        // Noise of clients is drawn here at once: in a sum it makes no difference.
        let grid = Grid::new(policy.clip_norm.unwrap_or(1.0), noise.values * terms.together.sqrt());
        let total = spec.update.total();
        let sum = PrivateSum::new(total, grid, noise.divisor).releasing(spec.released(base_version));
        let sum = Arc::new(sum);
        for (client, update) in updates {
            sum.add(grid, update);
            let Contributed { updates, .. } = self.contributed.get(&client).copied().unwrap_or_default();
            let now = Contributed { updates: updates + 1, version: base_version + 1 };
            self.contributed.insert(client, now);
            self.charged.participations = self.charged.participations.max(now.updates);
        }
        self.charged.releases += 1;
        let key = Sha256Hash::of(&spec.seed().0.to_le_bytes()).0;
        let maker = NoiseMaker::new(key, spec.seed(), number, terms.blt);
        let (of_values, of_count) = self.buffers.split_at(self.buffers.len().min(total * Buffers::BYTES));
        let made = maker.make(0..total, of_values);
        sum.add_noise(0, &made.noise);
        let place = NoiseMaker::place_of_count(total);
        let count = maker.make(place..place + 1, of_count);
        let share = noise.count.map(|deviation| sum.clip_share(deviation, noise.divisor, count.noise[0]));
        self.buffers = [made.buffers, count.buffers].concat();
        (sum, share)
    }
}
