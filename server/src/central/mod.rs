//! Evaluations on the coordinator: new versions of a job, measured on the test set that an operator uploaded.
//!
//! Such an evaluation is a round without clients. It selects until there is a test set, and is then Aggregating until
//! [`Evaluations`] has measured the model, on a thread of low priority. The round is all that is stored of it: after a
//! restart the driver finds it open and begins it again.

mod run;
mod test_set;
mod upload;

pub(crate) use run::Due;
pub use run::Evaluations;
pub use test_set::{TEST_SET_BYTES_MAX, TestSetError};
pub(crate) use upload::{NewTestSet, UploadError, UploadedTestSet};
