//! Programs that tests start.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

/// A program with all that it starts. They are killed if nobody waits for their end any more.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{leader}")]).status();
        }
    }
}

/// Runs a program to its end, or until the test is over: one that waits for what never happens would otherwise keep all
/// tests from ending.
pub(crate) async fn output(mut command: Command) -> Output {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut group = Group(Some(child.id()));
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    group.0 = None;
    output
}

/// Runs a program to its end: what it prints.
pub(crate) async fn printed(command: Command) -> String {
    let what = format!("{command:?}");
    let output = output(command).await;
    assert!(output.status.success(), "{what}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a program has printed, and then its errors.
pub(crate) fn said(Output { stdout, stderr, .. }: &Output) -> String {
    String::from_utf8_lossy(stdout).into_owned() + &String::from_utf8_lossy(stderr)
}
