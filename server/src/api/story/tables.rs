//! The tables of waiting clients, and which of them are those of another job.

use tributary_engine::job::JobSpec;
use tributary_engine::story::OtherTables;

use crate::app::App;
use crate::db::{DbError, Tx};
use crate::fleet::waiting::present;

/// The waiting clients whose tables have other columns or classes than a job. An analysis reads columns by their names,
/// whatever a job has made of the table.
pub(in crate::api) async fn other_tables(app: &App, tx: &mut Tx, spec: &JobSpec) -> Result<OtherTables, DbError> {
    let waiting = present(app, &app.fleet, tx, &spec.file.population).await?;
    let (data, asks) = (spec.file.data.as_ref(), spec.file.analysis.is_some());
    let others = waiting.iter().filter(|candidate| !asks && candidate.has_other_table(data, spec.schema));
    Ok(OtherTables { clients: others.map(|candidate| candidate.client).collect(), of: waiting.len() })
}
