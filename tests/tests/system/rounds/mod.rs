//! Rounds from selection to the next model version. The clock stands still unless a test moves it, and nothing happens
//! unless a test calls the driver.

mod adapt;
mod attack;
pub(crate) mod buffered;
mod central;
mod choice;
mod clocked;
mod closing;
mod cluster;
mod drivers;
mod evaluation;
mod metrics;
mod restart;
mod result;
mod rules;
mod shutdown;
mod surroundings;
mod together;
