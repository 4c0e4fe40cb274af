//! A terminal: a shell that reads commands as they are typed, and ends with everything that it started.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A terminal that prints nothing for this long hangs. The longest silence is a program's start on a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(180);
/// Printed after each block. No program of the README prints it.
const DONE: &str = "-- the block is done --";

/// What all terminals of a reader have printed, in the order in which it was read.
#[derive(Clone, Default)]
pub(super) struct Transcript(Arc<Mutex<String>>);

/// One shell. Its process group ends with it, background jobs included.
pub(super) struct Terminal {
    shell: Child,
    keyboard: Option<ChildStdin>,
    screen: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    transcript: Transcript,
}

impl Transcript {
    /// The newest word that begins with `kind` and goes on: a printed secret, not its abbreviation.
    pub(super) fn last_word_with(&self, kind: &str) -> Option<String> {
        let text = self.text();
        let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        words.rfind(|word| word.starts_with(kind) && word.len() > kind.len()).map(str::to_owned)
    }

    fn push(&self, line: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push('\n');
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Terminal {
    /// Opens a terminal in a directory, with no other environment than this.
    pub(super) fn open(directory: &Path, environment: &BTreeMap<&str, String>, transcript: Transcript) -> Self {
        let mut shell = Command::new("/bin/bash")
            .args(["--noprofile", "--norc"])
            .current_dir(directory)
            .env_clear()
            .envs(environment)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the README's commands are for bash");
        let (send, screen) = channel();
        let (output, printed) = (shell.stdout.take().unwrap(), transcript.clone());
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                printed.push(&line);
                // Nobody waits for the lines of a coordinator that serves.
                let _ = send.send(line);
            }
        });
        let keyboard = shell.stdin.take();
        let mut terminal = Self { shell, keyboard, screen, reader: Some(reader), transcript };
        // A command that fails ends the shell, and with it the test.
        terminal.type_in("exec 2>&1; set -euo pipefail\n");
        terminal
    }

    /// Runs a block to its end; returns what it printed. Panics when one of its commands fails.
    pub(super) fn run(&mut self, block: &str) -> String {
        // Programs must not read the commands that follow.
        self.type_in(&format!("{{\n{block}}} </dev/null\necho '{DONE}'\n"));
        let mut printed = String::new();
        loop {
            let line = self.line(block);
            if line == DONE {
                return printed;
            }
            printed.push_str(&line);
            printed.push('\n');
        }
    }

    /// Starts a command that does not end by itself.
    pub(super) fn start(&mut self, command: &str) {
        self.type_in(command);
    }

    /// The next line that contains this.
    pub(super) fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.line(text);
            if line.contains(text) {
                return line;
            }
        }
    }

    fn line(&mut self, awaited: &str) -> String {
        let why = match self.screen.recv_timeout(SILENCE_MAX) {
            Ok(line) => return line,
            Err(RecvTimeoutError::Timeout) => "hangs",
            Err(RecvTimeoutError::Disconnected) => "a command failed",
        };
        panic!("{why}; expected the end of, or a line with:\n{awaited}\nprinted so far:\n{}", self.transcript.text());
    }

    fn type_in(&mut self, text: &str) {
        // A shell that has ended is noticed where its output is awaited.
        let _ = self.keyboard.as_mut().unwrap().write_all(text.as_bytes());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let group = format!("-{}", self.shell.id());
        let _ = Command::new("/bin/bash").args(["-c", "kill -KILL -- \"$0\"", &group]).status();
        let _ = self.shell.wait();
        drop(self.keyboard.take());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
