//! Several coordinators on one PostgreSQL, each on a runtime of its own, so that one can die without a word.

mod balancer;
mod failover;
mod node;
mod relayed;
mod sharded;
