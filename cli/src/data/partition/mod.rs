//! Splits of examples among clients: evenly, by a Dirichlet distribution, or in shards of few labels.

mod dirichlet;

use std::fmt;
use std::str::FromStr;

use tributary_protocol::seed::{Seed, Stream};

use crate::error::Failure;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Partition {
    /// Every client has a random sample of all examples; the sizes differ by one at most.
    Iid,
    /// The examples of each class are split in proportions from a symmetric Dirichlet distribution with this
    /// concentration (Hsu, Qi and Brown 2019). A small one gives clients few classes and unequal sizes.
    Dirichlet(f64),
    /// The examples are sorted by label and cut into equal shards, of which each client has this many (McMahan et al.
    /// 2017, section 3).
    Shards(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a partition is iid, dirichlet:A (A from 0.001 to 1000000) or shards:N (N from 1 to 10000), not {0:?}")]
pub struct UnknownPartition(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{examples} examples cannot be split among {clients} clients so that each has {pieces_each} or more")]
pub struct TooFewExamples {
    examples: usize,
    clients: usize,
    /// Examples, or shards, that each client must have.
    pieces_each: usize,
}

impl Failure for TooFewExamples {
    fn hint(&self) -> Option<String> {
        Some("choose fewer clients, or another --partition".into())
    }
}

impl Partition {
    /// Splits examples by their labels; returns the ascending indices of the examples of each client. Every example
    /// goes to exactly one client, every client has at least one, and equal seeds give equal splits.
    pub fn split(self, labels: &[u32], clients: usize, seed: Seed) -> Result<Vec<Vec<usize>>, TooFewExamples> {
        let pieces_each = if let Self::Shards(shards) = self { shards as usize } else { 1 };
        let pieces = clients.checked_mul(pieces_each).filter(|pieces| (1..=labels.len()).contains(pieces));
        if pieces.is_none() {
            return Err(TooFewExamples { examples: labels.len(), clients, pieces_each });
        }
        let mut stream = seed.derive("partition", 0).stream();
        let mut split = match self {
            Self::Iid => iid(labels.len(), clients, &mut stream),
            Self::Dirichlet(concentration) => dirichlet::split(labels, clients, concentration, &mut stream),
            Self::Shards(_) => shards(labels, clients, pieces_each, &mut stream),
        };
        split.iter_mut().for_each(|examples| examples.sort_unstable());
        Ok(split)
    }
}

fn iid(examples: usize, clients: usize, stream: &mut Stream) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..examples).collect();
    stream.shuffle(&mut order);
    cut(&order, clients).map(<[usize]>::to_vec).collect()
}

fn shards(labels: &[u32], clients: usize, shards_each: usize, stream: &mut Stream) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|example| labels[*example]);
    let mut shards: Vec<&[usize]> = cut(&order, clients * shards_each).collect();
    stream.shuffle(&mut shards);
    shards.chunks_exact(shards_each).map(<[&[usize]]>::concat).collect()
}

/// Cuts into pieces whose lengths differ by one at most.
fn cut(items: &[usize], pieces: usize) -> impl Iterator<Item = &[usize]> {
    (0..pieces).map(move |piece| &items[piece * items.len() / pieces..(piece + 1) * items.len() / pieces])
}

impl FromStr for Partition {
    type Err = UnknownPartition;

    fn from_str(text: &str) -> Result<Self, UnknownPartition> {
        let parsed = match text.split_once(':') {
            None if text == "iid" => Some(Self::Iid),
            Some(("dirichlet", number)) => {
                number.parse().ok().filter(|number| (1e-3..=1e6).contains(number)).map(Self::Dirichlet)
            }
            Some(("shards", number)) => {
                number.parse().ok().filter(|number| (1..=10_000).contains(number)).map(Self::Shards)
            }
            _ => None,
        };
        parsed.ok_or_else(|| UnknownPartition(text.chars().take(40).collect()))
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iid => formatter.write_str("iid"),
            Self::Dirichlet(concentration) => write!(formatter, "dirichlet:{concentration}"),
            Self::Shards(shards) => write!(formatter, "shards:{shards}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Ten classes, mixed, 100 examples each.
    fn labels() -> Vec<u32> {
        (0..1000).map(|example| example * 7 % 10).collect()
    }

    fn classes(labels: &[u32], examples: &[usize]) -> usize {
        examples.iter().map(|example| labels[*example]).collect::<HashSet<_>>().len()
    }

    #[test]
    fn every_example_has_one_client_and_every_client_an_example() {
        for partition in ["iid", "dirichlet:0.001", "dirichlet:0.5", "dirichlet:1e6", "shards:1", "shards:3"] {
            for clients in [1, 2, 7, 100, 333] {
                let partition: Partition = partition.parse().unwrap();
                let split = partition.split(&labels(), clients, Seed(1)).unwrap();
                assert_eq!(split.len(), clients);
                assert!(split.iter().all(|examples| !examples.is_empty()), "{partition} {clients}");
                let mut all = split.concat();
                all.sort_unstable();
                assert_eq!(all, (0..1000).collect::<Vec<_>>(), "{partition} {clients}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_split_and_another_seed_another() {
        for partition in [Partition::Iid, Partition::Dirichlet(0.5), Partition::Shards(2)] {
            let split = |seed| partition.split(&labels(), 20, Seed(seed)).unwrap();
            assert_eq!(split(1), split(1));
            assert_ne!(split(1), split(2));
        }
    }

    #[test]
    fn iid_clients_are_equally_large_and_have_all_classes() {
        let split = Partition::Iid.split(&labels(), 15, Seed(3)).unwrap();
        assert!(split.iter().all(|examples| (66..=67).contains(&examples.len())));
        assert!(split.iter().all(|examples| classes(&labels(), examples) == 10));
    }

    #[test]
    fn a_client_has_no_more_labels_than_shards_where_shards_divide_the_classes() {
        let split = Partition::Shards(2).split(&labels(), 10, Seed(3)).unwrap();
        assert!(split.iter().all(|examples| examples.len() == 100 && classes(&labels(), examples) <= 2));
    }

    #[test]
    fn a_smaller_concentration_is_more_uneven() {
        let mean_classes = |concentration| {
            let split = Partition::Dirichlet(concentration).split(&labels(), 10, Seed(5)).unwrap();
            split.iter().map(|examples| classes(&labels(), examples)).sum::<usize>() as f64 / 10.0
        };
        let (uneven, even) = (mean_classes(0.1), mean_classes(100.0));
        assert!(uneven < 6.0 && even == 10.0, "{uneven} {even}");
    }

    #[test]
    fn too_few_examples_are_refused() {
        for (partition, clients) in [(Partition::Iid, 0), (Partition::Iid, 1001), (Partition::Shards(11), 100)] {
            assert!(partition.split(&labels(), clients, Seed(1)).is_err(), "{partition} {clients}");
        }
        let error = Partition::Shards(11).split(&labels(), 100, Seed(1)).unwrap_err().to_string();
        assert_eq!(error, "1000 examples cannot be split among 100 clients so that each has 11 or more");
    }

    #[test]
    fn partitions_read_back_what_they_write_and_nothing_else() {
        for text in ["iid", "dirichlet:0.5", "shards:2"] {
            assert_eq!(text.parse::<Partition>().unwrap().to_string(), text);
        }
        for text in ["", "iid:1", "dirichlet", "dirichlet:0", "dirichlet:-1", "dirichlet:NaN", "shards:0", "shards:x"] {
            assert!(text.parse::<Partition>().is_err(), "{text}");
        }
    }
}
