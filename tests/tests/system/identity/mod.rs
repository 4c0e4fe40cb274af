//! Who clients are: certificates and secrets, and how both are replaced, over a real TLS listener.

mod attestation;
mod certificates;
mod groups;
mod leaving;
mod refused;
mod secrets;
mod world;
