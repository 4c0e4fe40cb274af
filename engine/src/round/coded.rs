//! The draw of a coded round: a client for each row of the code, among those that hold its parts.

use std::sync::Arc;

use tributary_protocol::coded::{Code, CodedPart, CodedShare};
use tributary_protocol::coded_tree::Branch;
use tributary_protocol::job_file::{Coded, Combine, JobFile};
use tributary_protocol::seed::Seed;

use super::candidate::Candidate;
use super::coded_tree::TreeRows;
use crate::coded::holders::{PartSet, match_rows};
use crate::coded::rows::Rows;

/// The parts of a job that a client holds.
#[must_use]
pub(super) fn held(candidate: &Candidate, coded: &Coded) -> PartSet {
    let has = |place: &usize| candidate.sets.get(&coded.parts[*place]).is_some_and(|set| set.examples > 0);
    (0..coded.parts.len()).filter(has).collect()
}

/// A coded job with its code.
#[derive(Clone, Copy, Debug)]
pub struct Coding<'a> {
    file: &'a JobFile,
    coded: &'a Coded,
    rows: &'a Rows,
    branch: Branch,
}

impl<'a> Coding<'a> {
    /// At this place of a tree, the root if there is none. None for a job that is not coded.
    #[must_use]
    pub fn of(file: &'a JobFile, rows: Option<&'a Rows>, branch: Option<Branch>) -> Option<Self> {
        Some(Self { file, coded: file.coded.as_ref()?, rows: rows?, branch: branch.unwrap_or_default() })
    }

    /// A client for each row, each with its share; none while a row lacks its client. The draw depends on the seed and
    /// on who waits, and not on who came first.
    pub(super) fn shared_out(self, mut eligible: Vec<Arc<Candidate>>, seed: Seed) -> Option<Vec<Arc<Candidate>>> {
        eligible.sort_by_key(|candidate| (candidate.number, candidate.client));
        eligible.dedup_by_key(|candidate| candidate.client);
        seed.derive("cohort", 0).stream().shuffle(&mut eligible);
        let mut drawn = match self.coded.tree {
            Some(_) => self.below()?.shared_out(&eligible)?,
            None => self.drawn(&eligible)?,
        };
        drawn.sort_by_key(|candidate| candidate.number);
        Some(drawn)
    }

    /// The members below its place in a tree.
    fn below(self) -> Option<TreeRows<'a>> {
        TreeRows::of(self.coded, self.rows, self.branch)
    }

    fn drawn(self, eligible: &[Arc<Candidate>]) -> Option<Vec<Arc<Candidate>>> {
        let matched = match_rows(&self.needed(), &self.all_held(eligible));
        let holders: Vec<&Arc<Candidate>> =
            matched.into_iter().map(|member| member.map(|member| &eligible[member])).collect::<Option<_>>()?;
        let weights = self.weights(&holders);
        let drawn = holders.iter().enumerate().map(|(row, holder)| {
            let part = |(place, coefficient): (usize, f64)| CodedPart {
                place: place as u16,
                name: self.coded.parts[place].clone(),
                coefficient,
                weight: weights[place],
            };
            let parts = self.rows.row(row).into_iter().map(part).collect();
            let share = CodedShare { code: self.coded.code, row: row as u16, parts, tree: None };
            Arc::new(Candidate { share: Some(Box::new(share)), ..Candidate::clone(holder) })
        });
        Some(drawn.collect())
    }

    /// What a coded round lacks, in words; none if each row has its client.
    #[must_use]
    pub fn lacking(self, eligible: &[Arc<Candidate>]) -> Option<String> {
        if self.coded.tree.is_some() {
            return self.below()?.lacking(eligible);
        }
        let (members, needed, names) = (self.all_held(eligible), self.needed(), &self.coded.parts);
        let load = self.coded.load() as usize;
        let holders_of = |parts: PartSet| members.iter().filter(|held| held.has(parts)).count();
        let rare = (0..names.len()).find_map(|place| {
            let holders = holders_of([place].into_iter().collect());
            (holders < load).then(|| format!("part {} is held by {holders} of {load} clients", names[place]))
        });
        if rare.is_some() {
            return rare;
        }
        let filled = match_rows(&needed, &members);
        let parts = needed[filled.iter().position(Option::is_none)?];
        let rows = needed.iter().filter(|other| **other == parts).count();
        let holders = holders_of(parts);
        if holders < rows {
            let names: Vec<&str> = parts.places().map(|place| names[place].as_str()).collect();
            return Some(format!("the parts {} are held together by {holders} of {rows} clients", names.join(", ")));
        }
        let count = filled.iter().flatten().count();
        Some(format!("{count} of {} clients hold parts that go together", needed.len()))
    }

    fn all_held(self, candidates: &[Arc<Candidate>]) -> Vec<PartSet> {
        candidates.iter().map(|candidate| held(candidate, self.coded)).collect()
    }

    /// The parts of each row.
    fn needed(self) -> Vec<PartSet> {
        let of = |row| self.rows.row(row).into_iter().map(|(place, _)| place).collect();
        (0..self.rows.members()).map(of).collect()
    }

    /// Each part's share of the mean of a cyclic code: by the examples that the holder of the part's own row told, or
    /// the same for all. 1 for the fractional code.
    fn weights(self, holders: &[&Arc<Candidate>]) -> Vec<f64> {
        if self.coded.code == Code::Fractional {
            return vec![1.0; holders.len()];
        }
        let examples = |(place, holder): (usize, &&Arc<Candidate>)| {
            let told = holder.sets.get(&self.coded.parts[place]).map_or(0, |set| set.examples);
            match self.file.aggregation.combine {
                Combine::UniformMean => 1.0,
                _ => told.clamp(1, self.file.update.weight_max.into()) as f64,
            }
        };
        let weights: Vec<f64> = holders.iter().enumerate().map(examples).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::example_sets::ExampleSet;
    use tributary_protocol::id::Name;

    use super::super::known::fixture::candidate;
    use super::super::played::job_file;
    use super::*;

    fn coded_job(parts: usize, stragglers: usize, code: &str) -> JobFile {
        let names: Vec<String> = (0..parts).map(|place| format!("'p{place}'")).collect();
        job_file(&format!(
            "update.codec = 'f32'\ncoded = {{ parts = [{}], stragglers = {stragglers}, code = '{code}' }}",
            names.join(", ")
        ))
    }

    fn holder(number: u64, parts: &[usize]) -> Arc<Candidate> {
        let set =
            |place: &usize| (Name::try_from(format!("p{place}")).unwrap(), ExampleSet::of(10 * (*place as u64 + 1)));
        let sets = parts.iter().map(set).collect::<std::collections::BTreeMap<_, _>>().try_into().unwrap();
        Arc::new(Candidate { sets, ..Candidate::clone(&candidate(number)) })
    }

    fn rows_of(job: &JobFile) -> Rows {
        let coded = job.coded.as_ref().unwrap();
        Rows::of(coded.code, coded.parts.len(), coded.stragglers.into()).unwrap()
    }

    fn drawn(eligible: &[Arc<Candidate>], job: &JobFile, seed: u64) -> Option<Vec<Arc<Candidate>>> {
        let rows = rows_of(job);
        Coding::of(job, Some(&rows), None).unwrap().shared_out(eligible.to_vec(), Seed(seed))
    }

    #[test]
    fn each_block_has_its_holders_whoever_came_first() {
        let job = coded_job(4, 1, "fractional");
        let all = [0, 1, 2, 3];
        let mut eligible =
            vec![holder(1, &[0, 1]), holder(2, &all), holder(3, &[2, 3]), holder(4, &all), holder(5, &[0, 2])];
        let cohort = drawn(&eligible, &job, 3).unwrap();
        let shares: Vec<&CodedShare> = cohort.iter().map(|candidate| candidate.share.as_deref().unwrap()).collect();
        let mut blocks: Vec<u16> = shares.iter().filter_map(|share| share.block()).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [0, 0, 1, 1]);
        assert!(cohort.iter().all(|candidate| candidate.places() == 2 && candidate.number != 5));
        for candidate in &cohort {
            let share = candidate.share.as_ref().unwrap();
            assert!(share.parts.iter().all(|part| candidate.sets.get(&part.name).is_some()));
            assert!(share.parts.iter().all(|part| (part.coefficient, part.weight) == (1.0, 1.0)));
        }
        eligible.rotate_left(2);
        assert_eq!(drawn(&eligible, &job, 3).unwrap(), cohort);
    }

    #[test]
    fn what_is_held_too_rarely_is_named() {
        let job = coded_job(4, 1, "fractional");
        let rows = rows_of(&job);
        let lacking = |eligible: &[Arc<Candidate>]| Coding::of(&job, Some(&rows), None).unwrap().lacking(eligible);
        let all = [0, 1, 2, 3];
        let few = [holder(1, &all), holder(2, &[0, 1, 3])];
        assert_eq!(lacking(&few).unwrap(), "part p2 is held by 1 of 2 clients");
        assert_eq!(drawn(&few, &job, 1), None);
        let apart = [holder(1, &all), holder(2, &[0, 1, 3]), holder(3, &[2]), holder(4, &[0, 1])];
        assert_eq!(lacking(&apart).unwrap(), "the parts p2, p3 are held together by 1 of 2 clients");
        let three = [holder(1, &all), holder(2, &all), holder(3, &all)];
        assert_eq!(lacking(&three).unwrap(), "3 of 4 clients hold parts that go together");
        let four = [holder(1, &all), holder(2, &all), holder(3, &all), holder(4, &all)];
        assert_eq!(lacking(&four), None);
    }

    #[test]
    fn combinations_of_a_cyclic_code_have_the_shares_of_the_weighted_mean() {
        let job = coded_job(3, 1, "cyclic");
        let all = [0, 1, 2];
        let eligible: Vec<_> = (1..=3).map(|number| holder(number, &all)).collect();
        let cohort = drawn(&eligible, &job, 1).unwrap();
        for candidate in &cohort {
            let share = candidate.share.as_ref().unwrap();
            assert_eq!((share.parts.len(), candidate.places()), (2, 1));
            for part in &share.parts {
                assert_eq!(part.weight, f64::from(part.place + 1) / 6.0, "10, 20 and 30 examples");
            }
        }
        let uniform = JobFile { aggregation: job_file("aggregation.combine = 'uniform_mean'").aggregation, ..job };
        let cohort = drawn(&eligible, &uniform, 1).unwrap();
        assert!(cohort.iter().all(|one| one.share.as_ref().unwrap().parts[0].weight == 1.0 / 3.0));
    }
}
