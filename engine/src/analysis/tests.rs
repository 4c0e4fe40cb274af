use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tributary_protocol::analysis::{Analysis, Cell};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::noise::add_local_noise;
use tributary_protocol::seed::Seed;

use super::*;
use crate::aggregate::{Combined, Grid, NoiseMaker, PrivateSum};
use crate::privacy::{NOISE_PLACES, resolve};

const CLIENTS: usize = 2_000;
const RUNS: u32 = 400;

/// The analysis of a job with a budget of epsilon 1.
fn private(queries: &Value) -> Analysis {
    let file = json!({
        "name": "a", "population": "b", "analysis": { "queries": queries },
        "privacy": { "epsilon": 1.0, "delta": 1e-6 }, "round": { "updates_goal": CLIENTS },
    });
    let mut file = JobFile::parse(&file.to_string()).unwrap();
    resolve(&mut file).unwrap();
    file.analysis.unwrap()
}

fn values(analysis: &Analysis) -> usize {
    analysis.model().parameters().unwrap().total()
}

/// A table of one row for each client: age, spend, group, and whether an answer was right.
fn table(seed: u64) -> Vec<Vec<Cell>> {
    let mut stream = Seed(seed).stream();
    (0..CLIENTS)
        .map(|client| {
            let (age, group) = (100.0 * stream.unit() * stream.unit(), if client % 3 == 0 { "north" } else { "south" });
            let is_right = stream.unit() < if group == "north" { 0.9 } else { 0.6 };
            vec![age.into(), group.into(), f64::from(u8::from(is_right)).into()]
        })
        .collect()
}

/// The sum of all clients' answers in a round, as the coordinator adds them up, and the noise of a run.
struct Round<'a> {
    analysis: &'a Analysis,
    number: u32,
    sum: Vec<f64>,
}

impl<'a> Round<'a> {
    fn of(analysis: &'a Analysis, number: u32, parts: impl Iterator<Item = (usize, Vec<f32>)>) -> Self {
        let grid = Grid::new(1.0, analysis.noise.unwrap());
        let total = values(analysis);
        let mut sum = vec![0.0; total];
        for (times, part) in parts {
            let one = Arc::new(PrivateSum::new(total, grid, 1.0));
            one.add(grid, &part);
            let part = one.mean(0..total).unwrap();
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part * times as f64);
        }
        Self { analysis, number, sum }
    }

    /// What is released with the noise of a run: zeros where the round asks nothing.
    fn released(&self, run: u32) -> Vec<f32> {
        let key = [self.number as u8; 32];
        let noise = NoiseMaker::new(key, Seed(9), run, None).make(0..self.sum.len(), &[]).noise;
        let step = self.analysis.noise.unwrap() / f64::from(1u32 << NOISE_PLACES);
        let mut released = vec![0.0; self.sum.len()];
        for place in self.analysis.answered_in(self.number).into_iter().flatten() {
            released[place] = (self.sum[place] + noise[place] as f64 * step) as f32;
        }
        released
    }
}

/// The share of intervals that hold the truth: of all estimates of a query in all runs.
fn coverage(query: &Value, truth: &dyn Fn(&[Vec<Cell>]) -> Vec<f64>) -> f64 {
    let analysis = private(&json!([query]));
    let columns = analysis.columns();
    let order = |name: &str| ["age", "group", "right"].iter().position(|column| *column == name).unwrap();
    let (mut held, mut all) = (0u32, 0u32);
    for seed in 0..4 {
        let table = table(seed);
        let rows = table.iter().map(|row| columns.iter().map(|name| row[order(name)].clone()).collect::<Vec<_>>());
        let before = vec![0.0; values(&analysis)];
        let parts = rows.map(|row| (1, analysis.part(&[row], 1, &before, Seed(1))));
        let (round, truth) = (Round::of(&analysis, 1, parts), truth(&table));
        for run in 0..RUNS / 4 {
            let answers = answers(&analysis, 1, &round.released(1_000 * seed as u32 + run), Some(1e-6));
            for (estimate, truth) in answers[0].estimates.iter().zip(&truth) {
                all += 1;
                held += u32::from(estimate.low.unwrap() <= *truth && *truth <= estimate.high.unwrap());
            }
        }
    }
    assert!(all >= RUNS);
    f64::from(held) / f64::from(all)
}

fn ages(table: &[Vec<Cell>]) -> Vec<f64> {
    table.iter().map(|row| row[0].number().unwrap()).collect()
}

fn count(table: &[Vec<Cell>], holds: impl Fn(&[Cell]) -> bool) -> f64 {
    table.iter().filter(|row| holds(row)).count() as f64
}

/// Goal: the true values of the clients that answered lie inside the interval in 93 to 97 % of all runs.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let is = |row: &[Cell], place: usize, text: &str| row[place].text().as_deref() == Some(text);
    let of_count =
        coverage(&json!({ "name": "q", "kind": "count", "column": "group", "values": ["north"] }), &|table| {
            vec![count(table, |row| is(row, 1, "north"))]
        });
    let of_histogram = coverage(
        &json!({ "name": "q", "kind": "histogram", "column": "age", "edges": [0, 10, 20, 40, 100] }),
        &|table| {
            let between = |low, high| count(table, |row| (low..high).contains(&row[0].number().unwrap()));
            vec![between(0.0, 10.0), between(10.0, 20.0), between(20.0, 40.0), between(40.0, 100.0)]
        },
    );
    let of_mean = coverage(&json!({ "name": "q", "kind": "mean", "column": "age", "range": [0, 100] }), &|table| {
        let ages = ages(table);
        let mean = ages.iter().sum::<f64>() / ages.len() as f64;
        let variance = ages.iter().map(|age| (age - mean).powi(2)).sum::<f64>() / ages.len() as f64;
        vec![mean, variance.sqrt()]
    });
    let of_quantiles = coverage(
        &json!({ "name": "q", "kind": "quantiles", "column": "age", "range": [0, 100], "at": [0.25, 0.5, 0.9],
            "levels": 9 }),
        &|table| {
            let mut ages = ages(table);
            ages.sort_by(f64::total_cmp);
            [0.25, 0.5, 0.9].map(|share| ages[(share * ages.len() as f64) as usize]).to_vec()
        },
    );
    let of_rate = coverage(
        &json!({ "name": "q", "kind": "rate", "column": "right", "values": ["1"], "by": "group",
            "groups": ["north", "south"] }),
        &|table| {
            let rate = |group: &str| {
                let right = count(table, |row| is(row, 1, group) && is(row, 2, "1"));
                right / count(table, |row| is(row, 1, group))
            };
            vec![rate("north"), rate("south")]
        },
    );
    let all = [of_count, of_histogram, of_mean, of_quantiles, of_rate];
    assert!(all.iter().all(|share| (0.93..=0.97).contains(share)), "{all:?}");
}

/// Plays all rounds of a query for words: each with the number of clients that have it.
fn found(analysis: &Analysis, words: &BTreeMap<&str, usize>, run: u32) -> Vec<Estimate> {
    let mut answers = vec![0.0f32; values(analysis)];
    for number in 1..=analysis.rounds() {
        let part = |(word, times): (&&str, &usize)| {
            (*times, analysis.part(&[vec![Cell::from(*word)]], number, &answers, Seed(1)))
        };
        let round = Round::of(analysis, number, words.iter().map(part));
        let released = round.released(run);
        answers.iter_mut().zip(released).for_each(|(sum, part)| *sum += part);
    }
    let [answer] = &super::answers(analysis, analysis.rounds(), &answers, Some(1e-6))[..] else { panic!("one query") };
    answer.estimates.clone()
}

/// Goal: all words of enough clients are found in each run, with the truth inside the interval as often as it says.
#[test]
fn words_of_enough_clients_are_found() {
    let analysis = private(&json!([{ "name": "words", "kind": "heavy_hitters", "column": "word", "length_max": 3,
        "alphabet": "abcd", "beginnings_max": 8 }]));
    // What noise hides, with four deviations of it.
    let enough = (analysis.least_count(0, 1) + 4.0 * analysis.deviation(0, 1)).ceil() as usize;
    let words = BTreeMap::from([("a", enough), ("ab", 3 * enough), ("bad", 2 * enough), ("cab", enough), ("d", 1)]);
    assert!(words.values().sum::<usize>() <= CLIENTS, "{enough}");
    let (mut held, mut all) = (0, 0);
    for run in 0..RUNS {
        let estimates = found(&analysis, &words, run);
        for (word, times) in words.iter().filter(|(_, times)| **times > 1) {
            let found = estimates.iter().find(|estimate| estimate.label.trim_end_matches('…') == *word);
            let found = found.unwrap_or_else(|| panic!("{word} in run {run}: {estimates:?}"));
            all += 1;
            held += u32::from((found.low.unwrap()..=found.high.unwrap()).contains(&(*times as f64)));
        }
        assert!(estimates.iter().all(|estimate| estimate.label != "d"));
    }
    let share = f64::from(held) / f64::from(all);
    assert!((0.93..=0.97).contains(&share), "{share}");
}

/// Goal: the word of one client appears with a chance of 1e-8, so not in 10,000 runs.
#[test]
fn a_word_of_one_client_stays_hidden() {
    let analysis = private(&json!([{ "name": "words", "kind": "heavy_hitters", "column": "word", "length_max": 1,
        "alphabet": "ab", "beginnings_max": 1 }]));
    let before = vec![0.0; values(&analysis)];
    let part = analysis.part(&[vec!["a".into()]], 1, &before, Seed(1));
    let round = Round::of(&analysis, 1, std::iter::once((1, part)));
    for run in 0..10_000 {
        let words = analysis.words(0, 1, &round.released(run)).unwrap().whole;
        assert!(words.iter().all(|found| found.word != "a"), "run {run}");
    }
    // The threshold of privacy.md, with the noise of one release at (1, 1e-6).
    let printed = Analysis { noise: Some(4.2198), ..analysis };
    assert!((printed.least_count(0, 1) - 24.681_523).abs() < 1e-6, "{}", printed.least_count(0, 1));
}

/// Goal: the interval of a sum of noised answers holds the truth. Method: 40 runs of 400 clients, a third of which have
/// a cat.
#[test]
fn noise_of_single_clients_is_within_the_interval_of_their_sum() {
    const CLIENTS: u32 = 400;
    let file = json!({
        "name": "a", "population": "b", "round": { "updates_goal": CLIENTS },
        "analysis": { "queries": [
            { "name": "pets", "kind": "histogram", "column": "pet", "categories": ["cat", "dog", "none", "two"] },
            { "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] },
        ] },
        "privacy": { "epsilon": 4.0, "delta": 1e-6, "mechanism": "local" },
    });
    let mut file = JobFile::parse(&file.to_string()).unwrap();
    resolve(&mut file).unwrap();
    let analysis = file.analysis.clone().unwrap();
    assert_eq!((analysis.own_noise(), analysis.noised_by), (analysis.noise, Some(CLIENTS)));
    let (noise, ranges) = (analysis.noise.unwrap(), analysis.answered_in(1));
    let before = vec![0.0; values(&analysis)];
    let (mut held, mut all) = (0, 0);
    for run in 0..40u8 {
        let mut sum = vec![0.0f64; before.len()];
        for client in 0..CLIENTS {
            let pet = if client % 3 == 0 { "cat" } else { "none" };
            let mut part = analysis.part(&[vec![pet.into()]], 1, &before, Seed(1));
            let mut key = [run; 32];
            key[..4].copy_from_slice(&client.to_le_bytes());
            add_local_noise(&mut part, &ranges, noise, &key);
            assert!(part.iter().all(|value| value.abs() <= file.update.magnitude_max));
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += f64::from(part));
        }
        let sum: Vec<f32> = sum.into_iter().map(|value| value as f32).collect();
        let told = answers(&analysis, 1, &sum, Some(1e-6));
        let truths = [134.0, 0.0, 266.0, 0.0, 134.0];
        for (estimate, truth) in told.iter().flat_map(|answer| &answer.estimates).zip(truths) {
            all += 1;
            held += u32::from((estimate.low.unwrap()..=estimate.high.unwrap()).contains(&truth));
        }
    }
    let share = f64::from(held) / f64::from(all);
    assert!((0.90..=0.99).contains(&share), "{share}");
}

/// Goal: what each answer alone tells adds up to the budget. Method: the mus of a file with three queries.
#[test]
fn queries_share_the_budget() {
    let queries = json!([
        { "name": "a", "kind": "mean", "column": "x", "range": [0, 1], "share": 2 },
        { "name": "b", "kind": "count", "column": "x", "values": ["1"] },
        { "name": "c", "kind": "heavy_hitters", "column": "x", "length_max": 4, "alphabet": "ab" },
    ]);
    let analysis = private(&queries);
    let noise = analysis.noise.unwrap();
    let squares: f64 = (0..3).map(|query| mu(&analysis, query, noise).powi(2)).sum();
    let whole = gaussian::mu(1.0, 1e-6);
    assert!((squares.sqrt() / whole - 1.0).abs() < 1e-6, "{squares} {whole}");
    // A query alone has the noise of its sensitivity: sigma of one release at (1, 1e-6), times the root of 3.
    let alone = private(&json!([{ "name": "a", "kind": "mean", "column": "x", "range": [0, 1] }]));
    assert!((alone.deviation(0, 1) - 4.224_678_889 * 3f64.sqrt()).abs() < 1e-5);
}

#[test]
fn without_privacy_answers_are_exact_and_ratios_of_nothing_unknown() {
    let queries = json!([
        { "name": "a", "kind": "mean", "column": "x", "range": [0, 10] },
        { "name": "b", "kind": "quantiles", "column": "x", "range": [0, 8], "at": [0.5], "levels": 3 },
        { "name": "c", "kind": "rate", "column": "x", "values": ["1"], "by": "y", "groups": ["n", "s"] },
    ]);
    let analysis: Analysis = serde_json::from_value(json!({ "queries": queries })).unwrap();
    let rows: Vec<Vec<Cell>> = [1.0, 3.0, 5.0, 7.0].map(|x| vec![x.into(), "n".into()]).to_vec();
    let sum = analysis.part(&rows, 1, &vec![0.0; values(&analysis)], Seed(1));
    let got = answers(&analysis, 1, &sum, None);
    let value = |query: usize, place: usize| got[query].estimates[place].value;
    assert!((value(0, 0).unwrap() - 4.0).abs() < 1e-6 && (value(0, 1).unwrap() - 5f64.sqrt()).abs() < 1e-6, "{got:?}");
    assert!((3.0..=5.0).contains(&value(1, 0).unwrap()), "{got:?}");
    assert_eq!((value(2, 0), value(2, 1)), (Some(0.25), None));
    assert!(got.iter().all(|answer| answer.epsilon.is_none() && answer.noise == 0.0));
    assert!(answers(&analysis, 0, &[], None).iter().all(|answer| answer.estimates.is_empty()));
}

fn close(got: Option<f64>, wanted: f64) {
    assert!(got.is_some_and(|got| (got - wanted).abs() < 1e-5), "{got:?} is not {wanted}");
}

/// 100 rows of a range from 2 to 12 that have a mean of 0.5 and a variance of 0.05 of the range, with noise of 1.
#[test]
fn the_intervals_of_moments_are_those_of_the_delta_method() {
    let [mean, deviation] = &moments(&[100.0, 50.0, 30.0], [2.0, 12.0], 1.0)[..] else { panic!("two estimates") };
    close(mean.value, 7.0);
    close(mean.high, 7.0 + 10.0 * DEVIATIONS * 1.25f64.sqrt() / 100.0);
    close(mean.low, 7.0 - 10.0 * DEVIATIONS * 1.25f64.sqrt() / 100.0);
    // The gradient of the variance is (mean^2 - variance, -2 mean, 1) / rows.
    let within = DEVIATIONS * (0.2f64.powi(2) + 1.0 + 1.0).sqrt() / 100.0;
    close(deviation.value, 10.0 * 0.05f64.sqrt());
    close(deviation.high, 10.0 * (0.05 + within).sqrt());
    close(deviation.low, 10.0 * (0.05 - within).sqrt());
    let is_known = |rows: f64| moments(&[rows, 5.0, 3.0], [0.0, 1.0], 1.0)[0].value.is_some();
    assert_eq!([9.9, 10.0].map(is_known), [false, true], "ten deviations of the noise");
}

#[test]
fn the_interval_of_a_rate_widens_with_the_rate_and_stays_from_0_to_1() {
    let analysis = private(&json!([{ "name": "q", "kind": "rate", "column": "right", "values": ["1"], "by": "group",
        "groups": ["north", "south"] }]));
    let (sigma, factor) = (analysis.deviation(0, 1), analysis.factor(0, 1));
    let values = [200.0, 50.0, 100.0, 98.0].map(|rows| (rows * factor) as f32);
    let [north, south] = &answers(&analysis, 1, &values, Some(1e-6))[0].estimates[..] else { panic!("two groups") };
    let within = DEVIATIONS * sigma * (1.0 + 0.25f64 * 0.25).sqrt() / 200.0;
    close(north.value, 0.25);
    close(north.low, 0.25 - within);
    close(north.high, 0.25 + within);
    close(south.value, 0.98);
    close(south.high, 1.0);
}
