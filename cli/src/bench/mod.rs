//! `tributary bench`: measures this build on this machine, with traffic on the loopback address only. Every run ends by
//! itself.

mod aggregate;
mod all;
mod attack;
mod codec;
mod device;
mod error;
mod fleet;
mod load;
mod populations;
mod process;
mod recovery;
mod round;
mod rules;
mod sink;
mod tempo;
mod train;
mod training;

use clap::Subcommand;

use crate::error::CliError;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Wall time of a round: a coordinator on SQLite, and clients whose training takes no time.
    Round(round::RoundArgs),
    /// Check-ins and updates per second, and memory per held client: a coordinator in a process of its own.
    Load(load::LoadArgs),
    /// Time from the restart of a killed coordinator until it serves and has rebuilt the sum of its open round.
    Recovery(recovery::RecoveryArgs),
    /// Processor time, memory and wall time of rounds of large updates: a coordinator in a process of its own.
    Aggregate(aggregate::AggregateArgs),
    /// Bits per parameter, error and speed of update codecs, in this process.
    Codec(codec::CodecArgs),
    /// Examples per second and memory of a client's local training on MNIST, in this process.
    Train(train::TrainArgs),
    /// Rounds, bytes and accuracy of the same training with different update codecs.
    Training(training::TrainingArgs),
    /// Rounds, bytes and accuracy of the same training with different rules: FedAvg, FedProx, SCAFFOLD and others.
    Rules(rules::RulesArgs),
    /// Accuracy of the same training while some clients send wrong updates, with different rules to combine them.
    Attack(attack::AttackArgs),
    /// Simulated time to an accuracy with clients of different speeds: synchronous, buffered and asynchronous rounds.
    Tempo(tempo::TempoArgs),
    /// Every figure with a target, beside it: the benchmarks above but for learning, each in a process of its own.
    All(all::AllArgs),
    /// Receives bodies and discards them: the yardstick of `bench aggregate`.
    #[command(hide = true)]
    Sink,
}

pub(crate) async fn run(command: &BenchCommand, output: &Output) -> Result<(), CliError> {
    match command {
        BenchCommand::Round(args) => round::run(args, output).await,
        BenchCommand::Load(args) => load::run(args, output).await,
        BenchCommand::Recovery(args) => recovery::run(args, output).await,
        BenchCommand::Aggregate(args) => aggregate::run(args, output).await,
        BenchCommand::Codec(args) => codec::run(args, output).await,
        BenchCommand::All(args) => all::run(args, output).await,
        BenchCommand::Sink => sink::run(output).await,
        BenchCommand::Tempo(args) => tempo::run(args, output).await,
        BenchCommand::Train(args) => train::run(args, output).await,
        BenchCommand::Training(args) => training::run(args, output).await,
        BenchCommand::Rules(args) => rules::run(args, output).await,
        BenchCommand::Attack(args) => attack::run(args, output).await,
    }
}
