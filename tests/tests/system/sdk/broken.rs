//! Transfers that break off in the middle: they continue where they ended, and nothing is sent twice.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_client::{AlwaysOn, Client, Outcome};
use tributary_protocol::state::Phase;

use super::sessions::session;
use crate::support::{Adds, JumpingClock, Scatters, World, within_reason};

/// What heads, JSON and what was on its way when the connection broke may add to the bytes of the bodies.
const BESIDES_BYTES_MAX: u64 = 64 << 10;
/// What an update of a million values takes at least, as a zstd frame, when chance decides all but their exponents.
const UPDATE_BYTES_MIN: u64 = 3_000_000;

/// A way to the coordinator that counts, and that cuts connections after this many bytes.
struct Cutter {
    address: SocketAddr,
    /// Bytes of one connection after which it is cut, one entry per cut, the last first.
    cuts_up: Arc<Mutex<Vec<u64>>>,
    cuts_down: Arc<Mutex<Vec<u64>>>,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
}

impl Cutter {
    async fn before(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cutter = Self {
            address: listener.local_addr().unwrap(),
            cuts_up: Arc::default(),
            cuts_down: Arc::default(),
            up: Arc::default(),
            down: Arc::default(),
        };
        let (cuts_up, cuts_down) = (Arc::clone(&cutter.cuts_up), Arc::clone(&cutter.cuts_down));
        let (up, down, server) = (Arc::clone(&cutter.up), Arc::clone(&cutter.down), world.address);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (cuts_up, cuts_down) = (Arc::clone(&cuts_up), Arc::clone(&cuts_down));
                let (up, down) = (Arc::clone(&up), Arc::clone(&down));
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(server).await else { return };
                    let (mut near_in, mut near_out) = near.split();
                    let (mut far_in, mut far_out) = far.split();
                    // Each side ends by itself or by a cut; then both are closed.
                    tokio::select! {
                        () = pass(&mut near_in, &mut far_out, &cuts_up, &up) => {
                            // The sender learns of it when the coordinator has read what came.
                            let _ = far_out.shutdown().await;
                            let _ = far_in.read_to_end(&mut Vec::new()).await;
                        }
                        () = pass(&mut far_in, &mut near_out, &cuts_down, &down) => {}
                    }
                });
            }
        });
        cutter
    }

    fn client(&self, world: &World, directory: &Path) -> Client {
        let builder = Client::builder(format!("http://{}", self.address), world.enrolment.clone()).state_dir(directory);
        builder.http_client(world.http.clone()).clock(Arc::new(JumpingClock::default())).build().unwrap()
    }
}

/// Passes bytes on until the sender ends or a cut is due.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    cuts: &Mutex<Vec<u64>>,
    counted: &AtomicU64,
) {
    let (mut buffer, mut passed) = (vec![0; 16 << 10], 0u64);
    loop {
        let bytes = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => bytes as u64,
        };
        let cut = cuts.lock().unwrap().last().copied().filter(|cut| *cut < passed + bytes);
        let bytes = cut.map_or(bytes, |cut| cut.saturating_sub(passed));
        if to.write_all(&buffer[..bytes as usize]).await.is_err() {
            return;
        }
        passed += bytes;
        counted.fetch_add(bytes, Ordering::SeqCst);
        if cut.is_some() {
            cuts.lock().unwrap().pop();
            return;
        }
    }
}

/// A model of a million parameters, which is 4 MB up and 4 MB down.
fn large() -> Value {
    json!({ "model": { "parameters": [{ "name": "w", "shape": [1000, 1000] }] } })
}

#[tokio::test]
async fn an_upload_that_breaks_off_again_and_again_sends_each_byte_once() {
    let world = World::start().await;
    let job = world.job(large()).await;
    let directory = TempDir::new().unwrap();
    let cutter = Cutter::before(&world).await;
    *cutter.cuts_up.lock().unwrap() = vec![1_700_000, 1_300_000];
    let mut trainer = Scatters(Adds::new(0.5));
    let outcome = session(&world, &cutter.client(&world, directory.path()), &mut trainer).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert!(cutter.cuts_up.lock().unwrap().is_empty(), "it was cut twice");
    let sent = cutter.up.load(Ordering::SeqCst);
    let round = world.round(job.head.id, 1).await;
    assert_eq!(round.phase, Phase::Committed);
    assert!((UPDATE_BYTES_MIN..=sent).contains(&round.traffic.bytes_up), "{} bytes", round.traffic.bytes_up);
    assert!(sent < round.traffic.bytes_up + BESIDES_BYTES_MAX, "{sent} bytes for {}", round.traffic.bytes_up);
    world.check_books(job.head.id).await;
}

/// Goal: the next process, and a coordinator that was restarted, continue with the upload.
#[tokio::test]
async fn an_upload_that_broke_off_goes_on_in_the_next_session() {
    let mut world = World::start().await;
    let job = world.job(large()).await;
    let directory = TempDir::new().unwrap();
    let cutter = Cutter::before(&world).await;
    // Cut in the middle once, then at once: the session gives up.
    *cutter.cuts_up.lock().unwrap() = [vec![0; 20], vec![2_500_000]].concat();
    let mut trainer = Scatters(Adds::new(0.5));
    session(&world, &cutter.client(&world, directory.path()), &mut trainer).await.expect_err("it breaks off");
    assert_eq!(trainer.0.trained, 1);
    cutter.cuts_up.lock().unwrap().clear();
    // The coordinator has noticed, too.
    let noticed = async { while world.assignments(job.head.id, 1).await[0].traffic.bytes_up < 2_400_000 {} };
    within_reason(noticed).await;
    world.restart().await;
    let mut idle = Adds::new(99.0);
    let outcome = within_reason(cutter.client(&world, directory.path()).run_once(&mut idle, &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    assert_eq!(idle.trained, 0);
    let sent = cutter.up.load(Ordering::SeqCst);
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!(round.phase, Phase::Committed);
    assert!((UPDATE_BYTES_MIN..=sent).contains(&round.traffic.bytes_up), "{} bytes", round.traffic.bytes_up);
    assert!(sent < round.traffic.bytes_up + BESIDES_BYTES_MAX, "{sent} bytes for {}", round.traffic.bytes_up);
    let moved = world.weights(job.head.id, 1).await[0] - world.weights(job.head.id, 0).await[0];
    assert!((moved - 0.5).abs() <= 0.25 && moved != 0.5, "{moved}");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_in_this_session_and_the_next() {
    let world = World::start().await;
    let job = world.job(large()).await;
    let directory = TempDir::new().unwrap();
    let cutter = Cutter::before(&world).await;
    let client = cutter.client(&world, directory.path());
    client.enrol().await.unwrap();
    // In the first session the download breaks off twice in the middle, then the way is closed.
    *cutter.cuts_down.lock().unwrap() = [vec![100; 20], vec![700_000, 2_000_000]].concat();
    let mut trainer = Adds::new(0.5);
    session(&world, &client, &mut trainer).await.expect_err("it breaks off");
    assert_eq!(trainer.trained, 0);
    cutter.cuts_down.lock().unwrap().clear();
    // A new process: the assignment is still its own.
    let outcome =
        within_reason(cutter.client(&world, directory.path()).run_once(&mut trainer, &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    let fetched = cutter.down.load(Ordering::SeqCst);
    assert!((4_000_000..4_000_000 + BESIDES_BYTES_MAX).contains(&fetched), "{fetched} bytes");
    let down = world.round(job.head.id, 1).await.traffic.bytes_down;
    // What the system's buffers took of a connection that broke counts too: how much that is, is theirs to say.
    assert!(down >= 4_000_000, "{down} bytes");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
    world.check_books(job.head.id).await;
}
