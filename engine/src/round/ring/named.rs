//! Who mixes with whom where the job names edges between clients.

use std::collections::HashMap;

use tributary_protocol::graph::{Edge, connected};

/// The edges among the members with these numbers, in the order of the ring, as pairs of ranks. Members that no path of
/// named edges connects, because others are missing, are joined as in a ring. None if the job names none.
#[must_use]
pub fn named_edges(named: &[[u32; 2]], numbers: &[u64]) -> Vec<Edge> {
    if named.is_empty() {
        return Vec::new();
    }
    let ranks: HashMap<u64, u16> = numbers.iter().copied().zip(0..).collect();
    let rank = |number: u32| ranks.get(&number.into()).copied();
    let between = |&[one, other]: &[u32; 2]| Some((rank(one)?, rank(other)?));
    connected(named.iter().filter_map(between).collect(), u16::try_from(numbers.len()).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clients_become_ranks_and_those_that_miss_a_neighbour_are_joined() {
        let star = [[4, 1], [4, 2], [4, 3]];
        assert_eq!(named_edges(&star, &[4, 2, 3, 1]), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(named_edges(&star, &[1, 2, 4]), [(0, 2), (1, 2)]);
        assert_eq!(named_edges(&star, &[3, 1, 2]), [(0, 1), (1, 2)], "their centre is missing");
        assert!(named_edges(&[], &[3, 1, 2]).is_empty());
    }
}
