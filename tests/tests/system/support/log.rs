//! The lines that a coordinator logs.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// What logs for a coordinator. Clients of the tests log, too.
const TARGETS: [&str; 6] = ["axum", "sqlx", "tower", "tributary_engine", "tributary_protocol", "tributary_server"];

thread_local! {
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// All lines of this thread, on which a test's runtime runs its coordinator.
pub(crate) struct Log(());

impl Log {
    pub(crate) fn start() -> Self {
        static SHARED: Once = Once::new();
        // One for all tests: of several, each would decide for the others what is logged at all.
        SHARED.call_once(|| {
            let is_kept = dynamic_filter_fn(|line, _| {
                let is_open = LINES.with_borrow(Option::is_some);
                is_open && TARGETS.iter().any(|target| line.target().starts_with(target))
            });
            let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Lines).with_filter(is_kept);
            tracing_subscriber::registry().with(lines).init();
        });
        LINES.set(Some(Vec::new()));
        Self(())
    }

    pub(crate) fn text(&self) -> String {
        LINES.with_borrow(|lines| String::from_utf8(lines.clone().unwrap()).unwrap())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.as_mut().unwrap().extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
