//! Members, strangers and floods on the loopback interface.

pub(super) mod fixtures;
mod floods;
mod members;
mod strangers;
mod wire;
