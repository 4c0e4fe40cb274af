//! A plain TCP balancer: each connection goes to the next coordinator in turn, whether that one lives or not.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Balances over these addresses for as long as the runtime lives. Returns its own URL.
pub(super) async fn balance(coordinators: Vec<SocketAddr>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for coordinator in coordinators.into_iter().cycle() {
            let Ok((mut near, _)) = listener.accept().await else { return };
            tokio::spawn(async move {
                // Where nobody listens any more, the client's connection breaks, and the client tries again.
                let mut far = TcpStream::connect(coordinator).await?;
                copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    url
}
