//! The draw of a coordinator or relay in a coded tree: a member for each row of its code, and a client that trains on
//! the parts which a relay keeps.
//!
//! A relay tells which parts clients behind it hold, each with the number of these clients. It fits a row if each part
//! that it keeps is there once, and each that it hands down at `s + 1` clients. Whether these clients' parts go
//! together is seen by the relay alone: where they do not, its round waits for others, and it gives its place back.

use std::sync::Arc;

use tributary_protocol::coded::{Code, CodedPart, CodedShare};
use tributary_protocol::coded_tree::{Branch, TreeShare};
use tributary_protocol::job_file::{Coded, JobFile};
use tributary_protocol::state::Task;

use super::candidate::Candidate;
use super::policy::TaskPolicy;
use crate::coded::holders::{PartSet, match_rows};
use crate::coded::reduce::{Member, Parts, Reduce};
use crate::coded::rows::Rows;
use crate::coded::tree::Tree;

/// The members that a parent of a coded tree draws.
#[derive(Clone, Debug)]
pub(super) struct TreeRows<'a> {
    coded: &'a Coded,
    rows: Vec<TreeRow>,
}

/// What one of them does.
#[derive(Clone, Debug)]
struct TreeRow {
    kept: Parts,
    /// The parts that a relay hands down; none of a client.
    rest: Parts,
    tree: TreeShare,
}

impl<'a> TreeRows<'a> {
    /// The members below this one. None for a job without a tree, and in a place that the tree does not have or that
    /// has nobody below.
    pub(super) fn of(coded: &'a Coded, code: &Rows, branch: Branch) -> Option<Self> {
        let (tree, load) = (coded.tree?, coded.load());
        let (children, stragglers) = (u32::from(tree.children), u32::from(coded.stragglers));
        let shape = Tree::new(children, tree.levels.into(), stragglers).ok()?;
        let reduce = Reduce::with(shape, code)?;
        let path = branch.rows(children)?;
        let parent = reduce.member(&path);
        let members = if path.is_empty() { reduce.children() } else { &parent?.children };
        let keeps = usize::from(!path.is_empty());
        let entries = |row: &[(usize, f64)]| {
            let mut entries = vec![0.0; keeps + children as usize];
            row.iter().for_each(|(run, coefficient)| entries[keeps + run] = *coefficient);
            entries
        };
        let child = |(row, member): (u32, &Member)| TreeRow {
            kept: member.kept.clone(),
            rest: member.rest.clone(),
            tree: TreeShare {
                entries: entries(&code.row(row as usize)),
                block: (coded.code == Code::Fractional).then_some((row / load) as u16),
                enough: (coded.code == Code::Cyclic).then_some((children - stragglers) as u16),
                branch: (!member.children.is_empty()).then(|| branch.child(children, row)),
            },
        };
        let own = parent.map(|parent| TreeRow {
            kept: parent.kept.clone(),
            rest: Vec::new(),
            tree: TreeShare {
                entries: std::iter::once(1.0).chain(std::iter::repeat_n(0.0, children as usize)).collect(),
                block: None,
                enough: None,
                branch: None,
            },
        });
        let rows: Vec<TreeRow> = own.into_iter().chain((0..).zip(members).map(child)).collect();
        (rows.len() > keeps).then_some(Self { coded, rows })
    }

    /// Who of these gets which row.
    fn matched(&self, candidates: &[Arc<Candidate>]) -> Vec<Option<usize>> {
        let rows: Vec<PartSet> = (0..self.rows.len()).map(|row| [row].into_iter().collect()).collect();
        let able = |candidate: &Arc<Candidate>| {
            let fitting = (0..self.rows.len()).filter(|row| self.fits(&self.rows[*row], candidate));
            fitting.collect::<PartSet>()
        };
        match_rows(&rows, &candidates.iter().map(able).collect::<Vec<_>>())
    }

    fn fits(&self, row: &TreeRow, candidate: &Candidate) -> bool {
        if candidate.relay.is_some() != row.tree.branch.is_some() {
            return false;
        }
        let has = |parts: &Parts, least: u64| parts.iter().all(|(part, _)| self.holders(*part, candidate) >= least);
        has(&row.kept, 1) && has(&row.rest, self.coded.load().into())
    }

    /// Clients with this part at a candidate.
    fn holders(&self, part: usize, candidate: &Candidate) -> u64 {
        let told = candidate.sets.get(&self.coded.parts[part]).map_or(0, |set| set.examples);
        if candidate.relay.is_some() { told } else { told.min(1) }
    }

    /// A member for each row, each with its share; none while a row lacks its member.
    pub(super) fn shared_out(&self, eligible: &[Arc<Candidate>]) -> Option<Vec<Arc<Candidate>>> {
        let weight = 1.0 / self.coded.parts.len() as f64;
        let drawn = self.matched(eligible).into_iter().zip(&self.rows).enumerate().map(|(row, (member, it))| {
            let part = |(place, coefficient): &(usize, f64)| CodedPart {
                place: *place as u16,
                name: self.coded.parts[*place].clone(),
                coefficient: *coefficient,
                weight,
            };
            let parts = it.kept.iter().chain(&it.rest).map(part).collect();
            let share = CodedShare { code: self.coded.code, row: row as u16, parts, tree: Some(it.tree.clone()) };
            Some(Arc::new(Candidate { share: Some(Box::new(share)), ..Candidate::clone(&eligible[member?]) }))
        });
        drawn.collect()
    }

    /// What the draw lacks, in words; none if each row has its member.
    pub(super) fn lacking(&self, eligible: &[Arc<Candidate>]) -> Option<String> {
        let (matched, names) = (self.matched(eligible), &self.coded.parts);
        let lacks = &self.rows[matched.iter().position(Option::is_none)?];
        let wanted = |part: usize| -> u64 {
            let times = |parts: &Parts, times: u64| if parts.iter().any(|(it, _)| *it == part) { times } else { 0 };
            self.rows.iter().map(|row| times(&row.kept, 1) + times(&row.rest, self.coded.load().into())).sum()
        };
        let mut parts = lacks.kept.iter().chain(&lacks.rest).map(|(part, _)| *part);
        let rare = parts.find_map(|part| {
            let (held, wanted) = (eligible.iter().map(|one| self.holders(part, one)).sum::<u64>(), wanted(part));
            (held < wanted).then(|| format!("part {} is held by {held} of {wanted} clients", names[part]))
        });
        let (count, members) = (matched.iter().flatten().count(), self.rows.len());
        let what = if lacks.tree.branch.is_some() { "relays" } else { "members" };
        Some(rare.unwrap_or_else(|| format!("{count} of {members} {what} hold parts that go together")))
    }
}

impl TaskPolicy {
    /// The policy of a relay's part of a coded round, in `left_ms` milliseconds: the parts that it keeps, and as many
    /// children as are enough. None for a job without a tree, and for a place that has nobody below.
    #[must_use]
    pub fn of_branch(job: &JobFile, code: Option<&Rows>, branch: Branch, left_ms: i64) -> Option<Self> {
        let coded = job.coded.as_ref()?;
        let is_inner = branch.level > 0 && TreeRows::of(coded, code?, branch).is_some();
        let members = coded.clients() + 1;
        let part = Self::of_part(job, Task::Train, members, members, left_ms).filter(|_| is_inner)?;
        let goal = coded.goal() + 1;
        Some(Self { goal, minimum: goal, branch: Some(branch), ..part })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tributary_protocol::example_sets::ExampleSet;
    use tributary_protocol::id::Name;
    use tributary_protocol::seed::Seed;

    use super::super::coded::Coding;
    use super::super::known::fixture::candidate;
    use super::super::played::job_file;
    use super::*;
    use crate::coded::cyclic::decode;

    fn tree_job(parts: usize, tree: &str, code: &str) -> (JobFile, Rows) {
        let names: Vec<String> = (0..parts).map(|place| format!("'p{place}'")).collect();
        let file = job_file(&format!(
            "update.codec = 'f32'\naggregation.combine = 'uniform_mean'\n\
             coded = {{ parts = [{}], stragglers = 1, code = '{code}', tree = {{ {tree} }} }}",
            names.join(", ")
        ));
        let coded = file.coded.as_ref().unwrap();
        let rows = Rows::of(coded.code, coded.clients() as usize, coded.stragglers.into()).unwrap();
        (file, rows)
    }

    /// A client with these parts; a relay behind which so many clients have each of them.
    fn holder(number: u64, parts: &[usize], relay: Option<u64>) -> Arc<Candidate> {
        let examples = relay.unwrap_or(40);
        let set = |place: &usize| (Name::try_from(format!("p{place}")).unwrap(), ExampleSet::of(examples));
        let sets = parts.iter().map(set).collect::<BTreeMap<_, _>>().try_into().unwrap();
        Arc::new(Candidate { sets, relay: relay.map(|_| 0), ..Candidate::clone(&candidate(number)) })
    }

    fn drawn(job: &(JobFile, Rows), branch: Branch, eligible: &[Arc<Candidate>]) -> Option<Vec<CodedShare>> {
        let coding = Coding::of(&job.0, Some(&job.1), Some(branch)).unwrap();
        let cohort = coding.shared_out(eligible.to_vec(), Seed(5))?;
        assert!(cohort.iter().all(|candidate| candidate.places() == 1), "a combination is one update");
        let mut shares: Vec<CodedShare> = cohort.iter().map(|it| *it.share.clone().unwrap()).collect();
        shares.sort_by_key(|share| share.row);
        Some(shares)
    }

    /// What answers of these shares come to: of each part, how often it counts. The first ones of each block are read.
    fn counted(job: &(JobFile, Rows), shares: &[CodedShare], branch: Branch) -> Vec<f64> {
        let rows: Vec<&[f64]> = shares.iter().map(|share| share.tree.as_ref().unwrap().entries.as_slice()).collect();
        let weights = decode(&rows).unwrap();
        let mut sum = vec![0.0; job.0.coded.as_ref().unwrap().parts.len()];
        for (share, weight) in shares.iter().zip(weights) {
            let below = match share.tree.as_ref().unwrap().branch {
                Some(below) => counted(job, &answers(job, below), below),
                None => {
                    let mut own = vec![0.0; sum.len()];
                    share.parts.iter().for_each(|part| own[usize::from(part.place)] += part.coefficient);
                    own
                }
            };
            assert!(branch.level < 3);
            sum.iter_mut().zip(below).for_each(|(sum, value)| *sum += weight * value);
        }
        sum
    }

    /// The answers to a parent whose last children are lost.
    fn answers(job: &(JobFile, Rows), branch: Branch) -> Vec<CodedShare> {
        let all: Vec<usize> = (0..job.0.coded.as_ref().unwrap().parts.len()).collect();
        let relays = (0..9).map(|number| holder(number, &all, Some(9)));
        let clients = (10..20).map(|number| holder(number, &all, None));
        let mut shares = drawn(job, branch, &relays.chain(clients).collect::<Vec<_>>()).unwrap();
        let lost = shares.pop().unwrap();
        let mut blocks: Vec<u16> = Vec::new();
        let is_new = |share: &CodedShare| {
            share.block().is_none_or(|block| {
                !blocks.contains(&block) && {
                    blocks.push(block);
                    true
                }
            })
        };
        let mut is_new = is_new;
        shares.retain(|share| is_new(share));
        assert!(lost.tree.is_some());
        shares
    }

    /// Goal: at each place the shares of all rows but the last decode to every part once, through all levels.
    #[test]
    fn what_members_are_drawn_for_decodes_to_every_part_once() {
        for (parts, tree, code) in
            [(15, "children = 3, levels = 2", "cyclic"), (24, "children = 4, levels = 2", "fractional")]
        {
            let job = tree_job(parts, tree, code);
            let times = counted(&job, &answers(&job, Branch::ROOT), Branch::ROOT);
            assert!(times.iter().all(|times| (times - 1.0).abs() < 1e-9), "{tree}: {times:?}");
        }
    }

    #[test]
    fn relays_and_clients_have_places_of_their_own() {
        let job = tree_job(15, "children = 3, levels = 2", "cyclic");
        let all: Vec<usize> = (0..15).collect();
        let relays: Vec<_> = (0..3).map(|number| holder(number, &all, Some(2))).collect();
        let root = drawn(&job, Branch::ROOT, &relays).unwrap();
        let branches: Vec<_> = root.iter().map(|share| share.tree.as_ref().unwrap().branch.unwrap().member).collect();
        assert_eq!((branches, root[0].parts.len()), (vec![0, 1, 2], 10));
        let clients: Vec<_> = (0..4).map(|number| holder(number, &all, None)).collect();
        assert_eq!(drawn(&job, Branch::ROOT, &clients), None, "clients relay nothing");
        let below = Branch::ROOT.child(3, 1);
        let shares = drawn(&job, below, &clients).unwrap();
        let enough: Vec<_> = shares.iter().map(|share| share.tree.as_ref().unwrap().enough).collect();
        assert_eq!(enough, [None, Some(2), Some(2), Some(2)]);
        assert!(shares.iter().all(|share| share.parts.len() == 4));
        assert_eq!(drawn(&job, below, &clients[1..]), None, "three of four");
        let coded = job.0.coded.as_ref().unwrap();
        for nobody in [Branch { level: 2, member: 0 }, Branch { level: 1, member: 3 }, Branch { level: 9, member: 0 }] {
            assert!(TreeRows::of(coded, &job.1, nobody).is_none(), "{nobody:?}");
            assert_eq!(TaskPolicy::of_branch(&job.0, Some(&job.1), nobody, 1_000), None);
        }
        let policy = TaskPolicy::of_branch(&job.0, Some(&job.1), below, 1_000).unwrap();
        assert_eq!((policy.goal, policy.minimum, policy.cohort_size, policy.available_min), (3, 3, 4, 4));
        assert_eq!((policy.branch, policy.deadline_ms), (Some(below), 1_000));
        assert_eq!(TaskPolicy::of_branch(&job.0, Some(&job.1), Branch::ROOT, 1_000), None);
    }

    #[test]
    fn what_a_tree_lacks_is_named() {
        let job = tree_job(15, "children = 3, levels = 2", "cyclic");
        let lacking = |branch, eligible: &[Arc<Candidate>]| {
            Coding::of(&job.0, Some(&job.1), Some(branch)).unwrap().lacking(eligible)
        };
        let all: Vec<usize> = (0..15).collect();
        let relays: Vec<_> = (0..3).map(|number| holder(number, &all, Some(2))).collect();
        assert_eq!(lacking(Branch::ROOT, &relays), None);
        assert_eq!(lacking(Branch::ROOT, &relays[..2]).unwrap(), "2 of 3 relays hold parts that go together");
        let few = [holder(0, &all, Some(1)), holder(1, &all, Some(1)), holder(2, &all, Some(1))];
        let said = lacking(Branch::ROOT, &few).unwrap();
        assert!(said.starts_with("part p") && said.contains(" is held by 3 of "), "{said}");
        let below = Branch::ROOT.child(3, 0);
        let clients: Vec<_> = (0..4).map(|number| holder(number, &all, None)).collect();
        assert_eq!(lacking(below, &clients), None);
        assert_eq!(lacking(below, &clients[..3]).unwrap(), "3 of 4 members hold parts that go together");
        assert_eq!(lacking(below, &[]).unwrap(), "part p0 is held by 0 of 1 clients");
    }
}
