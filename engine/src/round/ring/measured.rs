//! An order around the ring that avoids slow links.
//!
//! A ring is as fast as its slowest link, and the best of (m - 1)! orders is a travelling salesman's. Each link costs
//! the square of its time for a bit, so that one slow link is worse than two that are half as slow. Orders are made
//! greedily from several first members, and improved by moving and exchanging members while that helps.

use tributary_protocol::seed::Seed;

/// Members of a small ring, for which the best order is found.
const SMALL_MAX: usize = 8;
/// Members up to which parts are turned around: a turn costs a look at all links of the part.
const TURNED_MAX: usize = 32;
/// Looks at all members in turn until nothing improves; more are not needed in practice.
const LOOKS_MAX: usize = 32;
/// Cost of a link that cannot be, against all that can.
const CLOSED: f64 = 1e6;

/// What is known of the way from one member to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Nothing. It is taken for as good as the middle one of those that were measured.
    #[default]
    Unknown,
    /// The sender cannot connect.
    Closed,
    /// It took so many kilobits in a second.
    Measured { kbit_s: u64 },
}

/// Places members around the ring so that it avoids slow ways, and closed ones if it can. Where nothing is known, they
/// stay as they are.
pub fn avoiding<T: Clone>(members: &mut [T], way: impl Fn(&T, &T) -> Way, seed: Seed) {
    let count = members.len();
    let mut ways = vec![Way::Unknown; count * count];
    for (from, one) in members.iter().enumerate() {
        for (to, other) in members.iter().enumerate().filter(|(to, _)| *to != from) {
            ways[from * count + to] = way(one, other);
        }
    }
    if ways.iter().any(|way| *way != Way::Unknown) {
        let order = best(&Costs::of(&ways, count), seed);
        let placed: Vec<T> = order.iter().map(|place| members[*place].clone()).collect();
        members.clone_from_slice(&placed);
    }
}

/// What each link costs.
struct Costs {
    costs: Vec<f64>,
    count: usize,
}

impl Costs {
    fn of(ways: &[Way], count: usize) -> Self {
        let mut measured: Vec<u64> = ways.iter().filter_map(|way| way.kbit_s()).collect();
        measured.sort_unstable();
        let middle = measured.get(measured.len() / 2).copied().unwrap_or(1);
        let slowest = measured.first().copied().unwrap_or(1);
        let square = |kbit_s: u64| (kbit_s.max(1) as f64).powi(-2);
        let cost = |way: &Way| match way {
            Way::Unknown => square(middle),
            Way::Closed => CLOSED * square(slowest),
            Way::Measured { kbit_s } => square(*kbit_s),
        };
        Self { costs: ways.iter().map(cost).collect(), count }
    }

    fn link(&self, from: usize, to: usize) -> f64 {
        self.costs[from * self.count + to]
    }

    fn ring(&self, order: &[usize]) -> f64 {
        (0..order.len()).map(|place| self.link(order[place], order[(place + 1) % order.len()])).sum()
    }
}

impl Way {
    fn kbit_s(self) -> Option<u64> {
        if let Self::Measured { kbit_s } = self { Some(kbit_s) } else { None }
    }
}

/// Greedy orders, and drawn ones, that are improved for a ring of so many members.
fn trials(count: usize) -> [usize; 2] {
    if count <= SMALL_MAX {
        [count, 64]
    } else if count <= TURNED_MAX {
        [8, 8]
    } else {
        [2, 0]
    }
}

/// The best of several orders; of equal ones the first.
fn best(costs: &Costs, seed: Seed) -> Vec<usize> {
    let [greedily, drawn] = trials(costs.count);
    let mut stream = seed.derive("measured", 0).stream();
    let mut draw = |below: usize| stream.below(below as u64) as usize;
    let mut starts: Vec<Vec<usize>> = (0..greedily).map(|_| greedy(costs, draw(costs.count))).collect();
    for _ in 0..drawn {
        let mut order: Vec<usize> = (0..costs.count).collect();
        (1..costs.count).rev().for_each(|place| order.swap(place, draw(place + 1)));
        starts.push(order);
    }
    let improved = starts.into_iter().map(|order| improved(costs, order));
    let ring = improved.min_by(|one, other| costs.ring(one).total_cmp(&costs.ring(other)));
    let mut ring = ring.expect("there is a first order");
    let first = ring.iter().position(|place| *place == 0).unwrap_or(0);
    ring.rotate_left(first);
    ring
}

/// From each member to the cheapest one that is left.
fn greedy(costs: &Costs, first: usize) -> Vec<usize> {
    let mut order = vec![first];
    let mut left: Vec<usize> = (0..costs.count).filter(|place| *place != first).collect();
    while let Some(last) = order.last().copied().filter(|_| !left.is_empty()) {
        let cheapest = (0..left.len())
            .min_by(|one, other| costs.link(last, left[*one]).total_cmp(&costs.link(last, left[*other])));
        order.push(left.remove(cheapest.expect("some are left")));
    }
    order
}

/// Moves one member, or turns a part of the ring around, while the ring gets cheaper.
fn improved(costs: &Costs, mut order: Vec<usize>) -> Vec<usize> {
    for _ in 0..LOOKS_MAX {
        let before = costs.ring(&order);
        for from in 0..order.len() {
            move_member(costs, &mut order, from);
        }
        if order.len() <= TURNED_MAX {
            turn_parts(costs, &mut order);
        }
        if costs.ring(&order) >= before {
            break;
        }
    }
    order
}

/// Moves the member at a place to where the ring is cheapest with it.
fn move_member(costs: &Costs, order: &mut Vec<usize>, from: usize) {
    let count = order.len();
    let member = order.remove(from);
    let more = |order: &[usize], place: usize| {
        let (before, after) = (order[(place + count - 2) % (count - 1)], order[place % (count - 1)]);
        costs.link(before, member) + costs.link(member, after) - costs.link(before, after)
    };
    let best = (0..count - 1).min_by(|one, other| more(order, *one).total_cmp(&more(order, *other)));
    let place = best.filter(|best| more(order, *best) < more(order, from)).unwrap_or(from);
    order.insert(place, member);
}

/// Turns each part around that makes the ring cheaper.
fn turn_parts(costs: &Costs, order: &mut [usize]) {
    let mut cost = costs.ring(order);
    for from in 0..order.len() {
        for to in from + 2..=order.len() {
            order[from..to].reverse();
            let turned = costs.ring(order);
            if turned < cost {
                cost = turned;
            } else {
                order[from..to].reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(count: usize, seed: u64) -> (Vec<Way>, Costs) {
        let mut stream = Seed(seed).stream();
        let ways: Vec<Way> = (0..count * count)
            .map(|_| match stream.below(10) {
                0 => Way::Closed,
                1 | 2 => Way::Unknown,
                _ => Way::Measured { kbit_s: 1 + stream.below(1_000_000) },
            })
            .collect();
        let costs = Costs::of(&ways, count);
        (ways, costs)
    }

    /// The cost of the cheapest of all orders that begin like this.
    fn cheapest(costs: &Costs, order: &mut Vec<usize>) -> f64 {
        if order.len() == costs.count {
            return costs.ring(order);
        }
        let mut least = f64::INFINITY;
        for next in 0..costs.count {
            if !order.contains(&next) {
                order.push(next);
                least = least.min(cheapest(costs, order));
                order.pop();
            }
        }
        least
    }

    #[test]
    fn up_to_seven_members_have_the_best_of_all_orders() {
        for seed in 0..300 {
            let count = 2 + (seed as usize) % 6;
            let (_, costs) = costs(count, seed);
            let found = best(&costs, Seed(seed));
            let (found, least) = (costs.ring(&found), cheapest(&costs, &mut vec![0]));
            assert!(found <= least * (1.0 + 1e-9), "seed {seed}, {count} members: {found} instead of {least}");
        }
    }

    #[test]
    fn a_slow_link_and_a_closed_one_are_avoided_and_all_members_stay() {
        for count in [4, 5, 16, 64, 256] {
            let mut members: Vec<usize> = (0..count).collect();
            let way = |from: &usize, to: &usize| match (*from, *to) {
                (0, 1) => Way::Closed,
                (2, 3) => Way::Measured { kbit_s: 100 },
                _ => Way::Measured { kbit_s: 100_000 },
            };
            avoiding(&mut members, way, Seed(3));
            let next: Vec<_> = (0..count).map(|place| (members[place], members[(place + 1) % count])).collect();
            assert!(!next.contains(&(0, 1)) && !next.contains(&(2, 3)), "{count}: {members:?}");
            members.sort_unstable();
            assert!(members.iter().copied().eq(0..count));
        }
    }

    #[test]
    fn where_nothing_is_known_members_stay_where_they_are() {
        let mut members = vec![5, 3, 9, 1];
        avoiding(&mut members, |_, _| Way::Unknown, Seed(1));
        assert_eq!(members, [5, 3, 9, 1]);
        let mut again = vec![5, 3, 9, 1];
        let way = |from: &i32, to: &i32| Way::Measured { kbit_s: (from * 31 + to * 7).unsigned_abs().into() };
        avoiding(&mut members, way, Seed(1));
        avoiding(&mut again, way, Seed(1));
        assert_eq!(members, again, "the same seed, the same order");
    }
}
