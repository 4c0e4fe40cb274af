//! `tributary-bench`: measures this build on this machine, with traffic on the loopback address only. Every run ends by
//! itself.

mod aggregate;
mod all;
mod attack;
mod codec;
mod coded;
mod device;
mod error;
mod fleet;
mod gossip;
mod line;
mod load;
mod lobby;
mod populations;
mod predict;
mod privacy;
mod process;
mod quantile;
mod recovery;
mod relays;
mod ring;
mod rollout;
mod round;
mod rules;
mod secure;
mod shards;
mod simulated;
mod sink;
mod soak;
mod tempo;
mod train;
mod training;
mod tree;
mod waits;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use tributary::error::CliError;
use tributary::output::Output;
use tributary::relay::RelayArgs;
use tributary::serve::ServeArgs;
use tributary::{allocator, relay, runtime, serve};
use tributary_protocol::sealed::Sealed;

/// Measures Tributary on this machine.
#[derive(Debug, Parser)]
#[command(name = "tributary-bench", version)]
struct CommandLine {
    /// Prints JSON objects, one per line, instead of text. Errors are JSON objects, too, on standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Wall time of a round: a coordinator on SQLite, and clients whose training takes no time.
    Round(round::RoundArgs),
    /// Check-ins and updates per second, and memory per held client: a coordinator in a separate process.
    Load(load::LoadArgs),
    /// Time from the restart of a killed coordinator until it serves and has rebuilt the sum of its open round.
    Recovery(recovery::RecoveryArgs),
    /// Processor time, memory and wall time of rounds of large updates: a coordinator in a separate process.
    Aggregate(aggregate::AggregateArgs),
    /// Bytes and processor time of the root of a tree of relays, beside a coordinator with the same clients.
    Tree(tree::TreeArgs),
    /// Memory and processor time while clients wait below relays, beside a coordinator with the same clients.
    Lobby(lobby::LobbyArgs),
    /// Memory, processor time and bytes of several coordinators that add up shards, beside one.
    Shards(shards::ShardsArgs),
    /// Bytes, processor time and wall time of groups that add up among themselves, in this process.
    Ring(ring::RingArgs),
    /// Time of a round while some members are slow: coded, a coded tree, over-selected, waiting for all of them,
    /// and as a ring.
    ///
    /// A coordinator in a separate process, and clients of the SDK in this one, whose training waits for a given time.
    /// The time of an iteration is from the draw of a round to its commit, by the coordinator's clock. A client whose
    /// round closed without it learns so at its next question, after 3 s or more, and each draw waits for all clients:
    /// the time from commit to commit has that wait in it.
    Coded(coded::CodedArgs),
    /// What members learn and move that mix their models with those of their neighbours, in this process.
    Gossip(gossip::GossipArgs),
    /// A release that reaches a fleet step by step: who has it, bytes, and the rate of questions.
    Rollout(rollout::RolloutArgs),
    /// A fleet with a daily rhythm on a network with faults, with a failover and an upgrade in each simulated day.
    /// Fails if a promise is broken.
    Soak(soak::SoakArgs),
    /// Bits per parameter, error and speed of update codecs, in this process.
    Codec(codec::CodecArgs),
    /// Examples per second and memory of a client's local training on MNIST, in this process.
    Train(train::TrainArgs),
    /// Time of a prediction of one image on one thread, in this process.
    Predict(predict::PredictArgs),
    /// Rounds, bytes and accuracy of the same training with different update codecs.
    Training(training::TrainingArgs),
    /// Rounds, bytes and accuracy of the same training with different rules: FedAvg, FedProx, SCAFFOLD and others.
    Rules(rules::RulesArgs),
    /// Accuracy of the same training while some clients send wrong updates, with different rules to combine them.
    Attack(attack::AttackArgs),
    /// Simulated time to an accuracy with clients of different speeds: synchronous, buffered and asynchronous rounds.
    Tempo(tempo::TempoArgs),
    /// What privacy costs and prevents: accuracy of private jobs, attacks on what training leaks, and audits.
    Privacy(privacy::PrivacyArgs),
    /// Bytes and computation of a group whose updates are masked, in this process.
    Secure(secure::cost::SecureArgs),
    /// Time of a group over slow lines, beside plain uploads of as many bytes: a coordinator in a separate process.
    SecureLine(secure::delivery::SecureLineArgs),
    /// Accuracy of the same training with int8 updates and with masked ones whose groups lose members, and while a
    /// client lies.
    SecureTraining(secure::training::SecureTrainingArgs),
    /// Every figure with a target, beside it: the benchmarks above but for learning, each in a separate process.
    All(all::AllArgs),
    /// Receives bodies and discards them: the yardstick of `aggregate`.
    #[command(hide = true)]
    Sink,
    /// The coordinator that is measured, as `tributary serve` starts it.
    #[command(hide = true)]
    Serve(Box<ServeArgs>),
    /// A relay of it, as `tributary relay` starts it.
    #[command(hide = true)]
    Relay {
        #[command(flatten)]
        args: Box<RelayArgs>,
        #[arg(long, env = "TRIBUTARY_TOKEN", hide_env_values = true)]
        token: Option<Sealed<String>>,
    },
}

fn main() -> ExitCode {
    let CommandLine { json, command } = CommandLine::parse();
    allocator::set_up(false);
    #[expect(clippy::disallowed_methods, reason = "what is printed shows the time of day; no rule reads it")]
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let output = Output::of_process(json, now_ms);
    match runtime().and_then(|runtime| runtime.block_on(run(command, &output))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

async fn run(command: BenchCommand, output: &Output) -> Result<(), CliError> {
    match command {
        BenchCommand::Round(args) => round::run(&args, output).await,
        BenchCommand::Load(args) => load::run(&args, output).await,
        BenchCommand::Recovery(args) => recovery::run(&args, output).await,
        BenchCommand::Aggregate(args) => aggregate::run(&args, output).await,
        BenchCommand::Rollout(args) => rollout::run(&args, output).await,
        BenchCommand::Soak(args) => soak::run(&args, output).await,
        BenchCommand::Codec(args) => codec::run(&args, output).await,
        BenchCommand::All(args) => all::run(&args, output).await,
        BenchCommand::Sink => sink::run(output).await,
        BenchCommand::Serve(args) => serve::run(*args, None, output).await,
        BenchCommand::Relay { args, token } => relay::run(*args, token.as_ref(), None, output).await,
        BenchCommand::Tree(args) => tree::run(&args, output).await,
        BenchCommand::Shards(args) => shards::run(&args, output).await,
        BenchCommand::Ring(args) => ring::run(&args, output).await,
        BenchCommand::Lobby(args) => lobby::run(&args, output).await,
        BenchCommand::Coded(args) => coded::run(&args, output).await,
        BenchCommand::Gossip(args) => gossip::run(&args, output).await,
        BenchCommand::Tempo(args) => tempo::run(&args, output).await,
        BenchCommand::Privacy(args) => privacy::run(&args, output).await,
        BenchCommand::Secure(args) => secure::cost::run(&args, output).await,
        BenchCommand::SecureLine(args) => secure::delivery::run(&args, output).await,
        BenchCommand::SecureTraining(args) => secure::training::run(&args, output).await,
        BenchCommand::Train(args) => train::run(&args, output).await,
        BenchCommand::Predict(args) => predict::run(&args, output).await,
        BenchCommand::Training(args) => training::run(&args, output).await,
        BenchCommand::Rules(args) => rules::run(&args, output).await,
        BenchCommand::Attack(args) => attack::run(&args, output).await,
    }
}
