//! The ports of a coordinator: one for all, or one for devices and another one for operators.

use tokio::net::TcpListener;

/// What a coordinator listens on.
#[derive(Debug)]
pub struct Listeners {
    /// For devices; for operators, too, unless they have a listener of their own.
    pub main: TcpListener,
    /// For the operator API, the dashboard and the metrics, which `main` then does not have.
    pub operators: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Self {
        Self { main, operators: None }
    }
}
