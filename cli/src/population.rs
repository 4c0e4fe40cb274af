//! `tributary population`: the clients of one app or model family.

use clap::Subcommand;
use tributary_protocol::id::Name;
use tributary_protocol::operator::Population;
use tributary_protocol::problem::ProblemType;

use crate::api::{Api, ApiError, collect, collect_newest};
use crate::error::CliError;
use crate::format::{count, relative};
use crate::options::LimitArgs;
use crate::output::Output;
use crate::suggest::{NoSuchName, nearest};

#[derive(Debug, Subcommand)]
pub(crate) enum PopulationCommand {
    /// Creates a population.
    Create {
        /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
        #[arg(value_name = "NAME")]
        name: Name,
        /// Succeeds, too, if the population is there already.
        #[arg(long)]
        if_missing: bool,
    },
    /// Lists populations, the newest first.
    List {
        #[command(flatten)]
        limit: LimitArgs,
    },
}

pub(crate) async fn run(command: PopulationCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        PopulationCommand::Create { name, if_missing } => {
            let population = match api.create_population(name.clone()).await {
                Err(ApiError::Problem(problem)) if if_missing && problem.kind == ProblemType::NameTaken => {
                    return output.object(&serde_json::json!({ "name": name }), || {
                        format!("the population {name} is there already")
                    });
                }
                created => created?,
            };
            output.object(&population, || {
                let name = &population.name;
                format!(
                    "created the population {name}\nnext: `tributary token create --population {name}` for its apps"
                )
            })
        }
        PopulationCommand::List { limit } => {
            let fetch = async |page| api.populations(page).await;
            let created = |population: &Population| population.created_at_ms;
            let populations = collect_newest(limit.items_max(), created, fetch).await?;
            output.list(&populations.items, &["name", "clients", "created"], |population| {
                let created = relative(population.created_at_ms, output.now_ms);
                vec![population.name.to_string(), count(population.clients), created]
            })?;
            output.note_if_cut(populations.is_cut);
            Ok(())
        }
    }
}

/// Refuses a population that does not exist, and names the nearest one.
pub(crate) async fn check_population(name: &Name, api: &Api) -> Result<(), CliError> {
    let known = collect(None, async |page| api.populations(page).await).await?.items;
    if known.iter().any(|population| population.name == *name) {
        return Ok(());
    }
    let near = nearest(name.as_str(), known.iter().map(|population| population.name.as_str()));
    Err(NoSuchName::new("population", name.as_str(), near, "`tributary population list`").into())
}
