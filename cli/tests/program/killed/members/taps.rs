//! Proxies that see what a member sends, and let one fail at a chosen place.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::interval;

use super::stage::{Fault, MEMBERS, Place, Shared, Way};

/// Of a record of TLS: its kind, a version, and the length of what follows (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 5;
const APPLICATION_DATA: u8 = 23;
/// A hello of 42 bytes, its kind and its tag.
const HELLO_RECORD_BYTES: usize = 59;
/// No frame but one of sums is longer.
const SUM_RECORD_BYTES_MIN: usize = 100;

/// Between two bytes of a slow link: a frame takes a minute.
const DROP: Duration = Duration::from_millis(100);

type Whose = (Arc<Shared>, usize);

/// The way of a member to the coordinator.
pub(super) async fn before_coordinator(calls: TcpListener, to: SocketAddr, whose: Whose) {
    before(calls, to, whose, calling).await;
}

/// The way of other members to one that listens.
pub(super) async fn before_listener(links: TcpListener, to: SocketAddr, whose: Whose) {
    before(links, to, whose, sending).await;
}

/// What comes is passed on by `passes`, and what goes back as it is.
async fn before<F>(
    listener: TcpListener,
    to: SocketAddr,
    whose: Whose,
    passes: fn(OwnedReadHalf, OwnedWriteHalf, Whose) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    while let Ok((from, _)) = listener.accept().await {
        let whose = whose.clone();
        tokio::spawn(async move {
            let Ok(to) = TcpStream::connect(to).await else { return };
            let ((from_read, mut from_write), (mut to_read, to_write)) = (from.into_split(), to.into_split());
            tokio::select! {
                () = passes(from_read, to_write, whose) => {}
                _ = copy(&mut to_read, &mut from_write) => {}
            }
        });
    }
}

fn find(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text.as_bytes())
}

async fn calling(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, (shared, member): Whose) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut piece).await {
        let sent = &mut piece[..bytes];
        let says = |text| find(sent, text).is_some();
        let is_due = |place: fn(&Place) -> bool| shared.due(member, |at| place(&at)).is_some();
        let joins = says("/ring HTTP");
        if joins && is_due(|at| matches!(at, Place::Ready))
            || says("/sum?") && is_due(|at| matches!(at, Place::Upload))
            || says("\"sha256\":") && is_due(|at| matches!(at, Place::Outcome))
        {
            shared.kill(member);
            return;
        }
        if let Some(at) = find(sent, "\"sha256\":\"")
            && let Some(Place::Lie(digit)) = shared.due(member, |at| matches!(at, Place::Lie(_)))
        {
            let digits = at + "\"sha256\":\"".len();
            sent[digits..digits + 64].fill(digit as u8);
        }
        if to.write_all(sent).await.is_err() {
            return;
        }
        if joins && shared.due(member, |at| matches!(at, Place::Joined)).is_some() {
            shared.kill(member);
            return;
        }
    }
}

/// Passes records on, and counts those with a frame of sums: one for each step.
async fn sending(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, (shared, member): Whose) {
    let sender = (member + MEMBERS - 1) % MEMBERS;
    let (mut has_greeted, mut step) = (false, 0);
    while let Ok(record) = record(&mut from).await {
        let length = record.len() - RECORD_BYTES;
        let is_data = record[0] == APPLICATION_DATA;
        let mut due = None;
        if has_greeted && is_data && length >= SUM_RECORD_BYTES_MIN {
            due = shared.due(sender, |place| match place {
                Place::Sum { step: at, .. } | Place::After { step: at } => at == step,
                _ => false,
            });
            step += 1;
        }
        has_greeted |= is_data && length == HELLO_RECORD_BYTES;
        if let Some(Place::Sum { fault, .. }) = due {
            shared.fail(sender, fault).await;
            match fault {
                Fault::Killed | Fault::Restarted => return,
                Fault::Stopped | Fault::Revoked => pending().await,
                Fault::Cut | Fault::Slow => {}
            }
        }
        let passed = match shared.way(member) {
            Way::Open => to.write_all(&record).await,
            // It is read, and goes nowhere.
            Way::Cut => Ok(()),
            Way::Slow => drip(&record, &mut to).await,
        };
        if passed.is_err() {
            return;
        }
        if let Some(Place::After { .. }) = due {
            shared.kill(sender);
        }
    }
    // The end of this direction is passed on, and the other one goes on.
    let _ = to.shutdown().await;
    pending::<()>().await;
}

/// The next record of a connection.
async fn record(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut record = vec![0; RECORD_BYTES];
    from.read_exact(&mut record).await?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(RECORD_BYTES + length, 0);
    from.read_exact(&mut record[RECORD_BYTES..]).await?;
    Ok(record)
}

async fn drip(record: &[u8], to: &mut OwnedWriteHalf) -> io::Result<()> {
    let mut drops = interval(DROP);
    for byte in record {
        drops.tick().await;
        to.write_all(std::slice::from_ref(byte)).await?;
    }
    Ok(())
}
