//! `tributary tree`: what a tree of members comes to, before anything is started.

use clap::{Args, Subcommand};
use serde::Serialize;
use tributary_engine::coded::reduce::{Member, Reduce, code_of, kept_of, parts_of};
use tributary_engine::coded::time::{Costs, Expected, Scheme, expected};
use tributary_engine::coded::tree::Tree;
use tributary_protocol::coded::PARTS_MAX;
use tributary_protocol::job_file::CodedTree;

use crate::error::CliError;
use crate::format::{count, duration_ms, percent};
use crate::output::Output;
use crate::units::Bandwidth;

/// Most parts that are listed, those of each member counted.
const LISTED_MAX: u64 = 1_000_000;
/// Bits of a parameter on the way, in f32.
const BITS: f64 = 32.0;

#[derive(Debug, Subcommand)]
pub(crate) enum TreeCommand {
    /// Says how long a round is expected to take in a star, in a tree of relays, with redundant members and in a ring,
    /// and what each bears. Needs no coordinator.
    Plan(PlanArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArgs {
    /// Children of each parent.
    #[arg(long, value_name = "COUNT")]
    children: u32,
    /// Levels below the root.
    #[arg(long, value_name = "COUNT")]
    levels: u32,
    /// Children without which a parent of a coded tree has its sum.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    stragglers: u32,
    /// Parameters of the model, sent as f32.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    parameters: u64,
    /// What each link carries: a number and kbit, mbit or gbit a second.
    #[arg(long, default_value = "100mbit", value_name = "RATE")]
    bandwidth: Bandwidth,
    /// The mean time in which one member would work on all data, in milliseconds.
    #[arg(long, default_value_t = 60_000, value_name = "MILLISECONDS")]
    compute_ms: u64,
    /// Lists which parts of the data each member of the coded tree holds, and compares nothing. With one level these
    /// are the clients of a coded job. With more, a member with others below it is a client beside a relay.
    #[arg(long)]
    shares: bool,
}

/// A member of a coded tree. Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Holder {
    /// The number of the child at each level, from 1, as 2.3: the third child of the second one.
    member: String,
    /// Numbers of its parts, from 1.
    parts: Vec<usize>,
}

/// A row. Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Row {
    scheme: &'static str,
    /// Whether this release has it: coded trees are small ones.
    is_built: bool,
    members: u64,
    /// The fraction of all data that each member works on.
    load: f64,
    /// The share of the members, or of each parent's children, without which the sum is whole.
    resilience: f64,
    /// Vectors that the busiest link takes in one after the other.
    vectors: f64,
    expected_ms: f64,
}

pub(crate) fn run(command: &TreeCommand, output: &Output) -> Result<(), CliError> {
    let TreeCommand::Plan(args) = command;
    let tree = Tree::new(args.children, args.levels, args.stragglers)
        .map_err(|error| CliError::BadSetting(error.to_string()))?;
    if args.shares {
        return shares(tree, output);
    }
    let transfer = args.parameters as f64 * BITS / args.bandwidth.bits_per_s() * 1000.0;
    let rows = expected(tree, Costs { compute: args.compute_ms as f64, transfer }).map(|it| row(tree, it));
    output.list(&rows, &["sums meet in", "members", "load", "does without", "vectors", "expected"], |row| {
        let built = if row.is_built { "" } else { " (too large for a job)" };
        vec![
            row.scheme.replace('_', " ") + built,
            count(row.members),
            percent(row.load),
            percent(row.resilience),
            format!("{:.1}", row.vectors),
            duration_ms(row.expected_ms as u64),
        ]
    })?;
    if args.stragglers > 0 {
        output.note(&coded(tree));
    }
    output.note("expected: members work for exponential times, and a link takes in one vector at a time");
    Ok(())
}

/// Lists the parts of each member.
fn shares(tree: Tree, output: &Output) -> Result<(), CliError> {
    let listed = kept_of(tree).and_then(|kept| (kept as u64).checked_mul(tree.members()));
    if listed.is_none_or(|listed| listed > LISTED_MAX) {
        return Err(CliError::BadSetting("--shares: a list of more than a million parts".into()));
    }
    let reduce = Reduce::of(tree).ok_or_else(|| CliError::BadSetting(coded(tree)))?;
    let mut holders = Vec::new();
    hold(reduce.children(), "", &mut holders);
    output.list(&holders, &["member", "parts"], |Holder { member, parts }| {
        let parts: Vec<String> = parts.iter().map(usize::to_string).collect();
        vec![member.clone(), parts.join(", ")]
    })
}

fn hold(members: &[Member], above: &str, holders: &mut Vec<Holder>) {
    for (number, Member { kept, children, .. }) in (1..).zip(members) {
        let member = if above.is_empty() { format!("{number}") } else { format!("{above}.{number}") };
        let parts = kept.iter().map(|(part, _)| part + 1).collect();
        holders.push(Holder { member: member.clone(), parts });
        hold(children, &member, holders);
    }
}

/// How the data is cut for a code of each parent and its children.
fn coded(tree: Tree) -> String {
    let (children, stragglers) = (tree.children(), tree.stragglers());
    match (code_of(tree), parts_of(tree), kept_of(tree)) {
        (Some(_), Some(parts), Some(kept)) => {
            format!("coded tree: the data is cut into {parts} parts, of which each member holds {kept}")
        }
        _ => format!("coded tree: there is no code for {children} children of which {stragglers} may be missing"),
    }
}

fn row(tree: Tree, Expected { scheme, members, load, resilience, vectors, time }: Expected) -> Row {
    let (name, is_built) = match scheme {
        Scheme::Star => ("star", true),
        Scheme::Relays => ("relays", true),
        Scheme::GradientCoding => ("gradient_coding", true),
        Scheme::CodedTree => ("coded_tree", is_played(tree)),
        Scheme::Ring => ("ring", true),
    };
    Row { scheme: name, is_built, members, load, resilience, vectors, expected_ms: time }
}

/// Whether a job may have this tree; with one level it is a coded job without one.
fn is_played(tree: Tree) -> bool {
    let [children, levels, stragglers] = [tree.children(), tree.levels(), tree.stragglers()].map(u16::try_from);
    let (Ok(children), Ok(levels), Ok(stragglers)) = (children, levels, stragglers) else { return false };
    let is_star = levels == 1 && usize::from(children) <= PARTS_MAX;
    is_star || CodedTree { children, levels }.is_played(stragglers)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: TreeCommand,
    }

    fn planned(line: &str) -> Result<Vec<Value>, CliError> {
        let (output, printed) = Output::kept(true);
        run(&Line::parse_from(line.split_whitespace()).command, &output)?;
        let text = printed.lock().unwrap().clone();
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    #[test]
    fn a_plan_compares_the_schemes() {
        let rows = planned("tree plan --children 4 --levels 3 --stragglers 1 --parameters 1000000 --compute-ms 32000");
        let rows = rows.unwrap();
        let names: Vec<_> = rows.iter().filter_map(|row| row["scheme"].as_str()).collect();
        assert_eq!(names, ["star", "relays", "gradient_coding", "coded_tree", "ring"]);
        // A vector takes 320 ms, so that work on all data takes as long as 100 of them.
        let star = rows[0]["expected_ms"].as_f64().unwrap();
        assert!((star / (84.0 * 320.0) - 1.0).abs() < 0.01, "{star}");
        assert_eq!((&rows[3]["members"], &rows[3]["resilience"]), (&84.into(), &0.25.into()));
        assert_eq!(rows[1]["members"], 64);
        let built: Vec<_> = rows.iter().filter_map(|row| row["is_built"].as_bool()).collect();
        assert_eq!(built, [true, true, true, false, true]);
        let small = planned("tree plan --children 3 --levels 2 --stragglers 1").unwrap();
        assert_eq!(small[3]["is_built"], true);
    }

    #[test]
    fn the_parts_of_each_member_are_listed() {
        let rows = planned("tree plan --children 4 --levels 1 --stragglers 1 --shares").unwrap();
        let of = |row: &Value| (row["member"].as_str().unwrap().to_owned(), row["parts"].clone());
        let wanted = [("1", [1, 2]), ("2", [1, 2]), ("3", [3, 4]), ("4", [3, 4])];
        let wanted = wanted.map(|(member, parts)| (member.to_owned(), Value::from(parts.to_vec())));
        assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), wanted);
        let rows = planned("tree plan --children 3 --levels 2 --stragglers 1 --shares").unwrap();
        assert_eq!(rows.len(), 12);
        assert!(rows.iter().all(|row| row["parts"].as_array().unwrap().len() == 4));
        let error = planned("tree plan --children 11 --levels 1 --stragglers 4 --shares").unwrap_err();
        assert!(error.to_string().contains("there is no code for 11 children"), "{error}");
    }

    #[test]
    fn what_cannot_be_planned_is_refused_with_the_reason() {
        let error = planned("tree plan --children 4 --levels 3 --stragglers 4").unwrap_err();
        assert!(error.to_string().contains("does without fewer than it has"), "{error}");
    }
}
