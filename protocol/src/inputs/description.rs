//! What the clients of a job find out together: the sums of their tables.

use serde::{Deserialize, Serialize};

use super::column::ColumnKind;
use super::error::DescriptionError;
use super::moments::{COUNT_MAX, Described, Moments};
use super::{Column, Inputs};

/// The sums of one table, or of all tables of a round: for each column of the job, and for its target where that is a
/// number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Description {
    /// Number of rows.
    pub examples: u64,
    /// In the order of the columns; the target last.
    pub columns: Vec<Described>,
}

impl Description {
    /// The sums of no rows.
    pub fn empty(inputs: &Inputs) -> Self {
        let of = |column: &Column| match column.kind {
            ColumnKind::Number | ColumnKind::Date => Described::Numbers(Moments::default()),
            ColumnKind::Category => Described::Categories(vec![0; column.categories.len()]),
        };
        let target = inputs.target.as_ref().filter(|target| target.is_number());
        let columns = inputs.columns.iter().map(of).chain(target.map(|_| Described::Numbers(Moments::default())));
        Self { examples: 0, columns: columns.collect() }
    }

    /// Checks that these are sums of at least one row of the job's tables.
    ///
    /// # Errors
    /// [`DescriptionError`] names the first column that cannot be.
    pub fn check(&self, inputs: &Inputs) -> Result<(), DescriptionError> {
        if self.examples == 0 || self.examples > COUNT_MAX {
            return Err(DescriptionError::Examples);
        }
        let wanted = Self::empty(inputs);
        if self.columns.len() != wanted.columns.len() {
            let (expected, got) = (wanted.columns.len(), self.columns.len());
            return Err(DescriptionError::Columns { expected, got });
        }
        for (at, (column, wanted)) in self.columns.iter().zip(&wanted.columns).enumerate() {
            let name = || match inputs.columns.get(at) {
                Some(column) => column.name.clone(),
                None => inputs.target.as_ref().map(|target| target.name.clone()).unwrap_or_default(),
            };
            let is_possible = match (column, wanted) {
                (Described::Numbers(moments), Described::Numbers(_)) => moments.is_possible(self.examples),
                (Described::Categories(counts), Described::Categories(wanted)) if counts.len() == wanted.len() => {
                    counts
                        .iter()
                        .try_fold(0u64, |sum, count| sum.checked_add(*count))
                        .is_some_and(|sum| sum <= self.examples)
                }
                _ => return Err(DescriptionError::Kind(name())),
            };
            if !is_possible {
                return Err(DescriptionError::Impossible(name()));
            }
        }
        Ok(())
    }

    /// Adds the sums of other rows.
    ///
    /// # Errors
    /// [`DescriptionError`] if they are of other columns, or of too many rows together. Nothing is added then.
    pub fn add(&mut self, other: &Self) -> Result<(), DescriptionError> {
        let examples = self.examples.saturating_add(other.examples);
        if examples > COUNT_MAX {
            return Err(DescriptionError::Examples);
        }
        let is_alike = |pair: (&Described, &Described)| match pair {
            (Described::Numbers(_), Described::Numbers(_)) => true,
            (Described::Categories(one), Described::Categories(other)) => one.len() == other.len(),
            _ => false,
        };
        if self.columns.len() != other.columns.len() || !self.columns.iter().zip(&other.columns).all(is_alike) {
            return Err(DescriptionError::Columns { expected: self.columns.len(), got: other.columns.len() });
        }
        self.examples = examples;
        for (sum, other) in self.columns.iter_mut().zip(&other.columns) {
            match (sum, other) {
                (Described::Numbers(sum), Described::Numbers(other)) => sum.add(other),
                (Described::Categories(sum), Described::Categories(other)) => {
                    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes counts of fewer rows than this: the count of such a category becomes 0, and so do the sums of such a
    /// column.
    pub fn withhold_below(&mut self, floor: u64) {
        for column in &mut self.columns {
            match column {
                Described::Numbers(moments) if moments.count < floor => *moments = Moments::default(),
                Described::Numbers(_) => {}
                Described::Categories(counts) => {
                    counts.iter_mut().filter(|count| **count < floor).for_each(|count| *count = 0);
                }
            }
        }
    }
}
