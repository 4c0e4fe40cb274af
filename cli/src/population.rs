//! `tributary population`: the clients of one app or model family.

use clap::Subcommand;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::Unit;
use tributary_protocol::operator::{BudgetState, Population, SharedBudget};
use tributary_protocol::problem::ProblemType;

use crate::api::{Api, ApiError, collect, collect_newest};
use crate::error::CliError;
use crate::format::{count, relative};
use crate::options::LimitArgs;
use crate::output::{self, Output};
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
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Shows what the private jobs of a population may spend together, and have spent; with --epsilon, sets it.
    Budget {
        /// The population.
        #[arg(value_name = "NAME")]
        name: Name,
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Lists populations, the newest first.
    List {
        #[command(flatten)]
        limit: LimitArgs,
    },
}

/// A budget that all jobs share.
#[derive(Debug, clap::Args)]
pub(crate) struct BudgetArgs {
    /// The epsilon that all jobs of the population share; each of them then needs [privacy].
    #[arg(long, value_name = "NUMBER", requires = "delta")]
    epsilon: Option<f64>,
    /// The chance that its promise does not hold.
    #[arg(long, value_name = "NUMBER", requires = "epsilon")]
    delta: Option<f64>,
    /// Protects all clients together that were granted the same value of this attribute [default: each client].
    #[arg(long, value_name = "ATTRIBUTE", requires = "epsilon")]
    unit: Option<String>,
}

impl BudgetArgs {
    fn budget(self) -> Option<SharedBudget> {
        let unit = self.unit.map_or(Unit::Client, Unit::Attribute);
        Some(SharedBudget { epsilon: self.epsilon?, delta: self.delta?, unit })
    }
}

pub(crate) async fn run(command: PopulationCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        PopulationCommand::Create { name, if_missing, budget } => {
            let population = match api.create_population(name.clone(), budget.budget()).await {
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
        PopulationCommand::Budget { name, budget } => {
            let state = match budget.budget() {
                Some(budget) => api.set_population_budget(&name, &budget).await?,
                None => api.population_budget(&name).await?,
            };
            output.object(&state, || budget_text(&name, state.budget.as_ref(), output))
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

fn budget_text(name: &Name, state: Option<&BudgetState>, output: &Output) -> String {
    let Some(BudgetState { budget, spent, jobs }) = state else {
        return format!("the jobs of {name} share no budget; --epsilon and --delta give it one");
    };
    let unit = if let Unit::Attribute(attribute) = &budget.unit { attribute } else { "client" };
    let mut text = format!(
        "spent: epsilon {spent:.4} of {} for each {unit}, by all jobs of {name}; delta {:e}",
        budget.epsilon, budget.delta
    );
    if !jobs.is_empty() {
        let rows = jobs.iter().map(|part| vec![part.name.to_string(), format!("{:.4}", part.epsilon)]);
        text.push_str("\n\n");
        text.push_str(output::table(&["job", "epsilon, alone"], rows, output.width).trim_end());
    }
    text
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
