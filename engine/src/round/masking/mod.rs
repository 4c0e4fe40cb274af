//! Rules of secure aggregation as functions of facts: groups whose members mask one sum together.
//!
//! | question | function |
//! |---|---|
//! | how many neighbours and shares does a group of this size need? | [`GroupParameters::of`] |
//! | what does a group cost? | [`GroupCost::of`] |
//! | does a group form from those that have joined? | [`next_group`], [`next_group_apart`] |
//! | is a client grouped apart? | [`Past::is_apart`] |
//! | what is next for an open group? | [`next_group_step`] |
//! | how long may its stages take? | [`StageTimes`], [`forms_until_ms`] |
//! | can this be the sum of honest members? | [`masked_norm_max`], [`sum_norm_max`] |
//! | what counts, what is lost, does the round wait? | [`Tally`], [`OpenGroups`] |
//!
//! A group is a state within the training of a round, and no phase of its own. Its members have trained, joined, and
//! wait to be summed. A sum of members is a part of its round's sum; the round counts members of summed groups alone.

mod apart;
mod cost;
mod effects;
mod facts;
mod forming;
mod job;
mod norm;
mod parameters;
mod policy;
#[cfg(test)]
mod simulated;
mod step;
mod tails;
mod times;

pub use apart::{FAILED_APART, PAST_ROUNDS, Past, next_group_apart};
pub use cost::{GroupCost, MaskedUpdate};
pub use effects::{OpenGroups, Tally};
pub use facts::{GroupFacts, RoundOver, SecretFacts};
pub use forming::{Forming, Joined, next_group};
pub use norm::{masked_norm_max, sum_norm_max};
pub use parameters::{DEGREE_MAX, EVERYBODY_BELOW, GroupParameters, MEMBERS_MIN, ParametersError};
pub use policy::MaskingPolicy;
pub use step::{GroupStep, next_group_step};
pub use times::{GROUP_WAIT_MS, MASKING_MS_MAX, STAGE_MS, StageTimes, forms_until_ms};
