//! `tributary`: coordinator, client and tools in one binary. Wiring only: what a command does stands in its module.

mod api;
mod args;
mod backup;
mod bench;
mod client_run;
mod demo;
mod error;
mod files;
mod format;
mod http;
mod job;
mod local;
mod otlp;
mod output;
mod population;
mod round;
mod schedule;
mod serve;
mod token;

use std::process::ExitCode;

use clap::Parser;
use tributary_protocol::id::SecretKind;

use crate::api::Api;
use crate::args::{Cli, ClientCommand, Command, GlobalArgs, NodeCommand};
use crate::error::CliError;
use crate::output::Output;

/// Ten thousand held connections have buffers that are hardly touched. This allocator keeps equal sizes together, so that
/// untouched pages stay with the system (`bench load` prints what a held client costs).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// After how many milliseconds the allocator gives freed memory back. In its own second, several MB of parts of bodies
/// pile up for each client that sends; at once would cost a seventh more processor time for each update.
const PURGE_DELAY_MS: std::ffi::c_long = 10;
/// Its number among mimalloc's options, which has not changed since version 1.
const PURGE_DELAY_OPTION: std::ffi::c_int = 15;

fn main() -> ExitCode {
    #[expect(unsafe_code, reason = "a setting of the allocator has no other door; there is one thread yet")]
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY_MS);
    }
    let cli = Cli::parse();
    let output = Output::of_process(cli.global.json, jiff::Timestamp::now().as_millisecond());
    match start(cli, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn start(cli: Cli, output: Output) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(run(cli, output))
}

async fn run(Cli { global, command }: Cli, output: Output) -> Result<(), CliError> {
    match command {
        Command::Job(command) => job::run(command, &operator_api(&global)?, &output).await,
        Command::Round(command) => round::run(command, &operator_api(&global)?, &output).await,
        Command::Token(command) => token::run(command, &operator_api(&global)?, &output).await,
        Command::Population(command) => population::run(command, &operator_api(&global)?, &output).await,
        Command::Client(ClientCommand::List { population, limit }) => {
            population::list_clients(&population, limit, &operator_api(&global)?, &output).await
        }
        Command::Client(ClientCommand::Run(args)) => client_run::run(&args, &global, &output).await,
        Command::Node(NodeCommand::List { limit }) => {
            population::list_nodes(limit, &operator_api(&global)?, &output).await
        }
        Command::Schedule(command) => schedule::run(command, &operator_api(&global)?, &output).await,
        Command::Demo(args) => demo::run(&args, &output).await,
        Command::Serve(args) => serve::run(&args, &output).await,
        Command::Backup(args) => backup::backup(&args, &output).await,
        Command::Restore(args) => backup::restore(&args, &output).await,
        Command::Bench(command) => bench::run(&command, &output).await,
    }
}

fn operator_api(global: &GlobalArgs) -> Result<Api, CliError> {
    let token = global.secret(SecretKind::Operator)?;
    Ok(Api::new(global.server.clone(), token)?)
}
