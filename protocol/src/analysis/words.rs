//! The beginnings of words that go on to the next round.

use super::{Analysis, Query};

/// Deviations of noise above one client's part below which no beginning counts as found: noise alone passes them with a
/// chance of 1e-8.
const DEVIATIONS_OF_NOISE: f64 = 5.612_001_244_174_789;

/// A word or a beginning with its count.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its letters.
    pub word: String,
    /// Rows that have it, with noise.
    pub count: f64,
    /// Whether the word ends here, or is as long as words may be.
    pub is_whole: bool,
}

/// What is known of the words of a query after some rounds: the same for all who know the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// Beginnings that the next round goes on with, in alphabetical order; one empty beginning before the first round.
    pub beginnings: Vec<String>,
    /// Words that are whole.
    pub whole: Vec<Found>,
}

impl Analysis {
    /// Counts below which a beginning of this query is dropped: the part of one client, and what noise reaches with a
    /// chance of 1e-8.
    pub fn least_count(&self, query: usize, round: u32) -> f64 {
        self.rows_max() as f64 + DEVIATIONS_OF_NOISE * self.deviation(query, round)
    }

    /// What the first `rounds` rounds have found of this query's words; none for queries of another kind.
    pub fn words(&self, query: usize, rounds: u32, answers: &[f32]) -> Option<Words> {
        let Query::HeavyHitters { length_max, alphabet, beginnings_max, .. } = self.queries.get(query)? else {
            return None;
        };
        let letters: Vec<char> = alphabet.chars().collect();
        let mut words = Words { beginnings: vec![String::new()], whole: Vec::new() };
        for round in 1..=rounds.min(*length_max) {
            let numbers = self.section(query, round).and_then(|section| answers.get(section))?;
            let (factor, least) = (self.factor(query, round), self.least_count(query, round));
            let mut going_on = Vec::new();
            for (beginning, counts) in words.beginnings.iter().zip(numbers.chunks(letters.len() + 1)) {
                for (index, number) in counts.iter().enumerate() {
                    let count = f64::from(*number) / factor;
                    // The last place of a beginning counts the words that end there; the empty word is none.
                    let letter = letters.get(index);
                    if count <= least || (letter.is_none() && beginning.is_empty()) {
                        continue;
                    }
                    let word: String = beginning.chars().chain(letter.copied()).collect();
                    let is_whole = letter.is_none() || round == *length_max;
                    let found = Found { word, count, is_whole };
                    if is_whole { words.whole.push(found) } else { going_on.push(found) }
                }
            }
            going_on.sort_by(|one, other| other.count.total_cmp(&one.count).then_with(|| one.word.cmp(&other.word)));
            going_on.truncate(*beginnings_max as usize);
            words.beginnings = going_on.into_iter().map(|found| found.word).collect();
            words.beginnings.sort_unstable();
        }
        Some(words)
    }
}

/// The place of a word's next letter in the numbers of a round: after one of these beginnings.
pub(super) fn place_of(word: &str, beginnings: &[String], alphabet: &str) -> Option<usize> {
    let (index, beginning) =
        beginnings.iter().enumerate().find(|(_, beginning)| word.starts_with(beginning.as_str()))?;
    let letters = alphabet.chars().count();
    let place = match word[beginning.len()..].chars().next() {
        Some(letter) => alphabet.chars().position(|known| known == letter)?,
        None => letters,
    };
    Some(index * (letters + 1) + place)
}

/// A word in the letters of an alphabet, in lower case; none if it has another letter, or none at all.
pub(super) fn spelled(text: &str, alphabet: &str) -> Option<String> {
    let word = text.to_lowercase();
    (!word.is_empty() && word.chars().all(|letter| alphabet.contains(letter))).then_some(word)
}
