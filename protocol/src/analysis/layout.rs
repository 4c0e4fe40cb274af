//! Where the answers of a query stand in the vector of all answers, and by what they are multiplied.

use std::ops::Range;

use super::{Analysis, Query};
use crate::job_model::JobModel;
use crate::layers::ModelSpec;
use crate::model::ParameterSpec;

impl Analysis {
    /// Rounds after which all is answered.
    pub fn rounds(&self) -> u32 {
        let rounds = self.queries.iter().map(|query| query.shape().rounds).max().unwrap_or(0);
        u32::try_from(rounds).expect("a query has at most as many rounds as a word has letters")
    }

    /// The model whose version holds the answers: a parameter for each query, with a row for each of its rounds.
    pub fn model(&self) -> JobModel {
        let parameter = |query: &Query| {
            let shape = query.shape();
            ParameterSpec::new(query.name().as_str(), [shape.rounds, shape.numbers])
        };
        ModelSpec::Parameters(self.queries.iter().map(parameter).collect()).into()
    }

    /// The columns that are read, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        for column in self.queries.iter().flat_map(Query::columns) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }

    /// Rows of a client that count, at most.
    pub fn rows_max(&self) -> usize {
        match (self.per_client, self.noise) {
            (Some(rows), _) => rows as usize,
            (None, Some(_)) => 1,
            (None, None) => usize::MAX,
        }
    }

    /// Where the numbers of a round (from 1) of this query stand; none if clients do not answer it in that round.
    pub fn section(&self, query: usize, round: u32) -> Option<Range<usize>> {
        let shape = self.queries.get(query)?.shape();
        let index = (round as usize).checked_sub(1).filter(|index| *index < shape.rounds)?;
        let before: usize =
            self.queries[..query].iter().map(|query| query.shape().rounds * query.shape().numbers).sum();
        let start = before + index * shape.numbers;
        Some(start..start + shape.numbers)
    }

    /// The numbers that a round (from 1) answers, in order.
    pub fn answered_in(&self, round: u32) -> Vec<Range<usize>> {
        (0..self.queries.len()).filter_map(|query| self.section(query, round)).collect()
    }

    /// By what the numbers of this query are multiplied in a round that answers it. With noise, the vector of a client
    /// then has a norm of at most 1, of which each query has its share: a release of `rho_i = rho share_i / sum of
    /// shares`, whose noise has a standard deviation of `noise / factor` in numbers of rows.
    pub fn factor(&self, query: usize, round: u32) -> f64 {
        if self.noise.is_none() {
            return 1.0;
        }
        let sensitivity_squared = self.queries[query].sensitivity_squared();
        (self.share(query, round) / sensitivity_squared).sqrt() / self.rows_max() as f64
    }

    /// The part of a round's budget that this query has; 0 in a round that does not answer it.
    pub fn share(&self, query: usize, round: u32) -> f64 {
        let is_asked = |query: &Query| round as usize <= query.shape().rounds;
        let all: f64 = self.queries.iter().filter(|query| is_asked(query)).map(Query::share).sum();
        if is_asked(&self.queries[query]) { self.queries[query].share() / all } else { 0.0 }
    }

    /// The noise that each client adds to its own vector, where it does: a standard deviation, for a norm of at most 1.
    pub fn own_noise(&self) -> Option<f64> {
        self.noise.filter(|_| self.noised_by.is_some())
    }

    /// Standard deviation of the noise in the numbers of this query, in rows; 0 without noise. Where clients add it,
    /// that of a sum of as many as it may have.
    pub fn deviation(&self, query: usize, round: u32) -> f64 {
        let together = f64::from(self.noised_by.unwrap_or(1)).sqrt();
        self.noise.map_or(0.0, |noise| noise * together / self.factor(query, round))
    }
}
