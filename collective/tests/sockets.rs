//! A ring over TCP, in real time. The ring itself is tested in virtual time (`ring/`).

#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong should end it at once")]

use std::pin::Pin;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tributary_collective::{Addend, Reduced, RingError, RingPlace, Timer, all_reduce};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::group::FRAME_BYTES;

const MEMBERS: u16 = 4;

struct RealTime;

impl Timer for RealTime {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// Both ends of a connection.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    (one.unwrap(), other.unwrap().0)
}

/// The integers of a member, which may die when one of a place is asked for.
struct Own {
    factor: i64,
    values: u32,
    dies_at: usize,
}

impl Addend for Own {
    fn values(&self) -> u32 {
        self.values
    }

    fn integers(&self, first: usize, integers: &mut [i64]) {
        assert!(!(first..first + integers.len()).contains(&self.dies_at), "this member dies");
        (first as i64..).zip(integers).for_each(|(at, integer)| *integer = (at << 17) * self.factor - 5);
    }
}

/// Members with this many values each. Member 2 may die.
async fn ring(values: u32, dies_at: usize) -> Vec<JoinHandle<Result<Reduced, RingError>>> {
    let (mut rights, mut lefts) = (Vec::new(), Vec::new());
    for _ in 0..MEMBERS {
        let (right, left) = connection().await;
        rights.push(right);
        lefts.push(left);
    }
    lefts.rotate_right(1);
    let member = |(rank, (left, right))| {
        let dies_at = if rank == 2 { dies_at } else { usize::MAX };
        let own = Own { factor: i64::from(rank) + 1, values, dies_at };
        let place = RingPlace {
            rank,
            members: MEMBERS,
            attempt: 0,
            frame_bytes: FRAME_BYTES,
            frame_ms: 30_000,
            magnitude_max: 1 << 50,
        };
        tokio::spawn(async move { all_reduce(&place, &own, left, right, &RealTime).await })
    };
    (0..).zip(lefts.into_iter().zip(rights)).map(member).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_over_tcp_have_the_same_body() {
    let values = 1_000_003;
    let sum: Vec<i64> = (0..i64::from(values)).map(|at| (at << 17) * 10 - 20).collect();
    let contribution = Contribution { weight: Weight::examples(1), updates: MEMBERS.into() };
    let mut bodies = Vec::new();
    for member in ring(values, usize::MAX).await {
        let reduced = member.await.unwrap().unwrap();
        let mut got = vec![0; values as usize];
        reduced.integers(&mut got);
        assert!(got == sum);
        bodies.push(reduced.body(*b"TS-rings", contribution));
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_a_member_over_tcp_dies_the_others_name_it() {
    // While it sends its own chunk, and in two of the steps in which it adds.
    for dies_at in [700_000, 400_000, 900_000] {
        for (rank, member) in ring(1_000_003, dies_at).await.into_iter().enumerate() {
            match member.await {
                Err(error) => assert!(rank == 2 && error.is_panic()),
                Ok(ended) => {
                    let error = ended.unwrap_err();
                    let (RingError::Neighbour { rank: 2, .. } | RingError::Aborted { rank: 2, .. }) = error else {
                        panic!("{rank}: {error:?}")
                    };
                }
            }
        }
    }
}
