//! Several clients in one process: who they are, and which examples each holds.

use clap::Args;
use serde::Deserialize;
use tributary_client::examples::{Examples, ExamplesError, MemoryExamples};
use tributary_protocol::seed::Seed;

use super::compute::Compute;
use super::held_out::{HeldOut, split};
use crate::data::partition::Partition;
use crate::data::{EVALUATOR, labels};
use crate::error::{CliError, Failure};

/// Draws the split of the examples. It is the same in all runs, so that a client keeps its examples.
const SEED: Seed = Seed(7);
const HOLD_OUT_DEFAULT: f64 = 0.2;

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Who evaluates, and fleets (in the file: the table `fleet`)")]
#[serde(deny_unknown_fields, default)]
pub(super) struct FleetArgs {
    /// The fraction of a client's examples on which it evaluates and never trains; 0: it does both with all of them
    /// [default: 0.2].
    #[arg(long, value_name = "FRACTION", value_parser = parse_fraction)]
    hold_out: Option<f64>,
    /// Runs this many clients in this process and splits the examples among them. Each has a separate folder in the
    /// state folder.
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[serde(rename = "clients")]
    pub(super) fleet: Option<u32>,
    /// How the examples are split among the fleet: iid, dirichlet:A (a small A leaves each client few classes), or
    /// shards:N (N shards of one label each) [default: iid].
    #[arg(long, value_name = "PARTITION")]
    #[serde(deserialize_with = "partition")]
    partition: Option<Partition>,
    /// One more client with the attribute role=evaluator, which holds what the others of the fleet hold out: for jobs
    /// whose `[evaluation]` asks for this attribute.
    #[arg(long)]
    evaluator: bool,
}

/// A client to start.
pub(super) struct Member {
    /// Its name in a fleet, and the name of its folder.
    pub(super) name: Option<String>,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) examples: usize,
    pub(super) trainer: HeldOut,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FleetError {
    #[error("evaluator and partition are for a fleet")]
    NoFleet,
    #[error("hold_out must be from 0 to 1")]
    Fraction,
    #[error("an evaluator needs examples that the others hold out")]
    NothingHeldOut,
    #[error("cannot split the examples: {0}")]
    Examples(#[from] ExamplesError),
}

impl Failure for FleetError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoFleet => "add --fleet CLIENTS",
            Self::NothingHeldOut => "choose a larger --hold-out, or a larger table",
            Self::Fraction | Self::Examples(_) => return None,
        };
        Some(hint.into())
    }
}

impl FleetArgs {
    /// Flags, and the file for what they leave open.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            hold_out: self.hold_out.or(file.hold_out),
            fleet: self.fleet.or(file.fleet),
            partition: self.partition.or(file.partition),
            evaluator: self.evaluator || file.evaluator,
        }
    }

    /// The trainer of one client.
    pub(super) fn trainer(&self, examples: MemoryExamples, compute: &Compute) -> Result<HeldOut, CliError> {
        Ok(HeldOut::new(examples, self.fraction()?, compute).map_err(FleetError::from)?)
    }

    fn fraction(&self) -> Result<f64, FleetError> {
        let fraction = self.hold_out.unwrap_or(HOLD_OUT_DEFAULT);
        // clap refuses another one on the command line. A file may still have it.
        if (0.0..=1.0).contains(&fraction) { Ok(fraction) } else { Err(FleetError::Fraction) }
    }

    /// The clients that these settings describe.
    pub(super) fn members(&self, examples: MemoryExamples, compute: &Compute) -> Result<Vec<Member>, CliError> {
        let fraction = self.fraction()?;
        let Some(clients) = self.fleet else {
            if self.evaluator || self.partition.is_some() {
                return Err(FleetError::NoFleet.into());
            }
            let count = examples.len();
            let trainer = self.trainer(examples, compute)?;
            return Ok(vec![Member { name: None, attributes: vec![], examples: count, trainer }]);
        };
        let (train, test) = split(&examples, fraction).map_err(FleetError::from)?;
        let parts = |all: &MemoryExamples| self.parts(all, clients);
        let train_parts = parts(&train)?;
        // Each client also evaluates: on its part of what is held out, if there is enough for all.
        let test_parts = if test.len() >= clients as usize {
            parts(&test)?.into_iter().map(Some).collect()
        } else {
            vec![None; clients as usize]
        };
        let numbered = (1..).zip(train_parts.into_iter().zip(test_parts));
        let mut members: Vec<Member> = numbered
            .map(|(number, (train, test))| {
                let name = format!("client-{number:02}");
                let examples = train.len() + test.as_ref().map_or(0, MemoryExamples::len);
                let attributes = vec![("name".to_owned(), name.clone())];
                Member { name: Some(name), attributes, examples, trainer: HeldOut::of(train, test, compute) }
            })
            .collect();
        if self.evaluator {
            if test.is_empty() {
                return Err(FleetError::NothingHeldOut.into());
            }
            let (role, name) = EVALUATOR;
            let attributes = vec![("name".to_owned(), name.to_owned()), (role.to_owned(), name.to_owned())];
            let examples = test.len();
            members.push(Member {
                name: Some(name.to_owned()),
                attributes,
                examples,
                trainer: HeldOut::of(test, None, compute),
            });
        }
        Ok(members)
    }

    fn parts(&self, examples: &MemoryExamples, clients: u32) -> Result<Vec<MemoryExamples>, CliError> {
        // Examples without one class each are split as if all were of one class.
        let labels = labels(examples).unwrap_or_else(|| vec![0; examples.len()]);
        let split = self.partition.unwrap_or(Partition::Iid).split(&labels, clients as usize, SEED)?;
        let parts: Result<_, ExamplesError> = split.iter().map(|part| examples.subset(part)).collect();
        Ok(parts.map_err(FleetError::from)?)
    }
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    let fraction = text.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| "it must be from 0 to 1".into())
}

fn partition<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Partition>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_client::Trainer;
    use tributary_client::examples::Targets;

    fn thousand() -> MemoryExamples {
        let inputs = (0..1000).map(|value| value as f32).collect();
        MemoryExamples::new(vec![1], inputs, Targets::Classes((0..1000).map(|index| index % 10).collect())).unwrap()
    }

    #[test]
    fn a_fleet_shares_all_examples_and_its_evaluator_has_what_nobody_trains_on() {
        let args = FleetArgs { fleet: Some(4), evaluator: true, ..FleetArgs::default() };
        let members = args.members(thousand(), &Compute::default()).unwrap();
        let names: Vec<_> = members.iter().map(|member| member.name.clone().unwrap()).collect();
        assert_eq!(names, ["client-01", "client-02", "client-03", "client-04", "evaluator"]);
        assert_eq!(members[..4].iter().map(|member| member.examples).sum::<usize>(), 1000);
        let trained: u64 = members[..4].iter().map(|member| member.trainer.examples()).sum();
        assert_eq!(trained + members[4].trainer.examples(), 1000);
        assert!(members[4].attributes.contains(&("role".into(), "evaluator".into())));
    }

    #[test]
    fn an_evaluator_without_a_fleet_or_without_held_out_examples_is_refused() {
        let alone = FleetArgs { evaluator: true, ..FleetArgs::default() };
        assert!(alone.members(thousand(), &Compute::default()).is_err());
        let all_train = FleetArgs { evaluator: true, fleet: Some(2), hold_out: Some(0.0), ..FleetArgs::default() };
        assert!(all_train.members(thousand(), &Compute::default()).is_err());
    }
}
