//! What privacy costs, and what it prevents: accuracy of private jobs, attacks on what training leaks, and audits.
//!
//! | file | content |
//! |---|---|
//! | [`fleet`] | accuracy of private jobs beside that of the same job without noise, in simulated time |
//! | [`utility`] | accuracy of clients with one digit each, by noise |
//! | [`inversion`] | images that are read from updates |
//! | [`canaries`] | clients whose wrong labels tell that they took part |
//! | [`audit`] | the least epsilon that fits how many canaries were found |
//! | [`plays`] | the least delta that fits many plays of the mechanism on two neighbours |
//! | [`federated`] | federated training in one process |
//! | [`protection`] | clips and noise of sums, and what they promise |
//! | [`digits`] | digits in another order for each seed, and the network that learns them |
//! | [`row`] | a line of the output |

mod audit;
mod canaries;
mod digits;
mod federated;
mod fleet;
mod inversion;
mod plays;
mod protection;
mod row;
mod utility;

use clap::{Args, ValueEnum};
use tributary::error::CliError;
use tributary::output::Output;
use tributary_protocol::seed::Seed;

use crate::error::BenchError;
use fleet::FleetArgs;
use row::Row;

#[derive(Clone, Debug, Args)]
pub(crate) struct PrivacyArgs {
    /// What to measure. May be repeated. All but `fleet` learn the embedded digits.
    #[arg(long = "attack", value_enum, value_name = "ATTACK", default_values_t = [Attack::Fleet])]
    attacks: Vec<Attack>,
    /// A seed of every random choice. May be repeated.
    #[arg(long = "seed", value_name = "NUMBER", default_values_t = [7])]
    seeds: Vec<u64>,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Attack {
    /// Private jobs of a simulated fleet, by epsilon: no attack.
    Fleet,
    /// Accuracy of 1,300 clients with one digit each, by noise: no attack.
    Utility,
    /// Reads the image from the update of a client with one example.
    Inversion,
    /// Tells from the losses of wrong labels which clients took part.
    Canaries,
    /// Lower bounds on epsilon and delta, from canaries and from 100,000 plays of the mechanism.
    Audit,
}

pub(crate) async fn run(args: &PrivacyArgs, output: &Output) -> Result<(), CliError> {
    for attack in &args.attacks {
        for seed in &args.seeds {
            let seed = Seed(*seed);
            match attack {
                Attack::Fleet => fleet::run(&args.fleet, seed, output).await?,
                Attack::Utility => told(utility::CASES, seed, utility::measure, output).await?,
                Attack::Inversion => told(inversion::CASES, seed, inversion::measure, output).await?,
                Attack::Canaries => told(canaries::CASES, seed, canaries::measure, output).await?,
                Attack::Audit => {
                    told(audit::CASES, seed, audit::measure, output).await?;
                    told(plays::CASES, seed, plays::measure, output).await?;
                }
            }
        }
    }
    Ok(())
}

/// Measures one case after the other, and prints its rows.
async fn told<C: Copy + Send + 'static>(
    cases: &[C],
    seed: Seed,
    measure: fn(C, Seed) -> Result<Vec<Row>, BenchError>,
    output: &Output,
) -> Result<(), CliError> {
    for case in cases.iter().copied() {
        // The computation takes seconds and would block other tasks.
        let rows = tokio::task::spawn_blocking(move || measure(case, seed)).await.map_err(CliError::task)??;
        for row in rows {
            output.object(&row, || row.text())?;
        }
    }
    Ok(())
}
