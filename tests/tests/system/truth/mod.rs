//! Known worlds, and whether the results, the health and the figures that operators read of them are true.

mod evaluators;
mod failover;
mod matching;
mod presence;
mod redundancy;
mod unmeasured;
