//! Groups that add up their updates among themselves (`[group]`).
//!
//! Members that have finished form a ring, and the coordinator gets one sum. Whatever goes wrong among them, they send
//! their own updates to the coordinator, and the same round commits.

use serde::{Deserialize, Serialize};

use super::error::require;
use super::{JobFile, JobFileError, NormMax};
use crate::graph::Graph;
use crate::group::grid::{GRID_BITS_MAX, GRID_BITS_MIN};
use crate::group::messages::GROUP_MAX;
use crate::plan::{Exchange, Gossip, MixCodec};

/// Attempts of a round at most.
const ATTEMPTS_MAX: u32 = 8;
/// Optimiser steps between two exchanges at most.
const EXCHANGE_STEPS_MAX: u32 = 1_000_000;
/// Mixes of an exchange at most.
const MIXES_MAX: u32 = 100;
/// Neighbours of a member in a random graph at most.
const DEGREE_MAX: u16 = 8;
/// Longest time without the coordinator, in milliseconds: a week.
const ALONE_MS_MAX: u64 = 604_800_000;
/// Named edges at most.
const EDGES_MAX: usize = 4_096;
const NO_NORM: &str =
    "left out where members exchange while they train: nobody sends an update that could be shortened";

const NO_RELAYED: &str =
    "\"direct\" where members exchange while they train: the coordinator would carry each exchange";

/// Who adds up: the members of a group among themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How members are connected.
    pub topology: Topology,
    /// Share of `deadline_ms` after which a group forms with those that are ready, 0.1 to 0.9. Default: 0.6.
    #[serde(default = "form_by")]
    pub form_by: f64,
    /// Share of `deadline_ms` after which members send their own updates to the coordinator, above `form_by` and at
    /// most 0.95. Default: 0.8.
    #[serde(default = "star_from")]
    pub star_from: f64,
    /// Groups that a round may form before members send their own updates, 1 to 8. Default: 2.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// Longest silence of a neighbour that owes a frame, in milliseconds, 100 to 600,000. Default: 10,000.
    #[serde(default = "frame_ms")]
    pub frame_ms: u64,
    /// What becomes of two neighbours that cannot reach each other. Default: `direct`.
    #[serde(default)]
    pub links: Links,
    /// Who is next to whom. Default: `enrolment`.
    #[serde(default)]
    pub order: Order,
    /// Members round the integers that they add up to so many bits, on a grid that they agree on first, 6 to 16: 8 bits
    /// are about 1.2 bytes a value instead of 3.4 to 5.6. Default: they add up the integers of their updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid_bits: Option<u32>,
    /// Who mixes with whom where `graph` is `edges`: pairs of numbers of clients, at most 4,096. Members that no path
    /// of edges connects are joined as in a ring.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<[u32; 2]>,
}

/// The order of members around a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By their numbers, and another one in each further attempt.
    #[default]
    Enrolment,
    /// One that avoids links that were slow or failed in the last day.
    Measured,
}

/// The ways between two members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// Members connect to each other.
    #[default]
    Direct,
    /// Where they cannot, the coordinator passes on what they send, which is encrypted between them.
    Any,
}

/// How members of a group are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// Each member sends to the next one: ring all-reduce.
    Ring {
        /// When members add up. Default: once per round, after their trainings.
        #[serde(default, skip_serializing_if = "Every::is_round")]
        every: Every,
    },
    /// Each member keeps a model of its own, and mixes it with those of its neighbours while it trains (D-PSGD, Lian et
    /// al. 2017). The mean of all models becomes the next version.
    Gossip {
        /// Who mixes with whom.
        graph: Graph,
        /// Optimiser steps after which members mix. They do it after the last step, too. 1 to 1,000,000.
        steps: u32,
        /// Mixes each time, 1 to 100. Default: 1.
        #[serde(default = "mixes")]
        mixes: u32,
        /// How models travel to neighbours. Default: `f32`.
        #[serde(default)]
        codec: MixCodec,
        /// Time for which members go on training and mixing while the coordinator is away, in milliseconds, 0 to
        /// 604,800,000. Default: 3,600,000.
        #[serde(default = "alone_ms")]
        alone_ms: u64,
    },
}

/// How often the members of a ring add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Every {
    /// Once per round, after their trainings: the coordinator gets the sum of their updates.
    #[default]
    Round,
    /// After so many optimiser steps, and after the last one: members go on with the mean of their models, so that all
    /// of them have the same model. 1 is synchronous data parallelism. 1 to 1,000,000.
    Steps(u32),
}

impl Every {
    fn is_round(&self) -> bool {
        *self == Self::Round
    }
}

impl Topology {
    /// What members exchange while they train; none where they meet afterwards.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            Self::Ring { every: Every::Round } => None,
            Self::Ring { every: Every::Steps(every) } => Some(Exchange { every: *every, gossip: None }),
            &Self::Gossip { graph, steps, mixes, codec, alone_ms } => {
                Some(Exchange { every: steps, gossip: Some(Gossip { graph, mixes, codec, alone_ms }) })
            }
        }
    }
}

fn alone_ms() -> u64 {
    3_600_000
}

fn mixes() -> u32 {
    1
}

fn form_by() -> f64 {
    0.6
}

fn star_from() -> f64 {
    0.8
}

fn attempts() -> u32 {
    2
}

fn frame_ms() -> u64 {
    10_000
}

impl Group {
    pub(super) fn check(&self, job: &JobFile) -> Result<(), JobFileError> {
        require((0.1..=0.9).contains(&self.form_by), "[group] form_by", "0.1 to 0.9")?;
        let is_later = self.star_from > self.form_by && self.star_from <= 0.95;
        require(is_later, "[group] star_from", "above form_by and at most 0.95")?;
        require((1..=ATTEMPTS_MAX).contains(&self.attempts), "[group] attempts", "1 to 8")?;
        require((100..=600_000).contains(&self.frame_ms), "[group] frame_ms", "100 to 600000")?;
        let is_grid = self.grid_bits.is_none_or(|bits| (GRID_BITS_MIN..=GRID_BITS_MAX).contains(&bits));
        require(is_grid, "[group] grid_bits", "6 to 16")?;
        let has_updates = self.grid_bits.is_none() || self.topology.exchange().is_none();
        require(
            has_updates,
            "[group] grid_bits",
            "left out where members exchange while they train: it rounds updates",
        )?;
        require(job.analysis.is_none(), "[group]", "left out: an analysis asks clients themselves")?;
        let is_size = (2..=GROUP_MAX).contains(&job.round.updates_goal);
        require(is_size, "[round] updates_goal", "2 to 256 in a job with [group]")?;
        if let Some(Exchange { every, gossip }) = self.topology.exchange() {
            let is_count = (1..=EXCHANGE_STEPS_MAX).contains(&every);
            require(is_count, "[group] topology steps", "1 to 1000000")?;
            require(self.links == Links::Direct, "[group] links", NO_RELAYED)?;
            let mixes = gossip.map_or(1, |gossip| gossip.mixes);
            require((1..=MIXES_MAX).contains(&mixes), "[group] topology mixes", "1 to 100")?;
            let degree = gossip.map_or(2, |gossip| gossip.graph.degree());
            let is_degree = (2..=DEGREE_MAX).contains(&degree) && degree.is_multiple_of(2);
            require(is_degree, "[group] topology graph degree", "2, 4, 6 or 8")?;
            let alone_ms = gossip.map_or(0, |gossip| gossip.alone_ms);
            require(alone_ms <= ALONE_MS_MAX, "[group] topology alone_ms", "0 to 604800000")?;
            require(job.update.norm_max.is_none(), "[update] norm_max", NO_NORM)?;
        }
        let gossip = self.topology.exchange().and_then(|exchange| exchange.gossip);
        let is_named = gossip.is_some_and(|gossip| gossip.graph == Graph::Edges);
        let are_edges =
            (1..=EDGES_MAX).contains(&self.edges.len()) && self.edges.iter().all(|[one, other]| one != other);
        let names = "1 to 4096 pairs of two clients' numbers with graph = \"edges\", and left out without it";
        require(if is_named { are_edges } else { self.edges.is_empty() }, "[group] edges", names)?;
        let follows = matches!(job.update.norm_max, Some(NormMax::Adaptive(_)));
        require(!follows, "[update] norm_max", "a number in a job with [group], where nobody sees single updates")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let job = |group: &str| {
            JobFile::parse(&format!(
                "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [2] }}]\n\
                 training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
                 group = {{ topology.kind = 'ring', {group} }}\n"
            ))
        };
        for good in
            ["form_by = 0.1", "star_from = 0.95", "attempts = 8", "frame_ms = 100", "grid_bits = 6", "grid_bits = 16"]
        {
            job(good).unwrap();
        }
        for (bad, setting) in [
            ("form_by = 0.05", "form_by"),
            ("star_from = 0.6", "star_from"),
            ("star_from = 0.96", "star_from"),
            ("attempts = 0", "attempts"),
            ("attempts = 9", "attempts"),
            ("frame_ms = 99", "frame_ms"),
            ("grid_bits = 5", "grid_bits"),
            ("grid_bits = 17", "grid_bits"),
        ] {
            let error = job(bad).unwrap_err().to_string();
            assert!(error.contains(setting), "{error}");
        }
    }

    #[test]
    fn edges_are_named_where_the_graph_is_theirs() {
        let job = |graph: &str, more: &str| {
            JobFile::parse(&format!(
                "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [2] }}]\n\
                 training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
                 aggregation.combine = 'uniform_mean'\n\
                 group = {{ topology = {{ kind = 'gossip', steps = 1, graph = '{graph}' }}, {more} }}\n"
            ))
        };
        job("edges", "edges = [[1, 2], [2, 7]]").unwrap();
        job("torus", "").unwrap();
        for (graph, edges) in [("edges", ""), ("edges", "edges = [[3, 3]]"), ("torus", "edges = [[1, 2]]")] {
            let error = job(graph, edges).unwrap_err().to_string();
            assert!(error.contains("[group] edges"), "{error}");
        }
    }
}
