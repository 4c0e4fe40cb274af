//! Accepted updates of a round, as rules read them.

use tributary_protocol::coded::{Code, CodedShare};
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::scalars::Scalars;

use super::tx::{Json, Text, fetch};
use super::{DbError, RoundKey, Tx};

/// An accepted update with the figures of its report.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct AcceptedRow {
    #[sqlx(try_from = "String")]
    pub id: AssignmentId,
    #[sqlx(try_from = "i64")]
    pub base_version: u32,
    #[sqlx(flatten)]
    figures: FiguresRow,
    report_sha256: Option<Text<Sha256Hash>>,
    share: Option<Text<Json<CodedShare>>>,
    /// Whether it is a sum of updates.
    pub is_sum: bool,
    /// Enrolment number of the client.
    #[sqlx(try_from = "i64")]
    pub number: u64,
}

impl AcceptedRow {
    /// The figures of the update, without its named scalars.
    pub fn figures(&self) -> Result<Figures, DbError> {
        self.figures.read().ok_or_else(|| DbError::Corrupt(format!("{} reported no weight", self.id)))
    }

    /// Its share of a coded round.
    pub fn share(&self) -> Option<&CodedShare> {
        self.share.as_ref().map(|Text(Json(share))| share)
    }

    /// Of a combination of a code: its entry for each part, of which a star has so many, or run of parts.
    pub fn row(&self, parts: usize) -> Option<Vec<f64>> {
        let share = self.share()?;
        if let Some(tree) = &share.tree {
            return Some(tree.entries.clone());
        }
        if share.code != Code::Cyclic {
            return None;
        }
        let mut row = vec![0.0; parts];
        for part in &share.parts {
            *row.get_mut(usize::from(part.place))? = part.coefficient;
        }
        Some(row)
    }

    /// SHA-256 of the update.
    pub fn sha256(&self) -> Result<Sha256Hash, DbError> {
        let missing = || DbError::Corrupt(format!("{} reported no update", self.id));
        self.report_sha256.map(|Text(sha256)| sha256).ok_or_else(missing)
    }
}

/// The columns of [`Figures`].
#[derive(Clone, Debug, sqlx::FromRow)]
struct FiguresRow {
    updates: Option<i64>,
    weight: Option<i64>,
    loss: Option<f64>,
    update_norm: Option<f64>,
    steps: Option<i64>,
}

impl FiguresRow {
    fn read(&self) -> Option<Figures> {
        let weight = Weight::of_examples(u64::try_from(self.weight?).ok()?)?;
        let updates = u32::try_from(self.updates?).ok()?;
        Some(Figures {
            contribution: Contribution { weight, updates },
            loss: self.loss,
            norm: self.update_norm,
            steps: self.steps.map_or(0, i64::cast_unsigned),
            metrics: Scalars::new(),
        })
    }
}

impl Tx {
    /// The accepted updates of a round, in the order of their assignments' ids. The sum of a group is one of them, that
    /// of its first member; the others have none of their own.
    pub async fn accepted_updates(&mut self, round: RoundKey) -> Result<Vec<AcceptedRow>, DbError> {
        let sql = "select a.id, a.base_version, a.updates, a.weight, a.update_norm, a.loss, a.steps, a.report_sha256, a.share, (a.places > 0 or a.brings > 0) as is_sum, c.number \
                   from assignments a join clients c on c.id = a.client \
                   where a.job = $1 and a.task = $2 and a.round = $3 and a.state = 'reported' and a.updates > 0 order by a.id";
        let (job, number) = (round.job.to_string(), i64::from(round.number));
        Ok(fetch!(self, AcceptedRow, fetch_all, sql, job.as_str(), round.task.as_str(), number))
    }
}
