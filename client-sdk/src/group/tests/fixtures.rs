//! A clock that tests set by hand, and members with keys.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::group::{Admission, Hello, Link, LinkError, Listener, OpenGroup, PeerKey, connect};
use crate::keys::{KeyStore, StoredKey};
use crate::store::MemoryStore;

pub(super) const GROUP: [u8; 16] = [7; 16];
pub(super) const ATTEMPT: u32 = 3;

/// Time stands still until a test moves it.
#[derive(Debug)]
pub(in crate::group) struct HandClock {
    now_ms: watch::Sender<u64>,
    /// How many wait now, and the most that have waited at once.
    asleep: watch::Sender<(usize, usize)>,
}

impl HandClock {
    pub(in crate::group) fn new() -> Arc<Self> {
        Arc::new(Self { now_ms: watch::Sender::new(0), asleep: watch::Sender::new((0, 0)) })
    }

    pub(in crate::group) fn advance(&self, ms: u64) {
        self.now_ms.send_modify(|now_ms| *now_ms += ms);
    }

    /// Waits until so many wait.
    pub(super) async fn asleep(&self, count: usize) {
        self.asleep.subscribe().wait_for(|(now, _)| *now == count).await.unwrap();
    }

    pub(super) fn asleep_max(&self) -> usize {
        self.asleep.borrow().1
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        *self.now_ms.borrow()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let end_ms = self.now_ms() + u64::try_from(time.as_millis()).unwrap();
        let mut now_ms = self.now_ms.subscribe();
        self.asleep.send_modify(|(now, most)| (*now, *most) = (*now + 1, (*now + 1).max(*most)));
        let sleeper = Sleeper(&self.asleep);
        Box::pin(async move {
            let _sleeper = sleeper;
            now_ms.wait_for(|now_ms| *now_ms >= end_ms).await.unwrap();
        })
    }
}

struct Sleeper<'a>(&'a watch::Sender<(usize, usize)>);

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|(now, _)| *now -= 1);
    }
}

/// A device with its key.
pub(super) struct Member {
    pub(super) keys: Arc<dyn KeyStore>,
    pub(super) key: PeerKey,
}

impl Member {
    pub(super) fn new() -> Self {
        let keys = StoredKey::new(Arc::new(MemoryStore::new()));
        let key = PeerKey::own(&keys).unwrap();
        Self { keys: Arc::new(keys), key }
    }

    /// Says hello to a listener with this key. The time stands still.
    pub(super) async fn connect(&self, host: &Host, hello: Hello) -> Result<Link, LinkError> {
        self.connect_to(&host.address(), host.member.key, hello).await
    }

    pub(super) async fn connect_to(&self, address: &str, peer: PeerKey, hello: Hello) -> Result<Link, LinkError> {
        connect(address, &self.keys, peer, hello, &*HandClock::new(), 1_000).await
    }
}

/// A member that listens. Its clock is for its handshakes alone.
pub(super) struct Host {
    pub(super) member: Member,
    pub(super) listener: Listener,
    pub(super) clock: Arc<HandClock>,
}

impl Host {
    pub(super) async fn new() -> Self {
        let (member, clock) = (Member::new(), HandClock::new());
        let listener = Listener::bind("127.0.0.1:0", Arc::clone(&member.keys), Arc::clone(&clock) as Arc<_>);
        Self { listener: listener.await.unwrap(), member, clock }
    }

    pub(super) fn address(&self) -> String {
        self.listener.local_address().to_string()
    }

    /// Opens the group, in which it has rank 0 and the others ranks from 1 on.
    pub(super) fn admit(&self, others: &[&Member]) -> Admission {
        let peers = (1..).zip(others).map(|(rank, other)| (rank, other.key)).collect();
        self.listener.admit(OpenGroup { group: GROUP, attempt: ATTEMPT, rank: 0, peers })
    }

    pub(super) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.listener.local_address()).await.unwrap()
    }
}

/// What the member with this rank says to the one with rank 0.
pub(super) fn hello(from: u16) -> Hello {
    Hello { group: GROUP, attempt: ATTEMPT, from, to: 0 }
}

/// Sends bytes both ways.
pub(super) async fn exchange(one: &mut Link, other: &mut Link) {
    // More than one record of TLS.
    let sent = [vec![1; 100_000], vec![2; 100_000]];
    let mut received = [vec![0; 100_000], vec![0; 100_000]];
    let (mut one_in, mut one_out) = tokio::io::split(one);
    let (mut other_in, mut other_out) = tokio::io::split(other);
    let there = async { (one_out.write_all(&sent[0]).await.unwrap(), one_out.flush().await.unwrap()) };
    let back = async { (other_out.write_all(&sent[1]).await.unwrap(), other_out.flush().await.unwrap()) };
    let [at_other, at_one] = &mut received;
    tokio::join!(there, back, async { other_in.read_exact(at_other).await.unwrap() }, async {
        one_in.read_exact(at_one).await.unwrap()
    });
    assert_eq!(received, sent);
}

/// Waits until the other side has closed the connection.
pub(super) async fn closed(stream: &mut (impl AsyncRead + Unpin)) {
    let mut bytes = [0; 1024];
    while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

pub(super) fn is_refused<T>(result: Result<T, LinkError>) -> bool {
    matches!(result, Err(LinkError::Refused(_)))
}
