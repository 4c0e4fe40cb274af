//! The answer to an analysis: what the rows of the client's table come to.

use tributary_protocol::analysis::Analysis;
use tributary_protocol::body::shrink;
use tributary_protocol::device::UpdateQuery;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::noise::add_local_noise;
use tributary_protocol::scalars::Scalars;
use tributary_protocol::seed::Seed;
use zeroize::Zeroizing;

use super::completed::Completed;
use super::compute::computing;
use super::encode::encode;
use super::given::Given;
use crate::secure::system_entropy;
use crate::store::state::Work;
use crate::table::{Cell, Table};
use crate::trainer::TrainError;

/// Reads the table and encodes its part of the answers. Without noise, a table of fewer rows than `floor` is not spoken
/// of, because its sums could be one person's.
///
/// # Errors
/// The table's [`TrainError`], or one for a table that is too small or does not fit.
pub(crate) fn answer(
    table: Option<&dyn Table>,
    analysis: &Analysis,
    given: &Given<'_>,
    floor: u64,
) -> Result<Completed, TrainError> {
    let Given { assignment, base, .. } = *given;
    let table = table.ok_or(TrainError::CannotAnswer)?;
    let columns = analysis.columns();
    let rows = computing(|| table.rows(&columns))?;
    check(&rows, columns.len(), analysis.noise.is_none(), floor)?;
    // The same rows of a table count in all rounds of a job.
    let seed = Seed(0).derive(&assignment.job.to_string(), 0);
    let mut part = analysis.part(&rows, assignment.model_version + 1, base.model.values(), seed);
    if let Some(noise) = analysis.own_noise() {
        // Counted before it is drawn, as nothing may leave this device that it forgets.
        let counted = given.state.count_noised(assignment.job, noise);
        counted.map_err(|error| TrainError::Other(error.to_string()))?;
        let mut key = Zeroizing::new([0; 32]);
        system_entropy(key.as_mut()).map_err(|error| TrainError::Other(error.to_string()))?;
        add_local_noise(&mut part, &analysis.answered_in(assignment.model_version + 1), noise, &key);
    }
    let update = encode(part, assignment, base.parts.shared(), None)?;
    let body = shrink(update.file);
    let (loss, steps, train_ms, metrics) = (None, 0, given.elapsed_ms(), Scalars::new());
    let query = UpdateQuery { weight: 1, loss, steps, train_ms, metrics };
    let sha256 = Sha256Hash::of(&body);
    Ok(Completed { work: Work::Update { query, sha256 }, body: body.into(), next_state: None })
}

fn check(rows: &[Vec<Cell>], columns: usize, is_exact: bool, floor: u64) -> Result<(), TrainError> {
    if rows.is_empty() {
        return Err(TrainError::NoExamples);
    }
    if let Some(row) = rows.iter().find(|row| row.len() != columns) {
        let length = row.len();
        return Err(TrainError::DoesNotFit(format!(
            "a row has {length} values, where {columns} columns are asked for"
        )));
    }
    if is_exact && (rows.len() as u64) < floor {
        let rows = rows.len();
        return Err(TrainError::DoesNotFit(format!(
            "the table has {rows} rows, and without [privacy] this client tells nothing of fewer than {floor}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_do_not_fit_are_refused() {
        let rows = |count: usize| vec![vec![Cell::from(1.0)]; count];
        assert_eq!(check(&rows(5), 1, true, 5), Ok(()));
        assert_eq!(check(&rows(4), 1, false, 5), Ok(()), "noise hides single rows");
        assert_eq!(check(&[], 1, false, 0), Err(TrainError::NoExamples));
        for refused in [check(&rows(4), 1, true, 5), check(&rows(4), 2, false, 0)] {
            assert!(matches!(refused, Err(TrainError::DoesNotFit(_))), "{refused:?}");
        }
    }
}
