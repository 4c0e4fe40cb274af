//! Known worlds (a slow class, a dead coordinator, no evaluator), and what operators read about them.

mod classes;
mod evaluations;
mod health;
mod nodes;
mod notices;
mod stragglers;
