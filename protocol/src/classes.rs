//! Counts of an evaluation by class: integers, so that sums over clients are exact in any order.

use serde::{Deserialize, Serialize};

/// Most classes of a confusion matrix: 10,000 counts, 21 KB of a report while most of them are 0.
pub const CONFUSION_CLASSES_MAX: usize = 100;
/// Most classes that are counted one by one. An evaluation with more classes has no counts.
pub const COUNTED_CLASSES_MAX: usize = 1_000;

/// How often each class was right. A classifier with up to 100 classes has a confusion matrix; with up to 1,000, two
/// counts per class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClassCounts {
    /// For each true class a row, with the number of its targets for which each class had the highest score.
    Confusion {
        /// Number of classes, at most 100.
        classes: u32,
        /// Row by row: `counts[truth * classes + predicted]`.
        counts: Vec<u64>,
    },
    /// Two counts per class, for at most 1,000 classes.
    PerClass {
        /// Number of targets of each class.
        examples: Vec<u64>,
        /// For how many of them the class had the highest score.
        right: Vec<u64>,
    },
}

/// Targets and right answers of each class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassTotals {
    /// Number of targets of each class.
    pub examples: Vec<u64>,
    /// For how many of them the class had the highest score.
    pub right: Vec<u64>,
}

/// Counts that cannot be those of their report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassCountsError {
    /// There are no classes, or too many.
    #[error("a confusion matrix has 1 to 100 classes, counts per class 1 to 1000; these have {0}")]
    Classes(usize),
    /// The vector has another length than the number of classes requires.
    #[error("{got} counts, where {expected} belong to {classes} classes")]
    Length {
        /// Number of classes.
        classes: usize,
        /// Number of counts that they need.
        expected: usize,
        /// Number of counts given.
        got: usize,
    },
    /// A class has more right answers than targets.
    #[error("class {0} has more right answers than examples")]
    Right(usize),
    /// The counts do not add up to the examples.
    #[error("the counts of the classes add up to {counted}, which does not fit {examples} examples")]
    Total {
        /// Sum of the counts.
        counted: u128,
        /// Examples of the report.
        examples: u64,
    },
    /// The accuracy of the report is another one.
    #[error("the accuracy does not follow from the counts of the classes")]
    Accuracy,
    /// Other reports of the round, or the model, have other classes.
    #[error("counts of {got} classes, where the round counts {expected}")]
    Differ {
        /// Number of classes of the round.
        expected: usize,
        /// Number of classes of the report.
        got: usize,
    },
}

impl ClassCounts {
    /// Counts of this many classes, all 0; `None` where classes are not counted.
    pub fn of_classes(classes: usize) -> Option<Self> {
        if classes == 0 || classes > COUNTED_CLASSES_MAX {
            return None;
        }
        let per_class = || Self::PerClass { examples: vec![0; classes], right: vec![0; classes] };
        let confusion = || Self::Confusion { classes: classes as u32, counts: vec![0; classes * classes] };
        Some(if classes <= CONFUSION_CLASSES_MAX { confusion() } else { per_class() })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        match self {
            Self::Confusion { classes, .. } => *classes as usize,
            Self::PerClass { examples, .. } => examples.len(),
        }
    }

    /// Counts one target. Classes beyond the counted ones are ignored.
    pub fn count(&mut self, truth: usize, predicted: usize) {
        match self {
            Self::Confusion { classes, counts } => {
                let classes = *classes as usize;
                if predicted < classes
                    && let Some(count) = counts.get_mut(truth * classes + predicted)
                {
                    *count += 1;
                }
            }
            Self::PerClass { examples, right } => {
                if let (Some(examples), Some(right)) = (examples.get_mut(truth), right.get_mut(truth)) {
                    *examples += 1;
                    *right += u64::from(truth == predicted);
                }
            }
        }
    }

    /// Targets and right answers of each class.
    pub fn totals(&self) -> ClassTotals {
        match self {
            Self::Confusion { classes, counts } => {
                let rows = counts.chunks_exact((*classes as usize).max(1));
                let right = rows.clone().enumerate().map(|(truth, row)| row.get(truth).copied().unwrap_or(0));
                ClassTotals { right: right.collect(), examples: rows.map(|row| row.iter().sum()).collect() }
            }
            Self::PerClass { examples, right } => ClassTotals { examples: examples.clone(), right: right.clone() },
        }
    }

    /// Checks lengths and sums against the examples and the accuracy of their report. `targets` is the number of
    /// targets of one example: 1, or the positions of a sequence where the network has an output for each; `None` if
    /// unknown.
    ///
    /// # Errors
    /// [`ClassCountsError`] names the first contradiction.
    pub fn check(&self, examples: u64, targets: Option<u64>, accuracy: Option<f64>) -> Result<(), ClassCountsError> {
        self.check_shape()?;
        let (counted, right) = match self {
            Self::Confusion { classes, counts } => {
                let diagonal = counts.iter().step_by(*classes as usize + 1);
                (sum(counts.iter()), sum(diagonal))
            }
            Self::PerClass { examples, right } => {
                if let Some(class) = examples.iter().zip(right).position(|(examples, right)| right > examples) {
                    return Err(ClassCountsError::Right(class));
                }
                (sum(examples.iter()), sum(right.iter()))
            }
        };
        let fits = match targets {
            Some(targets) => counted == u128::from(examples) * u128::from(targets),
            None => counted.is_multiple_of(u128::from(examples.max(1))),
        };
        if counted == 0 || counted > 1 << 60 || !fits {
            return Err(ClassCountsError::Total { counted, examples });
        }
        let share = right as f64 / counted as f64;
        if accuracy.is_some_and(|accuracy| (accuracy - share).abs() > 1e-6) {
            return Err(ClassCountsError::Accuracy);
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<(), ClassCountsError> {
        let classes = self.classes();
        let (classes_max, expected, got) = match self {
            Self::Confusion { counts, .. } => (CONFUSION_CLASSES_MAX, classes.saturating_mul(classes), counts.len()),
            Self::PerClass { right, .. } => (COUNTED_CLASSES_MAX, classes, right.len()),
        };
        if !(1..=classes_max).contains(&classes) {
            return Err(ClassCountsError::Classes(classes));
        }
        if got != expected {
            return Err(ClassCountsError::Length { classes, expected, got });
        }
        Ok(())
    }

    /// Adds the counts of another report.
    ///
    /// # Errors
    /// [`ClassCountsError::Differ`] if it counts other classes. Nothing is added then.
    pub fn add(&mut self, other: &Self) -> Result<(), ClassCountsError> {
        let differ = ClassCountsError::Differ { expected: self.classes(), got: other.classes() };
        match (self, other) {
            (Self::Confusion { counts, .. }, Self::Confusion { counts: more, .. }) if counts.len() == more.len() => {
                add_all(counts, more);
            }
            (Self::PerClass { examples, right }, Self::PerClass { examples: more, right: more_right })
                if examples.len() == more.len() =>
            {
                add_all(examples, more);
                add_all(right, more_right);
            }
            _ => return Err(differ),
        }
        Ok(())
    }
}

/// 10,000 reports of 2^60 targets would overflow; the coordinator accepts at most 2^40 examples per report.
fn add_all(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a u64>) -> u128 {
    counts.map(|count| u128::from(*count)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(classes: usize, pairs: &[(usize, usize)]) -> ClassCounts {
        let mut counts = ClassCounts::of_classes(classes).unwrap();
        pairs.iter().for_each(|(truth, predicted)| counts.count(*truth, *predicted));
        counts
    }

    #[test]
    fn a_matrix_has_the_truth_in_rows_and_adds_up() {
        let mut counts = counted(3, &[(0, 0), (0, 2), (1, 1), (2, 0), (0, 0)]);
        assert_eq!(counts, ClassCounts::Confusion { classes: 3, counts: vec![2, 0, 1, 0, 1, 0, 1, 0, 0] });
        assert_eq!(counts.totals(), ClassTotals { examples: vec![3, 1, 1], right: vec![2, 1, 0] });
        assert_eq!(counts.check(5, Some(1), Some(0.6)), Ok(()));
        counts.add(&counted(3, &[(2, 2)])).unwrap();
        assert_eq!(counts.totals().right, [2, 1, 1]);
        let json = serde_json::to_string(&counts).unwrap();
        assert_eq!(json, r#"{"kind":"confusion","classes":3,"counts":[2,0,1,0,1,0,1,0,1]}"#);
        assert_eq!(serde_json::from_str::<ClassCounts>(&json).unwrap(), counts);
    }

    #[test]
    fn the_form_follows_from_the_number_of_classes() {
        assert!(matches!(ClassCounts::of_classes(100), Some(ClassCounts::Confusion { .. })));
        assert!(matches!(ClassCounts::of_classes(101), Some(ClassCounts::PerClass { .. })));
        assert!(ClassCounts::of_classes(1_000).is_some() && ClassCounts::of_classes(1_001).is_none());
        assert!(ClassCounts::of_classes(0).is_none());
        let counts = counted(200, &[(150, 150), (150, 3)]);
        assert_eq!((counts.totals().examples[150], counts.totals().right[150]), (2, 1));
        assert_eq!(counts.check(2, None, Some(0.5)), Ok(()));
    }

    #[test]
    fn contradictions_are_named() {
        let matrix = |classes, counts| ClassCounts::Confusion { classes, counts };
        let cases = [
            (matrix(0, vec![]), ClassCountsError::Classes(0)),
            (matrix(101, vec![0; 101 * 101]), ClassCountsError::Classes(101)),
            (matrix(2, vec![4]), ClassCountsError::Length { classes: 2, expected: 4, got: 1 }),
            (matrix(2, vec![1, 0, 0, 1]), ClassCountsError::Total { counted: 2, examples: 4 }),
            (matrix(1, vec![u64::MAX]), ClassCountsError::Total { counted: u64::MAX.into(), examples: 4 }),
            (matrix(2, vec![3, 0, 0, 1]), ClassCountsError::Accuracy),
            (ClassCounts::PerClass { examples: vec![4], right: vec![5] }, ClassCountsError::Right(0)),
        ];
        for (counts, expected) in cases {
            assert_eq!(counts.check(4, None, Some(0.5)), Err(expected));
        }
        let positions = matrix(2, vec![4, 0, 0, 4]);
        assert_eq!(positions.check(4, Some(2), Some(1.0)), Ok(()), "two positions per example");
        let too_many = ClassCountsError::Total { counted: 8, examples: 4 };
        assert_eq!(positions.check(4, Some(1), Some(1.0)), Err(too_many));
        let differ = matrix(2, vec![0; 4]).add(&matrix(3, vec![0; 9]));
        assert_eq!(differ, Err(ClassCountsError::Differ { expected: 2, got: 3 }));
        assert!(serde_json::from_str::<ClassCounts>(r#"{"kind":"confusion","classes":1,"counts":[-1]}"#).is_err());
    }
}
