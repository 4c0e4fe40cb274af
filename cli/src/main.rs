//! `tributary`: coordinator, client and tools in one binary. Wiring only: each command has a module of its name.
#![cfg_attr(
    not(feature = "coordinator"),
    expect(dead_code, reason = "shared modules also serve the commands of coordinators, which this build leaves out")
)]

mod account;
#[cfg(feature = "coordinator")]
mod allocator;
mod api;
mod audit;
#[cfg(feature = "coordinator")]
mod backup;
#[cfg(feature = "coordinator")]
mod bench;
mod client;
mod clock;
mod command_line;
#[cfg(feature = "coordinator")]
mod coordinator;
mod data;
#[cfg(feature = "coordinator")]
mod demo;
mod error;
#[cfg(feature = "coordinator")]
mod evaluator;
mod events;
mod example;
mod files;
mod format;
mod http;
#[cfg(feature = "formats")]
mod image_folder;
mod job;
#[cfg(feature = "coordinator")]
mod listen;
#[cfg(feature = "coordinator")]
mod local;
mod node;
mod options;
#[cfg(feature = "coordinator")]
mod otlp;
mod output;
mod population;
mod profile;
#[cfg(feature = "coordinator")]
mod random;
mod round;
mod schedule;
#[cfg(feature = "coordinator")]
mod serve;
mod settings_file;
mod shell;
mod stopwatch;
mod suggest;
mod table;
#[cfg(test)]
mod testing;
mod token;
mod units;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use crate::command_line::{Command, CommandLine};
use crate::error::CliError;
use crate::output::Output;

/// How long a thread for blocking work waits for more of it. An idle thread keeps memory that it freed: blocks of equal
/// size lie in areas of up to 4 MiB, one or more for each size. tokio's default of 10 s costs a client up to 12 MB and
/// a coordinator with 32 large uploads 10 MB (docs/benchmarks.md). Starting a thread takes some 20 microseconds.
const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
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
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_keep_alive(THREAD_KEEP_ALIVE).build().map_err(CliError::Runtime)?;
    runtime.block_on(run(line, output))
}

async fn run(CommandLine { global, command }: CommandLine, output: Output) -> Result<(), CliError> {
    match command {
        #[cfg(feature = "coordinator")]
        Command::Coordinator(command) => coordinator::run(command, &output).await,
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
        Command::Audit(command) => audit::run(command, &profile::resolved(&global)?, &output).await,
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
    }
}
