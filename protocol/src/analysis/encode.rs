//! From the rows of a client to its part of the answers.

use super::words::{place_of, spelled};
use super::{Analysis, Cell, Query};
use crate::seed::Seed;

impl Analysis {
    /// What a client's rows come to in a round (from 1): numbers to add to the answers, as many as these have. The
    /// cells of a row are in the order of [`Self::columns`]; `answers` are those of the rounds before. `seed` is the
    /// same in all rounds, so that a client with more rows than count answers with the same ones.
    pub fn part(&self, rows: &[Vec<Cell>], round: u32, answers: &[f32], seed: Seed) -> Vec<f32> {
        let columns = self.columns();
        let place = |name: &str| columns.iter().position(|column| *column == name).unwrap_or(usize::MAX);
        let chosen = chosen(rows, self.rows_max(), seed);
        let mut part = vec![0.0; answers.len()];
        for (index, query) in self.queries.iter().enumerate() {
            let Some(section) = self.section(index, round) else { continue };
            let places: Vec<usize> = query.columns().map(place).collect();
            let beginnings = self.words(index, round - 1, answers).map(|words| words.beginnings).unwrap_or_default();
            let mut sums = vec![0.0f64; section.len()];
            for row in &chosen {
                let cell = |which: usize| row.get(places[which]).unwrap_or(&Cell::Missing);
                query.add(&cell, &beginnings, &mut sums);
            }
            let factor = self.factor(index, round);
            for (part, sum) in part[section].iter_mut().zip(sums) {
                *part = (sum * factor) as f32;
            }
        }
        part
    }
}

impl Query {
    /// Adds the numbers of one row, whose cells are given by the order of [`Query::columns`].
    fn add<'a>(&self, cell: &dyn Fn(usize) -> &'a Cell, beginnings: &[String], sums: &mut [f64]) {
        match self {
            Self::Count { values, .. } => {
                if is_one_of(cell(0), values) {
                    sums[0] += 1.0;
                }
            }
            Self::Histogram { edges, categories, .. } => {
                let bin = match edges.is_empty() {
                    true => position(cell(0), categories),
                    false => cell(0).number().and_then(|number| bin(number, edges)),
                };
                if let Some(bin) = bin {
                    sums[bin] += 1.0;
                }
            }
            Self::Mean { range, .. } => {
                if let Some(number) = cell(0).number() {
                    let scaled = scaled(number, *range);
                    sums[0] += 1.0;
                    sums[1] += scaled;
                    sums[2] += scaled * scaled;
                }
            }
            Self::Quantiles { range, levels, .. } => {
                if let Some(number) = cell(0).number() {
                    let parts = 1usize << levels;
                    let part = ((scaled(number, *range) * parts as f64) as usize).min(parts - 1);
                    for level in 1..=*levels {
                        // Level n begins behind the 2 + 4 + .. + 2^(n-1) parts of those above it.
                        sums[(1 << level) - 2 + (part >> (levels - level))] += 1.0;
                    }
                }
            }
            Self::HeavyHitters { alphabet, .. } => {
                let word = cell(0).text().and_then(|text| spelled(&text, alphabet));
                if let Some(place) = word.and_then(|word| place_of(&word, beginnings, alphabet)) {
                    sums[place] += 1.0;
                }
            }
            Self::Rate { values, groups, .. } => {
                if let (Some(group), true) = (position(cell(1), groups), cell(0).text().is_some()) {
                    sums[2 * group] += 1.0;
                    sums[2 * group + 1] += f64::from(u8::from(is_one_of(cell(0), values)));
                }
            }
        }
    }
}

fn position(cell: &Cell, names: &[String]) -> Option<usize> {
    let text = cell.text()?;
    names.iter().position(|name| *name == text)
}

fn is_one_of(cell: &Cell, values: &[String]) -> bool {
    position(cell, values).is_some()
}

/// The bin of a number; none outside of all.
fn bin(number: f64, edges: &[f64]) -> Option<usize> {
    let bins = edges.len() - 1;
    match edges.partition_point(|edge| *edge <= number) {
        0 => None,
        after if after > bins => (number == edges[bins]).then(|| bins - 1),
        after => Some(after - 1),
    }
}

/// Where a number stands in a range, 0 to 1.
fn scaled(number: f64, [low, high]: [f64; 2]) -> f64 {
    ((number - low) / (high - low)).clamp(0.0, 1.0)
}

/// The rows that count: all, or so many that the seed draws.
fn chosen(rows: &[Vec<Cell>], most: usize, seed: Seed) -> Vec<&Vec<Cell>> {
    let mut rows: Vec<&Vec<Cell>> = rows.iter().collect();
    if rows.len() > most {
        let mut stream = seed.derive("rows", 0).stream();
        for place in 0..most {
            let other = place + stream.below((rows.len() - place) as u64) as usize;
            rows.swap(place, other);
        }
        rows.truncate(most);
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const SEED: Seed = Seed(5);

    fn analysis(queries: &Value) -> Analysis {
        serde_json::from_value(json!({ "queries": queries })).unwrap()
    }

    fn private(queries: &Value, per_client: Option<u32>) -> Analysis {
        Analysis { per_client, noise: Some(2.0), ..analysis(queries) }
    }

    fn total(analysis: &Analysis) -> usize {
        analysis.model().parameters().unwrap().total()
    }

    fn part(analysis: &Analysis, rows: &[Vec<Cell>]) -> Vec<f32> {
        analysis.part(rows, 1, &vec![0.0; total(analysis)], SEED)
    }

    fn all_kinds() -> Value {
        json!([
            { "name": "cats", "kind": "count", "column": "pet", "values": ["cat", "lion"] },
            { "name": "ages", "kind": "histogram", "column": "age", "edges": [0, 18, 60] },
            { "name": "pets", "kind": "histogram", "column": "pet", "categories": ["dog", "cat"] },
            { "name": "age", "kind": "mean", "column": "age", "range": [0, 100] },
            { "name": "middle", "kind": "quantiles", "column": "age", "range": [0, 100], "at": [0.5], "levels": 2 },
            { "name": "right", "kind": "rate", "column": "right", "values": ["1"], "by": "pet", "groups": ["cat", "dog"] },
        ])
    }

    #[test]
    fn rows_become_numbers_of_each_kind() {
        let analysis = analysis(&all_kinds());
        assert_eq!(analysis.columns(), ["pet", "age", "right"]);
        let row = |pet: &str, age: Cell, right: Cell| vec![Cell::from(pet), age, right];
        let rows = [
            row(" cat ", 60.0.into(), 1.0.into()),
            row("dog", "25".into(), "0".into()),
            row("fish", Cell::Missing, Cell::Missing),
            row("cat", (-5.0).into(), Cell::Missing),
        ];
        let numbers = part(&analysis, &rows);
        let (cats, ages, pets) = (&numbers[..1], &numbers[1..3], &numbers[3..5]);
        assert_eq!((cats, ages, pets), (&[2.0][..], &[0.0, 2.0][..], &[1.0, 2.0][..]));
        let mean = [3.0, 0.6 + 0.25, 0.36 + 0.0625];
        assert!(numbers[5..8].iter().zip(mean).all(|(got, wanted)| (got - wanted as f32).abs() < 1e-6), "{numbers:?}");
        assert_eq!(numbers[8..14], [2.0, 1.0, 1.0, 1.0, 1.0, 0.0], "halves, then quarters");
        assert_eq!(numbers[14..], [1.0, 1.0, 1.0, 0.0], "cats and dogs that answered, and were right");
        assert_eq!(analysis.rounds(), 1);
    }

    #[test]
    fn words_are_found_letter_by_letter() {
        let query = json!([{ "name": "words", "kind": "heavy_hitters", "column": "word", "length_max": 3,
            "alphabet": "abc", "beginnings_max": 2 }]);
        let analysis = Analysis { noise: Some(1e-9), ..analysis(&query) };
        let total = total(&analysis);
        assert_eq!((analysis.rounds(), total), (3, 3 * 4 * 2));
        let words = ["ab", "AB ", "ab", "abca", "abcb", "c", "c", "c", "ca", "ba", "x", "b!", ""];
        let mut answers = vec![0.0f32; total];
        for round in 1..=3 {
            let before = answers.clone();
            for word in words {
                let part = analysis.part(&[vec![word.into()]], round, &before, SEED);
                answers.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
        }
        let one = analysis.words(0, 1, &answers).unwrap();
        assert_eq!((one.beginnings, one.whole.len()), (vec!["a".to_owned(), "c".to_owned()], 0));
        let found = analysis.words(0, 3, &answers).unwrap().whole;
        let found: Vec<_> = found.iter().map(|found| (found.word.as_str(), found.count.round())).collect();
        assert_eq!(found, [("c", 3.0), ("abc", 2.0), ("ab", 3.0)], "longer words count as their beginning");
    }

    #[test]
    fn one_row_of_many_counts_and_the_same_in_each_round() {
        let query = json!([{ "name": "a", "kind": "histogram", "column": "a", "categories": ["0", "1", "2", "3"] }]);
        let analysis = private(&query, None);
        let rows: Vec<Vec<Cell>> = (0..4).map(|number| vec![f64::from(number).into()]).collect();
        let one = part(&analysis, &rows);
        assert_eq!((one.iter().sum::<f32>(), part(&analysis, &rows)), (1.0, one.clone()));
        let others = (0..20).map(|seed| analysis.part(&rows, 1, &[0.0; 4], Seed(seed)));
        assert!(others.into_iter().any(|other| other != one), "another job draws another row");
        let two = private(&query, Some(2));
        assert_eq!(part(&two, &rows).iter().sum::<f32>(), 1.0, "two halves");
        assert_eq!(part(&Analysis { noise: None, ..two }, &rows).iter().sum::<f32>(), 2.0);
    }

    proptest! {
        /// Goal: with noise, the vector of a client has a norm of at most 1, whatever its rows are.
        #[test]
        fn a_part_has_a_norm_of_at_most_one(
            numbers in prop::collection::vec((-1e3f64..1e3, 0u8..4, any::<bool>()), 0..12),
            per_client in 1u32..5,
        ) {
            let analysis = private(&all_kinds(), Some(per_client));
            let rows: Vec<Vec<Cell>> = numbers
                .iter()
                .map(|(age, pet, right)| {
                    let pet = ["cat", "dog", "lion", ""][usize::from(*pet)];
                    vec![pet.into(), (*age).into(), f64::from(u8::from(*right)).into()]
                })
                .collect();
            let norm = part(&analysis, &rows).iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            prop_assert!(norm <= 1.0 + 1e-6, "{}", norm);
        }
    }
}
