//! The tables of waiting clients, and which of them are those of another job.

use tributary_engine::job::JobSpec;
use tributary_engine::story::OtherTables;

use crate::app::App;
use crate::db::{DbError, Tx};
use crate::fleet::waiting::with_other_tables;

/// The waiting clients whose tables have other columns or classes than a job.
pub(in crate::api) async fn other_tables(app: &App, tx: &mut Tx, spec: &JobSpec) -> Result<OtherTables, DbError> {
    let [clients, of] = with_other_tables(app, &app.fleet, tx, spec).await?;
    Ok(OtherTables { clients, of })
}
