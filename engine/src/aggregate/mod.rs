//! Aggregation: updates to one combined value per parameter, and these to the next model version.
//!
//! Where a rule is a mean, each update is added to an [`Accumulator`] when it arrives. Addition of integers has no
//! order, so the result is bit-identical for every order of arrival and every number of threads or coordinators. Other
//! rules ([`Gathering`]) combine the stored updates when the round closes, with the same guarantee. An [`Optimizer`]
//! turns the combined updates ([`Combined`]) into the step of the model.
//!
//! | item | what it is |
//! |---|---|
//! | [`SumCaps`] | limits of a round's sum; they determine its binary point |
//! | [`Share`], [`Discount`] | what an update counts for, and what its staleness takes from that |
//! | [`Accumulator`] | the running sum of updates and of others' sums: add, subtract, count, mean, integers |
//! | [`Gathering`], [`Recipe`] | what a rule needs of the updates, and what it makes of them |
//! | [`Mixture`] | the sum of updates with real coefficients |
//! | [`Distances`], [`Middle`] | distances of pairs, and middles of coordinates, stripe by stripe |
//! | [`PrivateSum`], [`Grid`], [`NoiseMaker`] | the sum of clipped integers with noise, for jobs with `[privacy]` |
//! | [`Optimizer`], [`step`], [`advance`] | from the combined updates to the next model |
//! | [`Maker`] | the same for a whole version with its companions, block by block |
//! | [`ControlStep`], [`Dynamic`], [`Elastic`] | the server's half of SCAFFOLD, FedDyn and elastic averaging |
//! | [`Norm`], [`diversity`], [`effective_number`], [`cosine`], [`MeanDot`] | update statistics |
//! | [`Sketch`], [`dots_with_mean`] | dot products of updates without reading them again |

mod accumulator;
mod combine;
mod gathering;
mod kernel;
mod make;
mod mixture;
mod noise;
mod optimizer;
mod private;
mod robust;
mod share;
mod sketch;
mod statistics;
mod stripes;

pub use accumulator::{Accumulator, FoldError};
pub use combine::{Combined, SharedCombined};
pub use gathering::{Facts, Gathering, Keep, Pairs, Recipe, Reports, Weighing, gathering_of, mean_loss};
pub use make::{BLOCK_VALUES, Made, MadeNorms, Maker};
pub use mixture::Mixture;
pub use noise::{NoiseMaker, NoisePiece};
pub use optimizer::{
    AggregateError, ControlStep, Dynamic, Elastic, Optimizer, Sgd, Survey, advance, means, optimizer_of, rounded,
    share, step,
};
pub use private::{ClippedInto, Grid, PrivateSum, Scaling, SquaresOf};
pub use robust::{Distances, Middle};
pub use share::{Discount, Share};
pub use sketch::{SKETCHES_MAX, Sketch, Sketched, dots_with_mean};
pub use statistics::{Leading, MeanDot, Norm, NormOf, cosine, diversity, effective_number};
pub use tributary_protocol::fixed::{CapsError, SumCaps};
