//! Which clients are always stale, and what it costs them.

use std::collections::BTreeMap;

use tributary_protocol::id::ClientId;
use tributary_protocol::operator::StaleClient;

/// Newest accepted updates that are looked at.
pub const STALE_UPDATES_MAX: u32 = 20_000;
/// Most clients of the answer.
const CLIENTS_MAX: usize = 20;

/// An accepted update of a buffered job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleUpdate {
    pub client: ClientId,
    pub client_number: u64,
    /// Versions that it was behind.
    pub staleness: u32,
    pub examples: u64,
}

/// The clients whose updates are the most versions behind in the mean, with the weight that `lost` says an update of so
/// many examples and versions lost. Clients that were never behind are left out.
pub fn stalest(updates: &[StaleUpdate], lost: impl Fn(u64, u32) -> f64) -> Vec<StaleClient> {
    let mut clients: BTreeMap<u64, StaleClient> = BTreeMap::new();
    for update in updates {
        let client = clients.entry(update.client_number).or_insert(StaleClient {
            client: update.client,
            client_number: update.client_number,
            updates: 0,
            staleness_mean: 0.0,
            staleness_max: 0,
            examples: 0,
            lost_weight: 0.0,
        });
        client.updates += 1;
        // The sum until all updates are counted.
        client.staleness_mean += f64::from(update.staleness);
        client.staleness_max = client.staleness_max.max(update.staleness);
        client.examples = client.examples.saturating_add(update.examples);
        client.lost_weight += lost(update.examples, update.staleness);
    }
    let mut clients: Vec<StaleClient> = clients.into_values().filter(|client| client.staleness_max > 0).collect();
    for client in &mut clients {
        client.staleness_mean /= client.updates as f64;
    }
    clients.sort_by(|one, other| {
        let by_mean = other.staleness_mean.total_cmp(&one.staleness_mean);
        by_mean.then(other.lost_weight.total_cmp(&one.lost_weight)).then(one.client_number.cmp(&other.client_number))
    });
    clients.truncate(CLIENTS_MAX);
    clients
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(client_number: u64, staleness: u32, examples: u64) -> StaleUpdate {
        StaleUpdate { client: ClientId::from_random([1; 16]), client_number, staleness, examples }
    }

    #[test]
    fn the_stalest_come_first_with_what_they_lost() {
        let updates = [
            update(1, 0, 10),
            update(1, 0, 10),
            update(2, 6, 10),
            update(2, 2, 30),
            update(3, 4, 100),
            update(4, 1, 10),
            update(4, 0, 10),
        ];
        let found = stalest(&updates, |examples, staleness| examples as f64 * f64::from(staleness) / 10.0);
        let rows: Vec<_> = found.iter().map(|row| (row.client_number, row.staleness_mean, row.lost_weight)).collect();
        assert_eq!(rows, [(3, 4.0, 40.0), (2, 4.0, 12.0), (4, 0.5, 1.0)]);
        assert_eq!((found[1].updates, found[1].staleness_max, found[1].examples), (2, 6, 40));
        let many: Vec<_> = (0..50).map(|client| update(client, client as u32, 1)).collect();
        let found = stalest(&many, |_, _| 0.0);
        assert_eq!((found.len(), found[0].client_number, found[19].client_number), (20, 49, 30));
    }
}
