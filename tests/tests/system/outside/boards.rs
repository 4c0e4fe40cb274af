//! Clients on small boards: the program without a coordinator, under an emulator of the board's processor.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::Listening;
use super::app::{App, contribute_beside_rust};

/// The program for a board, and Debian's emulator for programs of its processor.
pub(super) struct Board {
    /// As `scripts/boards` calls the processor.
    name: &'static str,
    emulator: &'static str,
    program: PathBuf,
}

impl Board {
    /// 64-bit boards; none where the program or the emulator is missing (under CI that is a failure).
    pub(super) fn aarch64() -> Option<Self> {
        let board = Self::new("aarch64", "qemu-aarch64");
        if board.is_there() {
            return Some(board);
        }
        let missing = format!("{} or {} is missing", board.program.display(), board.emulator);
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
        eprintln!("not tried: {missing}; scripts/test makes one and installs the other");
        None
    }

    /// 32-bit boards; none where their program was not built. CI builds the one for 64-bit boards only, to save time.
    fn armv7() -> Option<Self> {
        Some(Self::new("armv7", "qemu-arm")).filter(Self::is_there)
    }

    fn new(name: &'static str, emulator: &'static str) -> Self {
        let named = std::env::var_os("TRIBUTARY_TEST_BOARDS").map(PathBuf::from);
        let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/boards");
        let folder = named.unwrap_or_else(|| PathBuf::from(made));
        Self { name, emulator, program: folder.join(format!("tributary-{name}")) }
    }

    fn is_there(&self) -> bool {
        let version = Command::new(self.emulator).arg("--version").output();
        self.program.exists() && version.is_ok_and(|output| output.status.success())
    }

    /// Predicts the rows of a table with an exported file.
    pub(super) fn predicts(&self, model: &Path, table: &str) -> Command {
        let mut command = Command::new(self.emulator);
        command.arg(&self.program).args(["--json", "predict", "--csv", table, "--model"]).arg(model);
        command
    }

    /// A client with a table as its examples. It trains on all of them.
    pub(super) fn app(self) -> App {
        let kind = self.name;
        let command = move |listening: &Listening, directory: &Path| {
            let mut command = Command::new(self.emulator);
            command.arg(&self.program).args(["--json", "client", "run", "--once", "--state-dir", "state"]);
            command.args(["--csv", "examples.csv", "--hold-out", "0", "--attribute", &format!("kind={kind}")]);
            command.args(["--server", &listening.url(), "--token", &listening.enrolment]).current_dir(directory);
            command
        };
        App { kind, sdk: "rust", contributed: json!({ "event": "contributed" }), command: Box::new(command) }
    }
}

/// Goal: the client for small boards is a whole client. Method: under an emulator it does one round beside a client of
/// this machine, whose outcome is computed from both tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_for_small_boards_contribute_beside_the_sdk() {
    let Some(aarch64) = Board::aarch64() else { return };
    let listening = Listening::start().await;
    let apps: Vec<App> = [Some(aarch64), Board::armv7()].into_iter().flatten().map(Board::app).collect();
    contribute_beside_rust(&listening, &apps).await;
    listening.stop().await;
}
