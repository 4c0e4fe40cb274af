//! The draw of a coded round: a client for each row of the code, among those that hold its parts.

use std::sync::Arc;

use tributary_protocol::coded::{Code, CodedPart, CodedShare};
use tributary_protocol::job_file::{Coded, Combine, JobFile};
use tributary_protocol::seed::Seed;

use super::candidate::Candidate;
use crate::coded::holders::{PartSet, match_rows};
use crate::coded::rows::Rows;

/// The parts of a job that a client holds.
#[must_use]
pub(super) fn held(candidate: &Candidate, coded: &Coded) -> PartSet {
    let has = |place: &usize| candidate.sets.get(&coded.parts[*place]).is_some_and(|set| set.examples > 0);
    (0..coded.parts.len()).filter(has).collect()
}

/// A client for each row, each with its share; none while a row lacks its client. The draw depends on the seed and on
/// who waits, and not on who came first.
pub(super) fn shared_out(
    mut eligible: Vec<Arc<Candidate>>,
    (file, coded): (&JobFile, &Coded),
    seed: Seed,
) -> Option<Vec<Arc<Candidate>>> {
    eligible.sort_by_key(|candidate| (candidate.number, candidate.client));
    eligible.dedup_by_key(|candidate| candidate.client);
    seed.derive("cohort", 0).stream().shuffle(&mut eligible);
    let members: Vec<PartSet> = eligible.iter().map(|candidate| held(candidate, coded)).collect();
    let needed = needed(coded);
    let holders: Vec<&Arc<Candidate>> = match_rows(&needed, &members)
        .into_iter()
        .map(|member| member.map(|member| &eligible[member]))
        .collect::<Option<_>>()?;
    // Made only now: the best cyclic code is searched for.
    let rows = rows_of(coded)?;
    let weights = weights(&holders, (file, coded));
    let drawn = holders.iter().enumerate().map(|(row, holder)| {
        let part = |(place, coefficient): (usize, f64)| CodedPart {
            place: place as u16,
            name: coded.parts[place].clone(),
            coefficient,
            weight: weights[place],
        };
        let parts = rows.row(row).into_iter().map(part).collect();
        let share = CodedShare { code: coded.code, row: row as u16, parts };
        Arc::new(Candidate { share: Some(Box::new(share)), ..Candidate::clone(holder) })
    });
    let mut drawn: Vec<Arc<Candidate>> = drawn.collect();
    drawn.sort_by_key(|candidate| candidate.number);
    Some(drawn)
}

/// What a coded round lacks, in words; none if each row has its client.
#[must_use]
pub fn lacking(eligible: &[Arc<Candidate>], coded: &Coded) -> Option<String> {
    let members: Vec<PartSet> = eligible.iter().map(|candidate| held(candidate, coded)).collect();
    let needed = needed(coded);
    let load = coded.load() as usize;
    let rare = (0..coded.parts.len()).find_map(|place| {
        let holders = members.iter().filter(|held| held.has([place].into_iter().collect())).count();
        (holders < load).then(|| format!("part {} is held by {holders} of {load} clients", coded.parts[place]))
    });
    if rare.is_some() {
        return rare;
    }
    let filled = match_rows(&needed, &members);
    let row = filled.iter().position(Option::is_none)?;
    let names: Vec<&str> = needed[row].places().map(|place| coded.parts[place].as_str()).collect();
    let rows = needed.iter().filter(|other| **other == needed[row]).count();
    let holders = members.iter().filter(|held| held.has(needed[row])).count();
    Some(match holders < rows {
        true => format!("the parts {} are held together by {holders} of {rows} clients", names.join(", ")),
        false => format!("{} of {} clients hold parts that go together", filled.iter().flatten().count(), needed.len()),
    })
}

/// The parts of each row.
fn needed(coded: &Coded) -> Vec<PartSet> {
    let (parts, load) = (coded.parts.len(), coded.load() as usize);
    let of = |row: usize| match coded.code {
        Code::Fractional => (row / load * load..row / load * load + load).collect(),
        Code::Cyclic => (row..row + load).map(|place| place % parts).collect(),
    };
    (0..parts).map(of).collect()
}

fn rows_of(coded: &Coded) -> Option<Rows> {
    Rows::of(coded.code, coded.parts.len(), coded.stragglers.into())
}

/// Each part's share of the mean of a cyclic code: by the examples that the holder of the part's own row told, or the
/// same for all. 1 for the fractional code.
fn weights(holders: &[&Arc<Candidate>], (file, coded): (&JobFile, &Coded)) -> Vec<f64> {
    if coded.code == Code::Fractional {
        return vec![1.0; holders.len()];
    }
    let examples = |(place, holder): (usize, &&Arc<Candidate>)| {
        let told = holder.sets.get(&coded.parts[place]).map_or(0, |set| set.examples);
        match file.aggregation.combine {
            Combine::UniformMean => 1.0,
            _ => told.clamp(1, file.update.weight_max.into()) as f64,
        }
    };
    let weights: Vec<f64> = holders.iter().enumerate().map(examples).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
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

    fn drawn(eligible: &[Arc<Candidate>], job: &JobFile, seed: u64) -> Option<Vec<Arc<Candidate>>> {
        shared_out(eligible.to_vec(), (job, job.coded.as_ref().unwrap()), Seed(seed))
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
        let coded = job.coded.as_ref().unwrap();
        let all = [0, 1, 2, 3];
        let few = [holder(1, &all), holder(2, &[0, 1, 3])];
        assert_eq!(lacking(&few, coded).unwrap(), "part p2 is held by 1 of 2 clients");
        assert_eq!(drawn(&few, &job, 1), None);
        let apart = [holder(1, &all), holder(2, &[0, 1, 3]), holder(3, &[2]), holder(4, &[0, 1])];
        assert_eq!(lacking(&apart, coded).unwrap(), "the parts p2, p3 are held together by 1 of 2 clients");
        let three = [holder(1, &all), holder(2, &all), holder(3, &all)];
        assert_eq!(lacking(&three, coded).unwrap(), "3 of 4 clients hold parts that go together");
        let four = [holder(1, &all), holder(2, &all), holder(3, &all), holder(4, &all)];
        assert_eq!(lacking(&four, coded), None);
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
