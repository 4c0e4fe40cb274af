//! Graphs of members that mix their models with their neighbours (D-PSGD: Lian et al. 2017,
//! <https://arxiv.org/abs/1705.09056>), and the weights of their edges.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::seed::Seed;

/// Draws of a random regular graph before it has fewer edges than it should.
const DRAWS_MAX: u64 = 100;
/// Steps of the power iteration: enough for 1e-6 with the 256 members that a group has at most.
const POWER_STEPS: u32 = 5_000;

/// Who mixes with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Graph {
    /// Each member with the one before and the one after it.
    Ring,
    /// A grid whose rows and columns are rings, as square as the number of members allows; a ring for a prime number.
    Torus,
    /// Each member with those 1, 2, 4, .. places before and after it.
    Exponential,
    /// Each member with so many others, drawn with the seed of the job; with all others if there are no more.
    RandomRegular {
        /// Neighbours of a member, an even number from 2.
        degree: u16,
    },
    /// The edges that the job names. A roster has those of its members.
    Edges,
}

/// Two members that mix, the lower rank first.
pub type Edge = (u16, u16);

impl Graph {
    /// The degree that a random graph is to have; that of a ring for the others.
    pub(crate) fn degree(self) -> u16 {
        if let Self::RandomRegular { degree } = self { degree } else { 2 }
    }

    /// The edges of a member, with the share of the difference that flows, and whether the member is the one that opens
    /// the link: each member then opens about as many as it accepts.
    #[must_use]
    pub fn links(self, (rank, members): (u16, u16), seed: Seed) -> Vec<(u16, f64, bool)> {
        links(&self.edges(members, seed), (rank, members))
    }

    /// The edges among so many members, in ascending order; a ring where the job names them. Every member can be
    /// reached from every other one.
    #[must_use]
    pub fn edges(self, members: u16, seed: Seed) -> Vec<Edge> {
        let hops = |hops: &[u16]| {
            let of = |at: u16| hops.iter().map(move |hop| (at, (at + hop) % members));
            (0..members).flat_map(of).collect::<Vec<_>>()
        };
        let edges = match self {
            _ if members < 2 => Vec::new(),
            Self::Ring | Self::Edges => hops(&[1]),
            Self::Torus => torus(members),
            Self::Exponential => {
                let powers = (0..16).map(|power| 1u16 << power);
                hops(&powers.take_while(|hop| *hop < members).collect::<Vec<_>>())
            }
            Self::RandomRegular { degree } if degree >= members - 1 => hops(&(1..members).collect::<Vec<_>>()),
            Self::RandomRegular { degree } => return random_regular(members, degree, seed),
        };
        simple(edges)
    }
}

/// The links of a member along these edges, as [`Graph::links`] has them.
#[must_use]
pub fn links(edges: &[Edge], (rank, members): (u16, u16)) -> Vec<(u16, f64, bool)> {
    let ahead = |other: u16| (u32::from(other) + u32::from(members) - u32::from(rank)) % u32::from(members.max(1));
    let opens = |other: u16| match (2 * ahead(other)).cmp(&u32::from(members)) {
        Ordering::Less => true,
        Ordering::Equal => rank < other,
        Ordering::Greater => false,
    };
    let neighbours = neighbours(edges, rank);
    neighbours.into_iter().map(|(other, weight)| (other, weight, opens(other))).collect()
}

/// These edges among so many members, and as many of a ring as it takes to reach every member from every other one.
#[must_use]
pub fn connected(edges: Vec<Edge>, members: u16) -> Vec<Edge> {
    let mut edges = simple(edges);
    let mut part: Vec<u16> = (0..members).collect();
    let join = |part: &mut Vec<u16>, (one, other): Edge| {
        let (kept, gone) = (part[usize::from(one)], part[usize::from(other)]);
        part.iter_mut().filter(|part| **part == gone).for_each(|part| *part = kept);
        kept != gone
    };
    edges.iter().for_each(|edge| _ = join(&mut part, *edge));
    edges.extend((1..members).map(|rank| (rank - 1, rank)).filter(|edge| join(&mut part, *edge)));
    simple(edges)
}

/// Each edge once, the lower rank first, and none from a member to itself.
fn simple(edges: Vec<Edge>) -> Vec<Edge> {
    let mut edges: Vec<Edge> = edges.into_iter().map(|(one, other)| (one.min(other), one.max(other))).collect();
    edges.retain(|(one, other)| one != other);
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn torus(members: u16) -> Vec<Edge> {
    let rows =
        (1..=members).take_while(|rows| rows * rows <= members).filter(|rows| members.is_multiple_of(*rows)).last();
    let rows = rows.unwrap_or(1);
    let columns = members / rows;
    let place = |row: u16, column: u16| (row % rows) * columns + column % columns;
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let both = |(row, column)| [(row, column + 1), (row + 1, column)].map(|(r, c)| (place(row, column), place(r, c)));
    cells.flat_map(both).collect()
}

/// Rings through all members in random orders, drawn again while two of them have an edge in common.
fn random_regular(members: u16, degree: u16, seed: Seed) -> Vec<Edge> {
    let rings = (degree / 2).max(1);
    let wanted = usize::from(members) * usize::from(rings);
    let draw = |draw: u64| {
        let mut stream = seed.derive("graph", draw).stream();
        let mut edges = Vec::new();
        for _ in 0..rings {
            let mut order: Vec<u16> = (0..members).collect();
            stream.shuffle(&mut order);
            edges.extend(order.iter().copied().zip(order.iter().copied().cycle().skip(1)));
        }
        simple(edges)
    };
    let draws = (0..DRAWS_MAX).map(draw);
    let mut most = Vec::new();
    for edges in draws {
        if edges.len() > most.len() {
            most = edges;
        }
        if most.len() == wanted {
            break;
        }
    }
    most
}

/// The neighbours of a member, in ascending order, each with the share of their difference that flows over the edge in
/// a mix: Metropolis weights, 1 / (1 + the larger degree of both). They are the same at both ends of an edge, and a
/// member keeps a share of its own model.
#[must_use]
pub fn neighbours(edges: &[Edge], rank: u16) -> Vec<(u16, f64)> {
    let degree = |of: u16| edges.iter().filter(|(one, other)| *one == of || *other == of).count();
    let own = degree(rank);
    let other = |edge: &Edge| match *edge {
        (one, other) if one == rank => Some(other),
        (one, other) if other == rank => Some(one),
        _ => None,
    };
    let mut neighbours: Vec<(u16, f64)> =
        edges.iter().filter_map(other).map(|other| (other, 1.0 / (1.0 + own.max(degree(other)) as f64))).collect();
    neighbours.sort_by_key(|(rank, _)| *rank);
    neighbours
}

/// By how much a mix shortens the distance of the models from their mean: the second largest magnitude of an eigenvalue
/// of the weights, 0 for members that all have their mean after one mix.
#[must_use]
pub fn lambda(edges: &[Edge], members: u16) -> f64 {
    let all: Vec<Vec<(u16, f64)>> = (0..members).map(|rank| neighbours(edges, rank)).collect();
    let mix = |x: &[f64]| -> Vec<f64> {
        let flow = |(rank, own): (usize, &f64)| {
            all[rank].iter().map(|(other, weight)| weight * (x[usize::from(*other)] - own)).sum::<f64>()
        };
        x.iter().enumerate().map(|(rank, own)| own + flow((rank, own))).collect()
    };
    let norm = |x: &[f64]| x.iter().map(|value| value * value).sum::<f64>().sqrt();
    let mut stream = Seed(1).stream();
    let mut x: Vec<f64> = (0..members).map(|_| f64::from(stream.uniform(-1.0, 1.0))).collect();
    let mut shortened = 0.0;
    for _ in 0..POWER_STEPS {
        let mean = x.iter().sum::<f64>() / f64::from(members.max(1));
        let length = {
            x.iter_mut().for_each(|value| *value -= mean);
            norm(&x)
        };
        if length < 1e-300 {
            return 0.0;
        }
        x.iter_mut().for_each(|value| *value /= length);
        x = mix(&x);
        shortened = norm(&x);
    }
    if shortened < 1e-12 { 0.0 } else { shortened }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn second(graph: Graph, members: u16) -> f64 {
        lambda(&graph.edges(members, Seed(3)), members)
    }

    #[test]
    fn the_second_eigenvalues_are_those_of_the_design() {
        for (graph, members, expected) in [
            (Graph::Ring, 16, 0.949_253),
            (Graph::Torus, 16, 0.6),
            (Graph::Exponential, 16, 0.5),
            (Graph::Ring, 8, 0.804_738),
            (Graph::Ring, 2, 0.0),
            (Graph::RandomRegular { degree: 40 }, 16, 0.0),
        ] {
            let got = second(graph, members);
            assert!((got - expected).abs() < 1e-6, "{graph:?} of {members}: {got}");
        }
    }

    #[test]
    fn degrees_are_those_of_the_graphs() {
        let degrees = |graph: Graph, members| -> Vec<usize> {
            let edges = graph.edges(members, Seed(3));
            (0..members).map(|rank| neighbours(&edges, rank).len()).collect()
        };
        assert_eq!(degrees(Graph::Ring, 5), [2; 5]);
        assert_eq!(degrees(Graph::Torus, 12), [4; 12]);
        assert_eq!(degrees(Graph::Torus, 7), [2; 7]);
        assert_eq!(degrees(Graph::Exponential, 16), [7; 16]);
        assert_eq!(degrees(Graph::RandomRegular { degree: 4 }, 16), [4; 16]);
        assert_eq!(degrees(Graph::RandomRegular { degree: 4 }, 3), [2; 3]);
        assert_eq!(Graph::Ring.edges(2, Seed(3)), [(0, 1)]);
        assert!(Graph::Ring.edges(1, Seed(3)).is_empty());
    }

    #[test]
    fn edges_that_reach_not_all_are_joined_by_those_of_a_ring() {
        assert_eq!(connected(vec![(3, 0), (0, 3), (1, 1)], 4), [(0, 1), (0, 3), (1, 2)]);
        assert_eq!(connected(vec![(0, 1), (0, 2), (0, 3)], 4), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(connected(Vec::new(), 3), [(0, 1), (1, 2)]);
        assert!(connected(Vec::new(), 0).is_empty());
    }

    #[test]
    fn a_seed_gives_one_random_graph() {
        let edges = |seed| Graph::RandomRegular { degree: 4 }.edges(12, Seed(seed));
        assert_eq!(edges(1), edges(1));
        assert_ne!(edges(1), edges(2));
    }

    #[test]
    fn a_graph_reads_from_a_job_file() {
        let graph = |json: &str| serde_json::from_str::<Graph>(json).unwrap();
        assert_eq!(graph("\"torus\""), Graph::Torus);
        assert_eq!(graph("{\"random_regular\":{\"degree\":4}}"), Graph::RandomRegular { degree: 4 });
    }

    proptest! {
        #[test]
        fn weights_are_doubly_stochastic_and_everybody_is_reached(
            members in 2u16..40, which in 0usize..4, seed: u64,
        ) {
            let graph = [Graph::Ring, Graph::Torus, Graph::Exponential, Graph::RandomRegular { degree: 4 }][which];
            let edges = graph.edges(members, Seed(seed));
            for rank in 0..members {
                let own = neighbours(&edges, rank);
                prop_assert!(own.iter().map(|(_, weight)| weight).sum::<f64>() < 1.0);
                for (other, weight, opens) in graph.links((rank, members), Seed(seed)) {
                    let back = graph.links((other, members), Seed(seed));
                    prop_assert!(back.contains(&(rank, weight, !opens)), "one of both opens the link");
                }
                for (other, weight) in own {
                    prop_assert!(neighbours(&edges, other).contains(&(rank, weight)), "the weight of both ends");
                }
            }
            let mut reached = vec![0];
            while let Some(next) = (0..members).find(|rank| {
                !reached.contains(rank) && neighbours(&edges, *rank).iter().any(|(other, _)| reached.contains(other))
            }) {
                reached.push(next);
            }
            prop_assert_eq!(reached.len(), usize::from(members));
        }
    }
}
