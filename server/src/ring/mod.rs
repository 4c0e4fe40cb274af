//! Groups that add up among themselves: the coordinator says who is next to whom, and takes one sum.
//!
//! | part | what it does |
//! |---|---|
//! | [`calls`] | what members say and ask |
//! | [`step`] | the driver's part: attempts form, agree and end |
//! | [`forming`] | who is next to whom, and which links go through the coordinator |
//! | [`links`] | links through the coordinator: two members meet, and their bytes are passed on |
//! | [`addresses`] | where members may be reached |
//!
//! What is stored changes in [`crate::lifecycle::rings`] alone.

mod addresses;
pub(crate) mod calls;
mod forming;
pub(crate) mod links;
pub(crate) mod step;
