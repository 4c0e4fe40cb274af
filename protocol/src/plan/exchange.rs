//! What the members of a group exchange while they train.

use serde::{Deserialize, Serialize};

use crate::graph::Graph;

/// The exchanges within a training. All members make the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Exchange {
    /// Optimiser steps after which members exchange. They do it after the last step, too.
    pub every: u32,
    /// How each member mixes its model with those of its neighbours. Absent where each goes on with the mean of all
    /// members' models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gossip: Option<Gossip>,
}

/// Mixes of members with their neighbours in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gossip {
    /// Who mixes with whom.
    pub graph: Graph,
    /// Mixes of an exchange.
    pub mixes: u32,
    /// How models travel.
    pub codec: MixCodec,
    /// Time for which members go on training and mixing while the coordinator is away, in milliseconds.
    pub alone_ms: u64,
}

/// How the values of a model travel to a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MixCodec {
    /// Four bytes each.
    #[default]
    F32,
    /// One byte each, and a scale for 64 of them. What rounding loses stays with the sender, so sums are kept.
    Int8,
}
