//! `tributary`: coordinator, client and tools in one binary. Wiring only: each command has a module of its name.

mod account;
mod api;
mod audit;
mod backup;
mod bench;
mod client;
mod command_line;
mod demo;
mod error;
mod evaluator;
mod events;
mod example;
mod files;
mod format;
mod http;
mod job;
mod listen;
mod local;
mod node;
mod options;
mod otlp;
mod output;
mod population;
mod profile;
mod random;
mod round;
mod schedule;
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

use clap::{CommandFactory, Parser};

use crate::command_line::{Command, CommandLine};
use crate::error::CliError;
use crate::output::Output;
use tributary_server::runtime::clock::Clock;

/// Most pages of the buffers of ten thousand held connections are never touched. This allocator keeps blocks of equal
/// size together, so that such pages stay with the system (`bench load` prints the memory per held client).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How soon the allocator returns freed memory to the system. Its default of a second lets several MB of received
/// chunks pile up per sending client; 0 costs a seventh more processor time per update.
const PURGE_DELAY_MS: std::ffi::c_long = 10;
/// The option's number in mimalloc's `mi_option_t`, unchanged since version 1.
const PURGE_DELAY_OPTION: std::ffi::c_int = 15;

fn main() -> ExitCode {
    #[expect(unsafe_code, reason = "the crate has no safe function for this option; no other thread runs yet")]
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY_MS);
    }
    let line = CommandLine::parse();
    let output = Output::of_process(line.global.json, Clock::System.now_ms());
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(run(line, output))
}

async fn run(CommandLine { global, command }: CommandLine, output: Output) -> Result<(), CliError> {
    match command {
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
        Command::Demo(args) => demo::run(&args, &output).await,
        Command::Serve(args) => serve::run(*args, &output).await,
        Command::Backup(args) => backup::backup(&args, &output).await,
        Command::Restore(args) => backup::restore(&args, &output).await,
        Command::Bench(command) => bench::run(&command, &output).await,
    }
}
