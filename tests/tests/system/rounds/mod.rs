//! Rounds from selection to the next model version. The clock stands still unless a test moves it, and nothing happens
//! unless a test calls the driver.

mod abilities;
mod adapt;
mod analysis;
mod attack;
mod batched_reports;
pub(crate) mod buffered;
mod central;
mod clocked;
mod cluster;
mod drivers;
mod evaluation;
mod goal_and_deadline;
mod gossip;
mod gossip_away;
pub(crate) mod lockstep;
mod masked;
mod masked_buffered;
mod masked_gate;
mod noised;
mod private;
mod private_answers;
mod private_buffered;
mod private_seeds;
mod restart;
mod result;
pub(crate) mod ring;
pub(crate) mod ring_links;
mod ring_of_digits;
mod ring_order;
mod rules;
mod scalars;
mod selection;
mod shared_budget;
mod shutdown;
mod signed;
mod storage_faults;
