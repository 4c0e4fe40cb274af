//! How members reach each other: with TLS as in the SDK or without, over a line of some bandwidth or without.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::try_join;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tributary::error::CliError;
use tributary_client::clock::{Clock, SystemClock};
use tributary_client::group::{Admission, Hello, Listener, OpenGroup, PeerKey, connect};
use tributary_client::{KeyStore, MemoryStore, StoredKey};
use tributary_collective::RingPlace;
use tributary_protocol::group::messages::RingMember;
use tributary_protocol::hash::Sha256Hash;

use crate::error::BenchError;
use crate::line::{Line, Shape};

/// The id of the group, and its only attempt.
pub(super) const GROUP: [u8; 16] = [1; 16];
pub(super) const ATTEMPT: u32 = 1;
/// Longest silence of a neighbour: that of a job that sets none.
pub(super) const FRAME_MS: u64 = 10_000;
/// Where members listen: each at a free port.
const ADDRESS: &str = "127.0.0.1:0";

/// A connection to a neighbour.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) type Link = Box<dyn Stream>;

/// The members of a group, all of which listen.
pub(super) struct Members {
    pub(super) doors: Vec<Door>,
    roster: Arc<Vec<RingMember>>,
}

/// Where a member accepts its left neighbour, and what it opens links with.
pub(super) struct Door {
    listens: Listens,
    /// The line to this member, where links have a bandwidth. It ends when it is dropped.
    _line: Option<Line>,
}

enum Listens {
    Tls { keys: Arc<dyn KeyStore>, admission: Admission, _listener: Listener },
    Plain(TcpListener),
}

impl Members {
    pub(super) async fn new(members: u16, plain: bool, shape: Option<Shape>) -> Result<Self, CliError> {
        let mut bound = Vec::new();
        for rank in 0..members {
            bound.push(Bound::new(rank, plain).await?);
        }
        let keys: Vec<_> = (0..members).zip(bound.iter().map(|bound| bound.key)).collect();
        let (mut doors, mut roster) = (Vec::new(), Vec::new());
        for (rank, Bound { key, address, socket }) in (0..).zip(bound) {
            let line = match shape {
                Some(shape) => Some(Line::to(address, shape).await?),
                None => None,
            };
            let address = line.as_ref().map_or(address, |line| line.address);
            roster.push(RingMember { key: key.0, addresses: vec![address.to_string()] });
            let listens = match socket {
                Socket::Plain(listener) => Listens::Plain(listener),
                Socket::Tls(keys_of, listener) => {
                    let open = OpenGroup { group: GROUP, attempt: ATTEMPT, rank, peers: keys.clone() };
                    Listens::Tls { keys: keys_of, admission: listener.admit(open), _listener: listener }
                }
            };
            doors.push(Door { listens, _line: line });
        }
        Ok(Self { doors, roster: Arc::new(roster) })
    }

    /// The members as the coordinator would name them.
    pub(super) fn roster(&self) -> Arc<Vec<RingMember>> {
        Arc::clone(&self.roster)
    }
}

impl Door {
    /// The links of a member: that of its left neighbour, and the one to its right neighbour.
    pub(super) async fn links(&self, roster: &[RingMember], place: &RingPlace) -> Result<(Link, Link), BenchError> {
        let (left, right) = (place.left(), place.right());
        let RingMember { key, addresses } = &roster[usize::from(right)];
        match &self.listens {
            Listens::Tls { keys, admission, .. } => {
                let hello = Hello { group: GROUP, attempt: ATTEMPT, from: place.rank, to: right };
                let clock = SystemClock::default();
                let opened = connect(&addresses[0], keys, PeerKey(*key), hello, &clock, FRAME_MS);
                let links = try_join(admission.accept(left), opened).await;
                links.map(|(left, right)| (boxed(left), boxed(right))).map_err(failed)
            }
            Listens::Plain(listener) => {
                let accepted = async { listener.accept().await.map(|(stream, _)| stream) };
                let (left, right) = try_join(accepted, TcpStream::connect(&addresses[0])).await.map_err(failed)?;
                left.set_nodelay(true).and_then(|()| right.set_nodelay(true)).map_err(failed)?;
                Ok((boxed(left), boxed(right)))
            }
        }
    }
}

/// A member that listens, before it knows the others.
struct Bound {
    key: PeerKey,
    address: SocketAddr,
    socket: Socket,
}

enum Socket {
    Tls(Arc<dyn KeyStore>, Listener),
    Plain(TcpListener),
}

impl Bound {
    async fn new(rank: u16, plain: bool) -> Result<Self, CliError> {
        if plain {
            let listener = TcpListener::bind(ADDRESS).await.map_err(failed)?;
            // Nobody has this key; a roster names one for each member.
            let key = PeerKey(Sha256Hash::of(&rank.to_le_bytes()));
            return Ok(Self { key, address: listener.local_addr().map_err(failed)?, socket: Socket::Plain(listener) });
        }
        let keys: Arc<dyn KeyStore> = Arc::new(StoredKey::new(Arc::new(MemoryStore::new())));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let listener = Listener::bind(ADDRESS, Arc::clone(&keys), clock).await.map_err(failed)?;
        let key = PeerKey::own(keys.as_ref()).map_err(failed)?;
        Ok(Self { key, address: listener.local_address(), socket: Socket::Tls(keys, listener) })
    }
}

fn boxed(stream: impl Stream + 'static) -> Link {
    Box::new(stream)
}

fn failed(error: impl std::error::Error) -> BenchError {
    BenchError::Ring(error.to_string())
}
