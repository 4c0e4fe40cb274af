//! Groups that add up among themselves: the coordinator says who is next to whom, and takes one sum.
//!
//! | part | what it does |
//! |---|---|
//! | [`calls`] | what members say and ask |
//! | [`step`] | the driver's part: attempts form, agree and end |
//! | [`addresses`] | where members may be reached |
//!
//! What is stored changes in [`crate::lifecycle::rings`] alone.

mod addresses;
pub(crate) mod calls;
pub(crate) mod step;
