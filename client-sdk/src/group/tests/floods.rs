//! Connections that say nothing, or nonsense.

use std::collections::VecDeque;

use tokio::io::AsyncWriteExt;
use tributary_protocol::seed::Seed;

use super::fixtures::{Host, Member, closed, exchange, hello};
use crate::group::handshakes::HANDSHAKES_MAX;
use crate::group::listen::HANDSHAKE_MS_MAX;

/// Bytes that follow from the seed.
pub(super) fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut stream = Seed(seed).stream();
    (0..count).map(|_| stream.below(256) as u8).collect()
}

#[tokio::test]
async fn silent_connections_keep_no_member_out() {
    const SILENT: usize = 1_000;
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let mut silent = VecDeque::new();
    for _ in 0..SILENT {
        silent.push_back(host.tcp().await);
        // The oldest ones make way.
        if silent.len() > HANDSHAKES_MAX {
            closed(&mut silent.pop_front().unwrap()).await;
        }
    }
    let mut link = member.connect(&host, hello(1)).await.unwrap();
    exchange(&mut link, &mut admission.accept(1).await.unwrap()).await;
    // The last of them for the member.
    closed(&mut silent.pop_front().unwrap()).await;
    assert_eq!(host.clock.asleep_max(), HANDSHAKES_MAX, "so many handshakes take memory");
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_the_limit() {
    let (host, member) = (Host::new().await, Member::new());
    let _admission = host.admit(&[&member]);
    let mut silent = host.tcp().await;
    host.clock.asleep(1).await;
    host.clock.advance(HANDSHAKE_MS_MAX - 1);
    let mut later = host.tcp().await;
    host.clock.asleep(2).await;
    host.clock.advance(1);
    closed(&mut silent).await;
    host.clock.asleep(1).await;
    host.clock.advance(HANDSHAKE_MS_MAX - 1);
    closed(&mut later).await;
    host.clock.asleep(0).await;
}

#[tokio::test]
async fn random_bytes_instead_of_a_handshake_are_refused() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    for seed in 0..50 {
        let (mut stream, bytes) = (host.tcp().await, random_bytes(seed, 4096));
        // It may be closed before all is sent.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        closed(&mut stream).await;
    }
    host.clock.asleep(0).await;
    let mut link = member.connect(&host, hello(1)).await.unwrap();
    exchange(&mut link, &mut admission.accept(1).await.unwrap()).await;
}
