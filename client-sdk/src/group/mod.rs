//! Links between the members of a group, over which they send to each other without the coordinator.
//!
//! The coordinator forms the group and vouches for its members: a roster has the key and the address of each. A link is
//! a connection over TLS 1.3 in which both sides prove that they hold their keys. No certificates are exchanged.
//!
//! | part | what it is |
//! |---|---|
//! | [`PeerKey`] | how a roster names the key of a member |
//! | [`Listener`] | accepts connections of members while an [`Admission`] of their group lives |
//! | `metered` | a link with a measure of how fast it takes what is sent |
//! | `listening` | the one listener of a client, made when its first group needs it |
//! | [`connect`] | opens a connection to a member |
//! | [`Link`], [`LinkError`] | a connection to the right member, or why there is none |
//! | [`Hello`], [`HelloError`] | the first frame of each side: which group, which attempt, from whom and to whom |
//! | `admitted` | the groups that are open now, and the links of theirs that nobody has taken yet |
//! | `handshakes` | the connections whose other end is not known yet |
//! | `tls` | TLS with keys instead of certificates |
//!
//! Of two members that both listen, either may connect. What is sent after the first frames is not looked at here.

mod admitted;
mod connect;
mod handshakes;
mod hello;
mod link;
mod listen;
mod listening;
mod metered;
mod peer;
#[cfg(test)]
mod tests;
mod tls;

pub use admitted::{Admission, OpenGroup};
pub use connect::connect;
pub(crate) use connect::connect_over;
pub use hello::{Hello, HelloError};
pub use link::{Link, LinkError};
pub use listen::Listener;
pub(crate) use listening::Listening;
pub(crate) use metered::{Meter, Metered};
pub use peer::PeerKey;
