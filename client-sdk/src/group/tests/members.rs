//! Members that connect, come again, and leave.

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fixtures::{ATTEMPT, GROUP, HandClock, Host, Member, closed, exchange, hello, is_refused};
use crate::group::admitted::CONNECTIONS_MAX;
use crate::group::{Hello, LinkError, OpenGroup, connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_members_connect_both_ways_and_exchange_bytes() {
    let (one, other) = (Host::new().await, Host::new().await);
    let open = |rank, peer: &Host| {
        let peers = vec![(1 - rank, peer.member.key)];
        OpenGroup { group: GROUP, attempt: ATTEMPT, rank, peers }
    };
    let (at_one, at_other) = (one.listener.admit(open(0, &other)), other.listener.admit(open(1, &one)));
    let (to_one, to_other) = (hello(1), hello(1).answer());
    let (opened, accepted) = tokio::join!(other.member.connect(&one, to_one), at_one.accept(1));
    let (mut opened, mut accepted) = (opened.unwrap(), accepted.unwrap());
    assert_eq!((opened.rank(), accepted.rank()), (0, 1));
    exchange(&mut opened, &mut accepted).await;
    let (opened, accepted) = tokio::join!(one.member.connect(&other, to_other), at_other.accept(0));
    exchange(&mut opened.unwrap(), &mut accepted.unwrap()).await;
}

#[tokio::test]
async fn a_link_that_nobody_has_taken_waits_and_a_newer_one_replaces_it() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let mut first = member.connect(&host, hello(1)).await.unwrap();
    let mut second = member.connect(&host, hello(1)).await.unwrap();
    closed(&mut first).await;
    exchange(&mut second, &mut admission.accept(1).await.unwrap()).await;
    assert!(admission.accept(1).now_or_never().is_none(), "there is no other one");
}

#[tokio::test]
async fn each_rank_gets_its_own_link() {
    let (host, members) = (Host::new().await, [Member::new(), Member::new()]);
    let admission = host.admit(&[&members[0], &members[1]]);
    for from in [2, 1] {
        let mut link = members[usize::from(from) - 1].connect(&host, hello(from)).await.unwrap();
        link.write_all(&[from as u8]).await.unwrap();
        link.shutdown().await.unwrap();
    }
    for rank in [1, 2] {
        let mut bytes = Vec::new();
        admission.accept(rank).await.unwrap().read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, [rank as u8]);
    }
}

#[tokio::test]
async fn an_admission_that_ends_refuses_later_members_and_keeps_what_was_taken() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let mut taken = member.connect(&host, hello(1)).await.unwrap();
    let mut accepted = admission.accept(1).await.unwrap();
    let mut waiting = member.connect(&host, hello(1)).await.unwrap();
    drop(admission);
    closed(&mut waiting).await;
    assert!(is_refused(member.connect(&host, hello(1)).await));
    exchange(&mut taken, &mut accepted).await;
    // Another group is open: the handshake refuses the key.
    let other = Member::new();
    let _admission = host.admit(&[&other]);
    assert!(is_refused(member.connect(&host, hello(1)).await));
    assert!(other.connect(&host, hello(1)).await.is_ok());
}

#[tokio::test]
async fn a_group_has_a_limited_number_of_connections() {
    let (host, member, other) = (Host::new().await, Member::new(), Member::new());
    let admission = host.admit(&[&member, &other]);
    let mut links = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        links.push(member.connect(&host, hello(1)).await.unwrap());
        links.push(admission.accept(1).await.unwrap());
    }
    assert!(is_refused(member.connect(&host, hello(1)).await));
    // The last one that was accepted ends.
    drop(links.pop());
    let mut waiting = member.connect(&host, hello(1)).await.unwrap();
    assert!(is_refused(other.connect(&host, hello(2)).await));
    // The place of a link that nobody has taken is its successor's.
    let _newer = member.connect(&host, hello(1)).await.unwrap();
    closed(&mut waiting).await;
}

#[tokio::test]
async fn two_attempts_of_a_group_are_open_beside_each_other() {
    let (host, member) = (Host::new().await, Member::new());
    let old = host.admit(&[&member]);
    let new = OpenGroup { group: GROUP, attempt: ATTEMPT + 1, rank: 4, peers: vec![(5, member.key)] };
    let new = host.listener.admit(new);
    let second = Hello { group: GROUP, attempt: ATTEMPT + 1, from: 5, to: 4 };
    for (hello, admission) in [(hello(1), &old), (second, &new)] {
        let mut link = member.connect(&host, hello).await.unwrap();
        exchange(&mut link, &mut admission.accept(hello.from).await.unwrap()).await;
    }
}

#[tokio::test]
async fn a_listener_that_ends_says_so_to_those_who_wait() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let address = host.address();
    let (ended, ()) = tokio::join!(admission.accept(1), async { drop(host.listener) });
    assert_eq!(ended.unwrap_err(), LinkError::Ended);
    assert_eq!(admission.accept(1).await.unwrap_err(), LinkError::Ended);
    let refused = member.connect_to(&address, host.member.key, hello(1)).await;
    assert!(matches!(refused, Err(LinkError::Unreachable(_) | LinkError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_member_that_does_not_answer_is_given_up_after_the_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (member, clock) = (Member::new(), HandClock::new());
    let address = silent.local_addr().unwrap().to_string();
    let connecting = connect(&address, &member.keys, member.key, hello(1), &*clock, 5_000);
    let (result, _stream) = tokio::join!(connecting, async {
        let accepted = silent.accept().await.unwrap();
        clock.asleep(1).await;
        clock.advance(5_000);
        accepted
    });
    assert_eq!(result.unwrap_err(), LinkError::TimedOut { limit_ms: 5_000 });
}

#[tokio::test]
async fn an_address_without_a_host_or_a_listener_is_named() {
    let member = Member::new();
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    for address in ["no address", &unused] {
        let result = member.connect_to(address, member.key, hello(1)).await;
        assert!(matches!(result, Err(LinkError::Unreachable(_))), "{address}: {result:?}");
    }
}
