//! The time that a round is expected to take, by how its sums meet.
//!
//! The time in which a member works on its load is exponential. Its mean is the load times what all data would take. A
//! finished sum is sent at once, and a receiver takes in one vector at a time. A star with many members therefore waits
//! for its network card, and a star with few members for the slowest one.
//!
//! Each expectation is the mean of seeded trials.

use tributary_protocol::seed::{Seed, Stream};

use super::tree::Tree;

/// Members that are simulated in all trials of a scheme together.
const SIMULATED: u64 = 1 << 20;
/// Most trials of a scheme.
const TRIALS_MAX: u64 = 2_000;
const SEED: Seed = Seed(7);

/// How the sums of a round meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Each member sends its sum to the coordinator, which waits for all of them.
    Star,
    /// The last level of the tree works; relays add up what their children send. Everybody is waited for.
    Relays,
    /// One code for all members, who send to the coordinator. It waits for all but the stragglers.
    GradientCoding,
    /// A code for each parent of the tree, who waits for all but its stragglers.
    CodedTree,
    /// Members add up in a ring, in which nobody can be missing.
    Ring,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Star, Self::Relays, Self::GradientCoding, Self::CodedTree, Self::Ring];
}

/// What work and transfers take, in the same unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The mean time in which one member would work on all data.
    pub compute: f64,
    /// The time of one vector on a link.
    pub transfer: f64,
}

/// What a scheme comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// How the sums meet.
    pub scheme: Scheme,
    /// Members that work.
    pub members: u64,
    /// The fraction of all data that each works on.
    pub load: f64,
    /// The share of the members, or of each parent's children, without which the sum is whole.
    pub resilience: f64,
    /// Vectors that the busiest link takes in one after the other.
    pub vectors: f64,
    /// The expected time of a round.
    pub time: f64,
}

/// What all schemes come to, with as many members as the tree has.
#[must_use]
pub fn expected(tree: Tree, costs: Costs) -> [Expected; 5] {
    Scheme::ALL.map(|scheme| of(scheme, tree, costs))
}

fn of(scheme: Scheme, tree: Tree, costs: Costs) -> Expected {
    let (members, children) = (tree.members(), f64::from(tree.children()));
    let share = f64::from(tree.stragglers()) / children;
    let needed = f64::from(tree.children() - tree.stragglers());
    let one_code = (members - tree.stragglers_of_all()) as f64;
    let (working, load, resilience, vectors) = match scheme {
        Scheme::Star => (members, 1.0 / members as f64, 0.0, members as f64),
        Scheme::Relays => (tree.leaves(), 1.0 / tree.leaves() as f64, 0.0, children),
        Scheme::GradientCoding => (members, tree.load_of_one_code(), share, one_code),
        Scheme::CodedTree => (members, tree.load(), share, needed),
        Scheme::Ring => (members, 1.0 / members as f64, 0.0, around(members)),
    };
    let mut round = Round { tree, mean: costs.compute * load, transfer: costs.transfer, stream: SEED.stream() };
    let trials = (SIMULATED / members).clamp(1, TRIALS_MAX);
    let time = (0..trials).map(|_| round.time(scheme)).sum::<f64>() / trials as f64;
    Expected { scheme, members: working, load, resilience, vectors, time }
}

/// Vectors that each link of a ring carries.
fn around(members: u64) -> f64 {
    2.0 * (members - 1) as f64 / members as f64
}

/// Rounds of one scheme.
struct Round {
    tree: Tree,
    /// Mean time of a member's work.
    mean: f64,
    transfer: f64,
    stream: Stream,
}

impl Round {
    /// The time of one trial.
    fn time(&mut self, scheme: Scheme) -> f64 {
        let members = self.tree.members() as usize;
        match scheme {
            Scheme::Star => self.star(members),
            Scheme::GradientCoding => self.star(members - self.tree.stragglers_of_all() as usize),
            Scheme::Relays => self.parent(0, false),
            Scheme::CodedTree => self.parent(0, true),
            Scheme::Ring => {
                let slowest = (0..members).map(|_| self.work()).fold(0.0, f64::max);
                slowest + around(self.tree.members()) * self.transfer
            }
        }
    }

    /// When the first `needed` of all members have arrived at the coordinator.
    fn star(&mut self, needed: usize) -> f64 {
        let ready: Vec<f64> = (0..self.tree.members()).map(|_| self.work()).collect();
        self.received(ready, needed)
    }

    /// When a member at this depth has the sum of its subtree. In a coded tree all but the root work; else the leaves.
    fn parent(&mut self, depth: u32, is_coded: bool) -> f64 {
        let is_leaf = depth == self.tree.levels();
        let own = if is_leaf || is_coded && depth > 0 { self.work() } else { 0.0 };
        if is_leaf {
            return own;
        }
        let ready: Vec<f64> = (0..self.tree.children()).map(|_| self.parent(depth + 1, is_coded)).collect();
        let without = if is_coded { self.tree.stragglers() } else { 0 };
        let needed = (self.tree.children() - without) as usize;
        self.received(ready, needed).max(own)
    }

    /// When the first `needed` vectors are in, one after the other.
    fn received(&self, mut ready: Vec<f64>, needed: usize) -> f64 {
        ready.sort_by(f64::total_cmp);
        ready.into_iter().take(needed).fold(0.0, |done: f64, at| done.max(at) + self.transfer)
    }

    fn work(&mut self) -> f64 {
        -(1.0 - self.stream.unit()).ln() * self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(tree: Tree, compute: f64, scheme: Scheme) -> f64 {
        of(scheme, tree, Costs { compute, transfer: 1.0 }).time
    }

    /// Work of 100 transfers: figures of an independent simulation, within 5 %.
    #[test]
    fn expected_times_are_those_of_the_model() {
        for (shape, figures) in [((4, 3, 1), [84.0, 63.0, 16.3, 7.9]), ((12, 2, 3), [156.0, 117.0, 19.0, 5.6])] {
            let tree = Tree::new(shape.0, shape.1, shape.2).unwrap();
            let schemes = [Scheme::Star, Scheme::GradientCoding, Scheme::CodedTree, Scheme::Ring];
            for (scheme, figure) in schemes.into_iter().zip(figures) {
                let time = time(tree, 100.0, scheme);
                assert!((time / figure - 1.0).abs() < 0.05, "{tree:?} {scheme:?}: {time} instead of {figure}");
            }
        }
    }

    /// Without work a round takes as long as its transfers.
    #[test]
    fn without_work_only_transfers_count() {
        let tree = Tree::new(4, 3, 1).unwrap();
        assert_eq!(time(tree, 0.0, Scheme::Star), 84.0);
        assert_eq!(time(tree, 0.0, Scheme::Relays), 12.0);
        assert_eq!(time(tree, 0.0, Scheme::GradientCoding), 63.0);
        assert_eq!(time(tree, 0.0, Scheme::CodedTree), 9.0);
    }

    /// A tree of 4, 16 and 64 members, of which each parent does without one child.
    #[test]
    fn each_scheme_has_its_members_load_resilience_and_vectors() {
        let schemes = expected(Tree::new(4, 3, 1).unwrap(), Costs { compute: 0.0, transfer: 1.0 });
        let figures = schemes.map(|it| (it.scheme, it.members, it.load, it.resilience, it.vectors));
        let coded = 1.0 / (2.0 + 4.0 + 8.0);
        let wanted = [
            (Scheme::Star, 84, 1.0 / 84.0, 0.0, 84.0),
            (Scheme::Relays, 64, 1.0 / 64.0, 0.0, 4.0),
            (Scheme::GradientCoding, 84, 22.0 / 84.0, 0.25, 63.0),
            (Scheme::CodedTree, 84, coded, 0.25, 3.0),
            (Scheme::Ring, 84, 1.0 / 84.0, 0.0, 166.0 / 84.0),
        ];
        assert_eq!(figures, wanted);
        assert!((schemes[4].time - 166.0 / 84.0).abs() < 1e-9, "without work a ring takes its transfers");
    }

    /// One level is the code of a star.
    #[test]
    fn a_tree_of_one_level_is_gradient_coding() {
        let [_, _, one_code, tree, _] = expected(Tree::new(12, 1, 3).unwrap(), Costs { compute: 50.0, transfer: 1.0 });
        let figures = |it: Expected| (it.members, it.load.to_bits(), it.resilience.to_bits(), it.time.to_bits());
        assert_eq!(figures(one_code), figures(tree));
    }
}
