//! Keys, groups and ranks that do not fit.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::fixtures::{ATTEMPT, GROUP, Host, Member, closed, hello, is_refused};
use crate::group::{Hello, LinkError, Listener, OpenGroup, PeerKey};
use crate::keys::{KeyError, KeyStore};

/// Presents the public key of one device and signs with the key of another one.
#[derive(Debug)]
struct Impostor {
    shown: Arc<dyn KeyStore>,
    own: Arc<dyn KeyStore>,
}

impl KeyStore for Impostor {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        self.shown.public_key()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.own.sign(message)
    }
}

fn impostor(of: &Member) -> Member {
    let keys = Impostor { shown: Arc::clone(&of.keys), own: Member::new().keys };
    Member { key: PeerKey::own(&keys).unwrap(), keys: Arc::new(keys) }
}

#[tokio::test]
async fn a_key_that_is_in_no_open_roster_is_refused() {
    let (host, member, stranger) = (Host::new().await, Member::new(), Member::new());
    let admission = host.admit(&[&member]);
    for hello in [hello(1), hello(2)] {
        assert!(is_refused(stranger.connect(&host, hello).await));
    }
    assert!(admission.accept(1).now_or_never().is_none());
}

#[tokio::test]
async fn the_key_of_a_member_is_no_use_without_its_private_key() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let impostor = impostor(&member);
    assert_eq!(impostor.key, member.key);
    assert!(is_refused(impostor.connect(&host, hello(1)).await));
    assert!(admission.accept(1).now_or_never().is_none());
}

#[tokio::test]
async fn a_listener_with_another_key_is_left_before_the_hello() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let other = member.connect_to(&host.address(), Member::new().key, hello(1)).await;
    assert_eq!(other.unwrap_err(), LinkError::WrongKey);
    assert!(admission.accept(1).now_or_never().is_none());

    let listener = impostor(&member);
    let (keys, clock) = (Arc::clone(&listener.keys), Arc::clone(&host.clock));
    let listener = Listener::bind("127.0.0.1:0", keys, clock).await.unwrap();
    let peers = vec![(1, host.member.key)];
    let _admission = listener.admit(OpenGroup { group: GROUP, attempt: ATTEMPT, rank: 0, peers });
    let forged = host.member.connect_to(&listener.local_address().to_string(), member.key, hello(1)).await;
    assert!(matches!(forged, Err(LinkError::Handshake(_))), "{forged:?}");
}

#[tokio::test]
async fn a_hello_for_another_group_attempt_or_rank_is_refused() {
    let (host, member, other) = (Host::new().await, Member::new(), Member::new());
    let admission = host.admit(&[&member, &other]);
    for (what, hello) in [
        ("another group", Hello { group: [8; 16], ..hello(1) }),
        ("an old attempt", Hello { attempt: ATTEMPT - 1, ..hello(1) }),
        ("a later attempt", Hello { attempt: ATTEMPT + 1, ..hello(1) }),
        ("the rank of another member", hello(2)),
        ("a rank that nobody has", hello(3)),
        ("the listener's rank", hello(0)),
        ("another receiver", Hello { to: 2, ..hello(1) }),
    ] {
        assert!(is_refused(member.connect(&host, hello).await), "{what}");
        assert!((1..=2).all(|rank| admission.accept(rank).now_or_never().is_none()), "{what}");
    }
    assert!(member.connect(&host, hello(1)).await.is_ok());
}

#[tokio::test]
async fn without_an_open_group_a_connection_is_closed_unread() {
    let (host, member) = (Host::new().await, Member::new());
    assert!(is_refused(member.connect(&host, hello(1)).await));
    let mut silent = host.tcp().await;
    closed(&mut silent).await;
    let mut talking = host.tcp().await;
    // It may be closed already.
    let _ = talking.write_all(&[22; 1024]).await;
    closed(&mut talking).await;
    assert_eq!(host.clock.asleep_max(), 0, "no handshake has begun");
}

/// Passes one connection on to the host. Returns what its client sent.
async fn recorded(sockets: TcpListener, mut to: TcpStream) -> Vec<u8> {
    let (mut from, _) = sockets.accept().await.unwrap();
    let (mut bytes, mut piece, mut back) = (Vec::new(), [0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = from.read(&mut piece) => match read {
                Ok(count @ 1..) => {
                    bytes.extend_from_slice(&piece[..count]);
                    to.write_all(&piece[..count]).await.unwrap();
                }
                _ => return bytes,
            },
            read = to.read(&mut back) => match read {
                Ok(count @ 1..) => from.write_all(&back[..count]).await.unwrap(),
                _ => return bytes,
            },
        }
    }
}

#[tokio::test]
async fn what_a_member_sent_before_is_of_no_use_to_others() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let sockets = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = sockets.local_addr().unwrap().to_string();
    let recording = tokio::spawn(recorded(sockets, host.tcp().await));
    let link = member.connect_to(&address, host.member.key, hello(1)).await.unwrap();
    drop((link, admission.accept(1).await.unwrap()));
    let recorded = recording.await.unwrap();
    assert!(recorded.len() > 500, "the handshake and the hello");
    for _ in 0..3 {
        let mut again = host.tcp().await;
        // It may be closed before all is sent.
        let _ = again.write_all(&recorded).await;
        closed(&mut again).await;
        assert!(admission.accept(1).now_or_never().is_none());
    }
    assert!(member.connect(&host, hello(1)).await.is_ok());
}
