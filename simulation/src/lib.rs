//! Federated jobs in virtual time: what a coordinator would decide, and what its clients would train, in one process.
//!
//! [`Simulation`] asks the engine what its job does next, as a coordinator's driver does, and performs the answer in
//! memory. Updates come from the SDK's trainer, sums and versions from the engine. Only the fleet is made up: how long
//! each client takes, and which work it never finishes.
//!
//! | file | content |
//! |---|---|
//! | `fleet` | clients that are made up, and their times |
//! | `learner` | what clients train, and how good a model is |
//! | `updates` | the updates of an open round, and their combination |
//! | `version` | the newest version with its companions |
//! | `travel` | an update on its way: the job's codec, and bytes |
//! | `past` | what the opening of a round reads of those before |
//! | `job` | the job: open rounds, work and members |
//! | `private` | noise of a private job, and what its clients may still contribute |
//! | `play` | the clock: one event after the other |
//! | `rounds` | rounds without fleet and clock: the caller says which updates count |

mod error;
mod fleet;
mod job;
mod learner;
mod past;
mod play;
mod private;
mod rounds;
mod travel;
mod updates;
mod version;

pub use error::SimulationError;
pub use fleet::Fleet;
pub use learner::{Learner, Trained};
pub use play::{Progress, Simulation};
pub use rounds::Rounds;
pub use updates::Update;
