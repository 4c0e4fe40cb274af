//! `tributary`: coordinator, client and tools in one program. Wiring only: each command has a module of its name.
//!
//! Modules that the benchmarks (`tributary-bench`) use are public. There is no other user.
#![cfg_attr(
    not(feature = "coordinator"),
    expect(dead_code, reason = "shared modules also serve the commands of coordinators, which this build leaves out")
)]

mod account;
#[cfg(feature = "coordinator")]
pub mod allocator;
mod analysis;
pub mod api;
mod audit;
#[cfg(feature = "coordinator")]
mod backup;
mod client;
mod clock;
mod command_line;
#[cfg(feature = "coordinator")]
mod coordinator;
pub mod data;
#[cfg(feature = "coordinator")]
pub mod demo;
pub mod error;
#[cfg(feature = "coordinator")]
mod evaluator;
mod events;
mod example;
mod files;
pub mod format;
mod http;
#[cfg(feature = "formats")]
mod image_folder;
pub mod job;
#[cfg(feature = "coordinator")]
pub mod listen;
#[cfg(feature = "coordinator")]
pub mod local;
mod node;
pub mod options;
#[cfg(feature = "coordinator")]
mod otlp;
pub mod output;
mod population;
mod predict;
#[cfg(feature = "coordinator")]
mod privacy;
mod profile;
#[cfg(feature = "coordinator")]
pub mod random;
#[cfg(feature = "coordinator")]
pub mod relay;
mod release;
mod round;
mod schedule;
#[cfg(feature = "coordinator")]
pub mod serve;
mod settings_file;
mod shell;
pub mod stopwatch;
mod suggest;
mod table;
#[cfg(test)]
mod testing;
mod token;
#[cfg(feature = "coordinator")]
mod tree;
pub mod units;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use tokio::runtime::Runtime;

use crate::command_line::{Command, CommandLine};
use crate::error::CliError;
use crate::output::Output;

/// How long a thread for blocking work waits for more of it. An idle thread keeps memory that it freed: blocks of equal
/// size lie in areas of up to 4 MiB, one or more for each size. tokio's default of 10 s costs a client up to 12 MB and
/// a coordinator with 32 large uploads 10 MB (docs/benchmarks.md). Starting a thread takes some 20 microseconds.
const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// Runs the program with the arguments of its process.
pub fn main() -> ExitCode {
    let line = CommandLine::parse();
    #[cfg(feature = "coordinator")]
    allocator::set_up(matches!(line.command, Command::Client(_)));
    let output = Output::of_process(line.global.json, clock::now_ms());
    match start(line, output.clone()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn start(line: CommandLine, output: Output) -> Result<(), CliError> {
    runtime()?.block_on(run(line, output))
}

/// The runtime of all commands.
///
/// # Errors
/// [`CliError::Runtime`] when the system gives no threads.
pub fn runtime() -> Result<Runtime, CliError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().thread_keep_alive(THREAD_KEEP_ALIVE).build().map_err(CliError::Runtime)
}

async fn run(CommandLine { global, command }: CommandLine, output: Output) -> Result<(), CliError> {
    match command {
        #[cfg(feature = "coordinator")]
        Command::Coordinator(command) => coordinator::run(command, &global, &output).await,
        Command::Job(command) => job::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await,
        Command::Round(command) => {
            round::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Token(command) => {
            token::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Account(command) => {
            account::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Analysis(command) => {
            analysis::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Audit(command) => audit::run(command, &profile::resolved(&global)?, &output).await,
        Command::Release(args) => {
            release::run(*args, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Population(command) => {
            population::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Node(command) => {
            node::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Schedule(command) => {
            schedule::run(command, &profile::resolved(&global)?.operator_api(&output)?, &output).await
        }
        Command::Client(command) => client::run(command, &global, &output).await,
        Command::Events(args) => events::run(&args, &profile::resolved(&global)?.operator_api(&output)?, &output).await,
        Command::Login(args) => profile::login(args, &global, &output).await,
        Command::Logout => profile::logout(&global, &output),
        Command::Completions { shell } => shell::completions(shell, CommandLine::command()),
        Command::Man { folder } => shell::manual(&folder, CommandLine::command()),
        Command::Example(command) => example::run(&command, &output),
        Command::Predict(args) => predict::run(&args, &output),
    }
}
