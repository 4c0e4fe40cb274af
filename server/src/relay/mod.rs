//! A relay: a coordinator whose rounds are parts of its parent's rounds.
//!
//! To its clients a relay is a coordinator, and to its parent one client with places for several. An order of the
//! parent opens a round here, which ends with the exact sum of its reports instead of a model. The parent adds that
//! sum, so its model has the bits that it would have if all clients were its own.
//!
//! | part | what it does |
//! |---|---|
//! | [`Upstream`] | the way to the parent, which the program brings |
//! | `run` | offers places, follows the open order |
//! | `order` | from an assignment of the parent to an open round |
//! | `deliver`, `combination` | from a closed round to the parent, as a sum or, in a coded tree, a combination |

mod combination;
pub(crate) mod deliver;
mod order;
pub(crate) mod run;
mod upstream;

pub use upstream::{Offered, Upstream, UpstreamError};
