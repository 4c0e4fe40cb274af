//! The network between a client and the coordinator, where it can be broken.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tributary_client::Client;

use crate::support::{JumpingClock, World};

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// They are passed on.
    Open,
    /// They are closed at once.
    Cut,
    /// They are passed on; the answer to the first upload does not come back, and the way is cut from then on.
    LosesUploadAnswers,
}

/// A place to connect to instead of the coordinator.
pub(super) struct Gate {
    address: SocketAddr,
    way: Arc<Mutex<Way>>,
}

impl Gate {
    pub(super) async fn before(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = Self { address: listener.local_addr().unwrap(), way: Arc::new(Mutex::new(Way::Open)) };
        let (way, server) = (Arc::clone(&gate.way), world.address);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if *way.lock().unwrap() != Way::Cut {
                    tokio::spawn(pass(near, server, Arc::clone(&way)));
                }
            }
        });
        gate
    }

    pub(super) fn set(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }

    /// A client that goes through the gate; its clock never waits.
    pub(super) fn client(&self, world: &World, directory: &Path) -> Client {
        let builder = Client::builder(format!("http://{}", self.address), world.enrolment.clone()).state_dir(directory);
        builder.http_client(world.http.clone()).clock(Arc::new(JumpingClock::default())).build().unwrap()
    }
}

/// Passes one connection on, which carries one request.
async fn pass(mut near: TcpStream, server: SocketAddr, way: Arc<Mutex<Way>>) -> std::io::Result<()> {
    let mut far = TcpStream::connect(server).await?;
    let mut first = [0; 4];
    near.read_exact(&mut first).await?;
    far.write_all(&first).await?;
    let loses = *way.lock().unwrap() == Way::LosesUploadAnswers;
    if !(loses && first == *b"PUT ") {
        copy_bidirectional(&mut near, &mut far).await?;
        return Ok(());
    }
    let (mut request, _) = near.split();
    let (mut answer, mut onwards) = far.split();
    tokio::select! {
        sent = copy(&mut request, &mut onwards) => { sent?; }
        answered = answer.read(&mut first) => { answered?; }
    }
    *way.lock().unwrap() = Way::Cut;
    Ok(())
}
