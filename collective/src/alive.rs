//! Signs of life of a member that is at other work between two sums.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::AsyncWrite;
use tributary_protocol::group::FrameKind;

use crate::link::{Turns, frame};
use crate::place::RingPlace;
use crate::timer::Timer;

/// Tells both neighbours from time to time that the member lives, until the future ends. A neighbour that takes nothing
/// is told no more, and a link that has ended is noticed by the next sum.
pub async fn keep_alive<L, R, T>(
    place: &RingPlace,
    (left, right): (&mut Turns<L>, &mut Turns<R>),
    timer: &impl Timer,
    until: impl Future<Output = T>,
) -> T
where
    L: AsyncWrite + Unpin,
    R: AsyncWrite + Unpin,
{
    let telling = async {
        let alive = frame(&place.header(FrameKind::Alive), &[]);
        loop {
            timer.sleep(place.alive_ms()).await;
            tell(left, &alive).await;
            tell(right, &alive).await;
        }
    };
    let (mut until, mut telling) = (pin!(until), pin!(telling));
    poll_fn(|context| {
        let done = until.as_mut().poll(context);
        if done.is_pending() {
            let _: Poll<()> = telling.as_mut().poll(context);
        }
        done
    })
    .await
}

/// Gives the connection what it takes at once.
async fn tell<L: AsyncWrite + Unpin>(link: &mut Turns<L>, alive: &[u8]) {
    poll_fn(|context| {
        if link.is_flushed() {
            link.push(alive);
        }
        let _ = Pin::new(&mut *link).poll_flush(context);
        Poll::Ready(())
    })
    .await;
}
