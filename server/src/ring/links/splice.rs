//! Two streams whose bytes are passed on to each other.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::future::try_join;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

/// Bytes of one direction that are held at most. While they wait, nothing more is read.
const PIECE_BYTES: usize = 32 << 10;

/// Passes bytes on until both directions or either stream have ended, until nothing passes for a `silence`, or until it
/// is `over`. Each piece waits for `may_pass`. Returns how many bytes have passed.
pub(super) async fn splice<S: AsyncRead + AsyncWrite, P: Future, Q: Future>(
    [one, other]: [S; 2],
    may_pass: impl Fn(usize) -> P,
    silence: impl Fn() -> Q,
    over: impl Future<Output = ()>,
) -> u64 {
    let passed = AtomicU64::new(0);
    let ((mut from_one, mut to_one), (mut from_other, mut to_other)) = (split(one), split(other));
    let there = pump(&mut from_one, &mut to_other, &may_pass, &passed);
    let back = pump(&mut from_other, &mut to_one, &may_pass, &passed);
    tokio::select! {
        // An error is the end of the link, which its members notice by themselves.
        _ = try_join(there, back) => {}
        () = silent(silence, &passed) => {}
        () = over => {}
    }
    passed.load(Relaxed)
}

/// Passes one direction on, and its end.
async fn pump<P: Future>(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    may_pass: &impl Fn(usize) -> P,
    passed: &AtomicU64,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let bytes = from.read(&mut piece).await?;
        if bytes == 0 {
            return to.shutdown().await;
        }
        may_pass(bytes).await;
        to.write_all(&piece[..bytes]).await?;
        to.flush().await?;
        passed.fetch_add(bytes as u64, Relaxed);
    }
}

/// Ends when nothing has passed during a whole silence.
async fn silent<Q: Future>(silence: impl Fn() -> Q, passed: &AtomicU64) {
    let mut before = None;
    while before != Some(passed.load(Relaxed)) {
        before = Some(passed.load(Relaxed));
        silence().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::io::duplex;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn bytes_and_ends_are_passed_on_in_both_directions() {
        let ((mut one, near), (far, mut other)) = (duplex(7), duplex(11));
        let asked = AtomicU64::new(0);
        let may_pass = |bytes: usize| ready(asked.fetch_add(bytes as u64, Relaxed));
        let members = async {
            one.write_all(&[1; 100]).await.unwrap();
            one.shutdown().await.unwrap();
            let mut read = Vec::new();
            // The other direction lives on.
            one.read_to_end(&mut read).await.unwrap();
            read
        };
        let other = async {
            let mut read = Vec::new();
            other.read_to_end(&mut read).await.unwrap();
            other.write_all(&[2; 50]).await.unwrap();
            other.shutdown().await.unwrap();
            read
        };
        let splicing = splice([near, far], may_pass, pending::<()>, pending());
        let (back, there, passed) = tokio::join!(members, other, splicing);
        assert_eq!((there, back, passed, asked.load(Relaxed)), (vec![1; 100], vec![2; 50], 150, 150));
    }

    #[tokio::test]
    async fn a_member_that_takes_nothing_holds_the_sender_up() {
        let ((mut one, near), (far, _other)) = (duplex(8), duplex(8));
        let sent = AtomicU64::new(0);
        let sending = async {
            while one.write_all(&[0; 1024]).await.is_ok() {
                sent.fetch_add(1024, Relaxed);
            }
        };
        let silences = AtomicU64::new(0);
        // Silences end as soon as nothing else can go on.
        let silence = || async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            silences.fetch_add(1, Relaxed);
        };
        let splicing = splice([near, far], |_| ready(()), silence, pending());
        let ((), passed) = tokio::join!(sending, splicing);
        assert!(sent.load(Relaxed) <= 2 * PIECE_BYTES as u64, "{sent:?} of which {passed} passed");
        assert!(silences.load(Relaxed) >= 1, "it ended because nothing passed");
    }

    #[tokio::test]
    async fn a_link_ends_when_it_is_over_although_its_members_say_nothing() {
        let ((mut one, near), (far, _other)) = (duplex(8), duplex(8));
        let ended = Notify::new();
        let splicing = splice([near, far], |_| ready(()), pending::<()>, ended.notified());
        let member = async {
            ended.notify_one();
            let mut read = Vec::new();
            one.read_to_end(&mut read).await.unwrap();
            read
        };
        assert_eq!(tokio::join!(splicing, member), (0, Vec::new()));
    }
}
