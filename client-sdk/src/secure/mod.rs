//! Secure aggregation on the device: a member of a group, as a value without I/O.
//!
//! [`Member::join`] makes the keys of one group. Each answer of the coordinator then goes into one method, which checks
//! it and gives the next request:
//!
//! | answer | method | next request |
//! |---|---|---|
//! | to `PUT group` | [`Member::formed`] | `PUT group/shares` |
//! | to `PUT group/shares` | [`Member::inbox`], then [`Member::masked`] | `PUT update` |
//! | to `GET group/survivors` | [`Member::survivors`] | `PUT group/agreement`, or `PUT group/unmask` |
//! | to `PUT group/agreement` | [`Member::agreement`] | `PUT group/unmask` |
//!
//! A member changes before it answers. **[`Member::to_json`] has to be durable before the request leaves the device**:
//! then a process that is killed repeats what it sent, byte for byte, and never sends anything else. A refusal is
//! stored too, and erases all secrets.

#[cfg(feature = "native")]
mod certified;
mod entropy;
mod forming;
mod masking;
mod member;
mod opening;
mod peers;
mod refusal;
mod stored;
mod terms;
#[cfg(test)]
mod tests;

#[cfg(feature = "native")]
pub use certified::CertifiedPeers;
pub use entropy::{Entropy, EntropyError, system_entropy};
pub use forming::Taken;
pub use member::Member;
pub use opening::Next;
pub(crate) use peers::Signing;
pub use peers::{Peers, Signers};
pub use refusal::{MemberError, Refusal};
pub use terms::Terms;
pub use tributary_protocol::plan::GroupTrust;
