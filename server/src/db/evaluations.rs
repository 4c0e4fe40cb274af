//! Evaluations: what they come to, and whom they wait for.

use tributary_engine::round::{Accuracy, Trained, measured};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::MeasuredOn;

use super::tx::{execute, fetch, stored};
use super::{DbError, RoundKey, Tx};

/// Combined results of a model's evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvaluationSummary {
    /// Mean loss, weighted by examples.
    pub loss: Option<f64>,
    /// Accuracy, weighted by examples, and what it was measured on.
    pub accuracy: Option<(f64, MeasuredOn)>,
}

impl Tx {
    /// Results of an evaluation round: means, weighted by examples.
    pub async fn evaluation_summary(&mut self, key: RoundKey) -> Result<EvaluationSummary, DbError> {
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let sql = "select sum(loss * weight) / sum(weight) as loss from assignments \
                   where job = $1 and task = 'evaluate' and round = $2 and state = 'reported' and weight > 0";
        let (loss,) = fetch!(self, (Option<f64>,), fetch_one, sql, job.as_str(), number);
        let sql = "select accuracy, weight, updates from assignments where job = $1 and task = 'evaluate' \
                   and round = $2 and state = 'reported' and weight > 0 and accuracy is not null";
        let rows = fetch!(self, (f64, i64, i64), fetch_all, sql, job.as_str(), number);
        let report = |(share, weight, clients)| Accuracy {
            share,
            examples: u64::try_from(weight).unwrap_or(0),
            clients: u32::try_from(clients).unwrap_or(1),
        };
        let reports: Vec<_> = rows.into_iter().map(report).collect();
        Ok(EvaluationSummary { loss, accuracy: measured(&reports) })
    }

    /// Stores the results of an evaluation with its own round and with the training round that produced the model.
    pub async fn store_evaluation(&mut self, key: RoundKey, summary: EvaluationSummary) -> Result<(), DbError> {
        let sql = "update rounds set loss = $3, accuracy = $4, accuracy_examples = $5, accuracy_clients = $6, \
                   accuracy_low = $7, accuracy_worst = $8, accuracy_p10 = $9 where job = $1 and number = $2 \
                   and task in ('train', 'evaluate')";
        let on = summary.accuracy.map(|(_, on)| on);
        execute!(
            self,
            sql,
            key.job.to_string(),
            i64::from(key.number),
            summary.loss,
            summary.accuracy.map(|(accuracy, _)| accuracy),
            on.map(|on| stored(on.examples)),
            on.map(|on| i64::from(on.clients)),
            on.map(|on| on.low),
            on.and_then(|on| on.worst),
            on.and_then(|on| on.p10)
        );
        Ok(())
    }

    /// Notes that a coordinator begins to compute an evaluation. Returns how often one has begun without an end, with
    /// this time.
    pub async fn begin_evaluation(&mut self, key: RoundKey) -> Result<u32, DbError> {
        let sql = "update rounds set begun = begun + 1 where job = $1 and task = $2 and number = $3 returning begun";
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        let row = fetch!(self, (i64,), fetch_optional, sql, job.as_str(), key.task.as_str(), number);
        u32::try_from(row.map_or(0, |(begun,)| begun)).map_err(|error| DbError::corrupt("rounds.begun", error))
    }

    /// Notes that the evaluation came to an end in good order, with a result or without.
    pub async fn end_evaluation(&mut self, key: RoundKey) -> Result<(), DbError> {
        let sql = "update rounds set begun = 0 where job = $1 and task = $2 and number = $3";
        execute!(self, sql, key.job.to_string(), key.task.as_str(), i64::from(key.number));
        Ok(())
    }

    /// Lower bound of the accuracy of the newest evaluated model of a job.
    pub async fn latest_accuracy(&mut self, job: JobId) -> Result<Option<f64>, DbError> {
        let sql = "select accuracy_low from rounds where job = $1 and task = 'evaluate' and phase = 'committed' \
                   order by number desc limit 1";
        let row = fetch!(self, (Option<f64>,), fetch_optional, sql, job.to_string());
        Ok(row.and_then(|(accuracy,)| accuracy))
    }

    /// Number of evaluations of a job that were opened.
    pub async fn evaluations_opened(&mut self, job: JobId) -> Result<u32, DbError> {
        let sql = "select count(*) from rounds where job = $1 and task = 'evaluate'";
        let (rounds,) = fetch!(self, (i64,), fetch_one, sql, job.to_string());
        u32::try_from(rounds).map_err(|error| DbError::corrupt("the number of evaluations", error))
    }

    /// How many clients whose updates made the model of an evaluation have not been drawn for it.
    pub async fn makers_not_drawn(&mut self, key: RoundKey) -> Result<u32, DbError> {
        let sql = "select count(distinct t.client) from assignments t where t.job = $1 and t.task = 'train' \
                   and t.round = $2 and t.state = 'reported' and not exists (select 1 from assignments e \
                   where e.job = $1 and e.task = 'evaluate' and e.round = $2 and e.client = t.client)";
        let (clients,) = fetch!(self, (i64,), fetch_one, sql, key.job.to_string(), i64::from(key.number));
        Ok(u32::try_from(clients).unwrap_or(u32::MAX))
    }

    /// What an evaluation asks about the training round of its number, and about the evaluations before.
    pub(super) async fn trained(&mut self, key: RoundKey) -> Result<Trained, DbError> {
        let (job, number) = (key.job.to_string(), i64::from(key.number));
        // The sum of a relay stands for several clients.
        let sql = "select count(distinct client) + cast(coalesce(sum(updates - 1), 0) as bigint) from assignments \
                   where job = $1 and task = 'train' and round = $2 and state = 'reported'";
        let (clients,) = fetch!(self, (i64,), fetch_one, sql, job.as_str(), number);
        let sql = "select coalesce(closed_at_ms - selected_at_ms, 0) from rounds \
                   where job = $1 and task = 'train' and number = $2";
        let took = fetch!(self, (i64,), fetch_optional, sql, job.as_str(), number);
        let sql = "select reported from rounds where job = $1 and task = 'evaluate' and phase = 'committed' \
                   and number < $2 order by number desc limit 1";
        let evaluators = fetch!(self, (i64,), fetch_optional, sql, job.as_str(), number);
        Ok(Trained {
            clients: u32::try_from(clients).unwrap_or(u32::MAX),
            took_ms: took.map_or(0, |(took_ms,)| took_ms),
            evaluators: evaluators.map_or(0, |(reported,)| u32::try_from(reported).unwrap_or(u32::MAX)),
        })
    }
}
