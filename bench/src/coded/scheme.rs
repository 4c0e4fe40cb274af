//! The schemes of a coded benchmark: what each member trains on, and the job that plays it.

use tributary::error::CliError;
use tributary_engine::coded::reduce::{Member, Reduce, code_of, kept_of, parts_of};
use tributary_engine::coded::tree::Tree;
use tributary_protocol::coded::Code;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::JobFile;

use super::args::{CodedArgs, ROUND_S_MAX, WARM_UP_ROUNDS};
use crate::fleet;

/// Levels of a coded tree.
const LEVELS: u32 = 2;

/// What members train on, and when a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Star,
    OverSelected,
    Coded,
    Tree,
    Ring,
}

impl Scheme {
    /// Those that can be played. The star comes first: its model is that of all parts.
    pub(super) fn all(args: &CodedArgs) -> impl Iterator<Item = Self> {
        let has_tree = tree(args).is_some();
        let all = [Self::Star, Self::OverSelected, Self::Coded, Self::Tree, Self::Ring];
        all.into_iter().filter(move |scheme| has_tree || *scheme != Self::Tree)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Star => "star",
            Self::OverSelected => "star, over-selected",
            Self::Coded => "coded",
            Self::Tree => "coded tree",
            Self::Ring => "ring",
        }
    }

    /// Parts of all data.
    pub(super) fn parts(self, args: &CodedArgs) -> usize {
        match self {
            Self::Tree => tree(args).and_then(parts_of).unwrap_or_default(),
            Self::Star | Self::OverSelected | Self::Coded | Self::Ring => args.members.into(),
        }
    }

    /// Parts of each member.
    fn parts_each(self, args: &CodedArgs) -> usize {
        match self {
            Self::Coded => usize::from(args.stragglers) + 1,
            Self::Tree => tree(args).and_then(kept_of).unwrap_or_default(),
            Self::Star | Self::OverSelected | Self::Ring => 1,
        }
    }

    /// The share of all data that each member trains on.
    pub(super) fn load(self, args: &CodedArgs) -> f64 {
        self.parts_each(args) as f64 / self.parts(args) as f64
    }

    /// The parts that a member holds by name; none where it trains on its own.
    pub(super) fn named_parts(self, args: &CodedArgs, place: u16) -> Vec<usize> {
        match self {
            Self::Star | Self::OverSelected | Self::Ring => Vec::new(),
            Self::Coded => {
                let (place, load) = (usize::from(place), self.parts_each(args));
                let block = place / load * load;
                (block..block + load).collect()
            }
            Self::Tree => {
                let reduce = tree(args).and_then(Reduce::of);
                let members = reduce.iter().flat_map(Reduce::children);
                let mut members = members.flat_map(|relay| std::iter::once(relay).chain(&relay.children));
                let parts = |member: &Member| member.kept.iter().map(|(part, _)| *part).collect();
                members.nth(place.into()).map(parts).unwrap_or_default()
            }
        }
    }

    /// Clients of each relay; none without relays. Members are in the order of their relays, and the one beside the
    /// relay is the first of each.
    pub(super) fn per_relay(self, args: &CodedArgs) -> Option<u32> {
        tree(args).filter(|_| self == Self::Tree).map(|tree| 1 + tree.children())
    }
}

/// The tree whose members these are, if there is one that has a code.
fn tree(args: &CodedArgs) -> Option<Tree> {
    let members = u32::from(args.members);
    let children = (2..members).find(|children| children * (children + 1) == members)?;
    let tree = Tree::new(children, LEVELS, args.stragglers.into()).ok()?;
    code_of(tree).map(|_| tree)
}

pub(super) fn part_name(part: usize) -> Name {
    format!("part-{part}").parse().expect("letters, digits and a dash make a name")
}

pub(super) fn job_file(args: &CodedArgs, scheme: Scheme, population: &Name) -> Result<JobFile, CliError> {
    let CodedArgs { members, stragglers, parameters, .. } = args;
    let (rounds, round_ms) = (args.rounds + WARM_UP_ROUNDS, 1000 * ROUND_S_MAX);
    let goal = |goal: u16| {
        let over_selection = f64::from(*members) / f64::from(goal);
        format!("updates_goal = {goal}, updates_min = {goal}, over_selection = {over_selection:?}, ")
    };
    let coded = |code: Code, more: &str| {
        let parts: Vec<String> = (0..scheme.parts(args)).map(|part| format!("'{}'", part_name(part))).collect();
        let (parts, code) = (parts.join(", "), code.as_str());
        format!("coded = {{ parts = [{parts}], stragglers = {stragglers}, code = '{code}'{more} }}")
    };
    let (counts, table) = match scheme {
        Scheme::Star => (goal(*members), String::new()),
        Scheme::OverSelected => (goal(members - stragglers), String::new()),
        Scheme::Ring => (goal(*members), "group = { topology = { kind = 'ring' } }".to_owned()),
        Scheme::Coded => (String::new(), coded(Code::Fractional, "")),
        Scheme::Tree => {
            let children = tree(args).map_or(0, Tree::children);
            let is_fractional = children.is_multiple_of(u32::from(*stragglers) + 1);
            let code = if is_fractional { Code::Fractional } else { Code::Cyclic };
            let coded = coded(code, &format!(", tree = {{ children = {children}, levels = {LEVELS} }}"));
            (String::new(), format!("aggregation = {{ combine = 'uniform_mean' }}\n{coded}"))
        }
    };
    fleet::job_file(&format!(
        "name = 'coded'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{parameters}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         update = {{ codec = 'f32' }}\n\
         round = {{ {counts}selection_timeout_ms = {round_ms}, deadline_ms = {round_ms} }}\n\
         stop = {{ rounds = {rounds} }}\n{table}\n"
    ))
}
