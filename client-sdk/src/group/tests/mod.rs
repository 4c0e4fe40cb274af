//! Members, strangers and floods on the loopback interface.

mod fixtures;
mod floods;
mod members;
mod strangers;
mod wire;
