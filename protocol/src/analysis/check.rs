//! What an analysis must satisfy.

use super::{ANSWERS_MAX, Analysis, QUERIES_MAX, Query};

/// Most rows of a client that may count.
const ROWS_MAX: u32 = 10_000;
/// Most bins, categories, values, groups or shares of a query.
const PARTS_MAX: usize = 1_000;
/// Most levels of a tree.
const LEVELS_MAX: u32 = 16;
/// Most letters of a word.
const LENGTH_MAX: u32 = 64;
/// Most letters of an alphabet.
const LETTERS_MAX: usize = 256;
/// Most beginnings that go on, and words of an answer.
const WORDS_MAX: u32 = 1_000;

/// An analysis that cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// There is no query, or there are too many.
    #[error("queries must be 1 to {QUERIES_MAX}")]
    Queries,
    /// Two queries have the same name.
    #[error("two queries are called {0}")]
    Repeated(String),
    /// A setting of all queries is out of range.
    #[error("{setting} must be {range}")]
    Setting {
        /// Its key.
        setting: &'static str,
        /// The allowed values, in words.
        range: &'static str,
    },
    /// A setting of one query is out of range.
    #[error("query {query}: {setting} must be {range}")]
    Query {
        /// Name of the query.
        query: String,
        /// Its key.
        setting: &'static str,
        /// The allowed values, in words.
        range: &'static str,
    },
    /// The answers are too many numbers.
    #[error("the answers are {0} numbers, and may be at most {ANSWERS_MAX}")]
    TooLong(usize),
}

impl Analysis {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`AnalysisError`] names the first query and setting that fails.
    pub fn check(&self, is_private: bool) -> Result<(), AnalysisError> {
        if self.queries.is_empty() || self.queries.len() > QUERIES_MAX {
            return Err(AnalysisError::Queries);
        }
        for (index, query) in self.queries.iter().enumerate() {
            if self.queries[..index].iter().any(|other| other.name() == query.name()) {
                return Err(AnalysisError::Repeated(query.name().to_string()));
            }
            query.check(is_private)?;
        }
        if !self.per_client.is_none_or(|rows| (1..=ROWS_MAX).contains(&rows)) {
            return Err(AnalysisError::Setting { setting: "per_client", range: "1 to 10000" });
        }
        if !self.noise.is_none_or(|noise| is_private && noise > 0.0 && noise.is_finite()) {
            let range = "left out: it follows from [privacy]";
            return Err(AnalysisError::Setting { setting: "noise", range });
        }
        let lengths = self.queries.iter().map(|query| query.shape().rounds * query.shape().numbers);
        match lengths.sum() {
            total if total > ANSWERS_MAX => Err(AnalysisError::TooLong(total)),
            _ => Ok(()),
        }
    }
}

impl Query {
    fn check(&self, is_private: bool) -> Result<(), AnalysisError> {
        let require = |holds: bool, setting, range| match holds {
            true => Ok(()),
            false => Err(AnalysisError::Query { query: self.name().to_string(), setting, range }),
        };
        require(self.columns().all(|column| !column.is_empty()), "column", "the name of a column")?;
        require(self.share() > 0.0 && self.share() <= 1e6, "share", "above 0 and at most 1000000")?;
        let are_values = |values: &[String]| (1..=PARTS_MAX).contains(&values.len()) && are_distinct(values);
        let is_range = |[low, high]: [f64; 2]| low < high && (high - low).is_finite();
        match self {
            Self::Count { values, .. } => require(are_values(values), "values", "1 to 1000 different ones"),
            Self::Histogram { edges, categories, .. } => {
                let is_one = edges.is_empty() != categories.is_empty();
                require(is_one, "edges", "given, or categories, and not both")?;
                let are_edges = edges.is_empty()
                    || ((2..=PARTS_MAX + 1).contains(&edges.len())
                        && edges.iter().all(|edge| edge.is_finite())
                        && edges.windows(2).all(|pair| pair[0] < pair[1]));
                require(are_edges, "edges", "2 to 1001 finite numbers that ascend")?;
                require(categories.is_empty() || are_values(categories), "categories", "1 to 1000 different ones")
            }
            Self::Mean { range, .. } => require(is_range(*range), "range", "two finite numbers that ascend"),
            Self::Quantiles { range, at, levels, .. } => {
                require(is_range(*range), "range", "two finite numbers that ascend")?;
                require((1..=LEVELS_MAX).contains(levels), "levels", "1 to 16")?;
                let are_shares = (1..=PARTS_MAX).contains(&at.len()) && at.iter().all(|at| *at > 0.0 && *at < 1.0);
                require(are_shares, "at", "1 to 1000 numbers above 0 and below 1")
            }
            Self::HeavyHitters { length_max, top, alphabet, beginnings_max, .. } => {
                require(is_private, "kind", "another one without [privacy], which hides words of single rows")?;
                require((1..=LENGTH_MAX).contains(length_max), "length_max", "1 to 64")?;
                require((1..=WORDS_MAX).contains(top), "top", "1 to 1000")?;
                require((1..=WORDS_MAX).contains(beginnings_max), "beginnings_max", "1 to 1000")?;
                let letters: Vec<char> = alphabet.chars().collect();
                let are_letters = (1..=LETTERS_MAX).contains(&letters.len())
                    && alphabet.to_lowercase() == *alphabet
                    && are_distinct(&letters);
                require(are_letters, "alphabet", "1 to 256 different letters, in lower case")
            }
            Self::Rate { values, groups, .. } => {
                require(are_values(values), "values", "1 to 1000 different ones")?;
                require(are_values(groups), "groups", "1 to 1000 different ones")
            }
        }
    }
}

fn are_distinct<T: PartialEq>(values: &[T]) -> bool {
    values.iter().enumerate().all(|(index, value)| !values[..index].contains(value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(query: &Value, is_private: bool) -> Result<(), String> {
        let mut whole = json!({ "name": "q", "column": "a" });
        whole.as_object_mut().unwrap().extend(query.as_object().unwrap().clone());
        let analysis: Analysis = serde_json::from_value(json!({ "queries": [whole] })).map_err(|e| e.to_string())?;
        analysis.check(is_private).map_err(|error| error.to_string())
    }

    #[test]
    fn queries_with_their_defaults_can_be_asked() {
        for query in [
            json!({ "kind": "count", "values": ["x"] }),
            json!({ "kind": "histogram", "edges": [0, 1.5] }),
            json!({ "kind": "histogram", "categories": ["x", "y"], "share": 3 }),
            json!({ "kind": "mean", "range": [-1, 1] }),
            json!({ "kind": "quantiles", "range": [0, 10], "at": [0.1, 0.9] }),
            json!({ "kind": "heavy_hitters" }),
            json!({ "kind": "rate", "values": ["1"], "by": "b", "groups": ["x"] }),
        ] {
            assert_eq!(checked(&query, true), Ok(()), "{query}");
        }
    }

    #[test]
    fn a_wrong_setting_is_named_with_its_query() {
        for (query, named) in [
            (json!({ "kind": "median" }), "unknown variant `median`"),
            (json!({ "kind": "count", "values": [] }), "query q: values must be"),
            (json!({ "kind": "count", "values": ["x", "x"] }), "values"),
            (json!({ "kind": "count", "values": ["x"], "colum": "y" }), "unknown field `colum`"),
            (json!({ "kind": "histogram" }), "edges"),
            (json!({ "kind": "histogram", "edges": [0, 1], "categories": ["x"] }), "edges"),
            (json!({ "kind": "histogram", "edges": [1, 0] }), "ascend"),
            (json!({ "kind": "mean", "range": [1, 1] }), "range"),
            (json!({ "kind": "mean", "range": [-1.7e308, 1.7e308] }), "range"),
            (json!({ "kind": "quantiles", "range": [0, 1], "at": [1.0] }), "at must be"),
            (json!({ "kind": "quantiles", "range": [0, 1], "at": [0.5], "levels": 17 }), "levels"),
            (json!({ "kind": "heavy_hitters", "alphabet": "aA" }), "alphabet"),
            (json!({ "kind": "heavy_hitters", "length_max": 0 }), "length_max"),
            (json!({ "kind": "mean", "range": [0, 1], "share": 0 }), "share"),
        ] {
            let refused = checked(&query, true).unwrap_err();
            assert!(refused.contains(named), "{query}: {refused}");
        }
        assert!(checked(&json!({ "kind": "heavy_hitters" }), false).unwrap_err().contains("[privacy]"));
        let long = json!({ "kind": "heavy_hitters", "length_max": 64, "beginnings_max": 1000, "alphabet": "abcdefghijklmnopqrstuvwxyzäöüß0123456789-_.,:;+*#'~éèáàúùíìóòâêîôûçñåøæœ" });
        assert!(checked(&long, true).unwrap_err().contains("numbers"));
    }
}
