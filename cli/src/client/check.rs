//! `tributary client check`: whether a table fits a running job.

use tributary_client::OpenJob;
use tributary_client::examples::Examples;

use super::connect::asking;
use super::fit::Shape;
use super::load::check_fit;
use super::run::{ClientRunArgs, trusted};
use super::schema;
use crate::error::CliError;
use crate::options::GlobalArgs;
use crate::output::Output;

/// Reads the table as `client run` would, and enrols nobody.
pub(super) async fn run(args: ClientRunArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let settings = args.settings(global)?;
    let (token, trust) = trusted(&settings)?;
    let server = settings.server.clone().unwrap_or_default();
    server.warn_if_exposed(output);
    let jobs = asking(&server, &trust, token.expose().as_str())?.open_jobs().await?;
    let jobs: Vec<OpenJob> = jobs.into_iter().filter(|job| job.data.is_none()).collect();
    let table = settings.table()?.ok_or_else(|| CliError::BadSetting("only tables can be checked".into()))?;
    let Some(applied) = schema::apply(&jobs, &table)? else {
        let loaded = settings.examples.load(None)?;
        let shape = Shape { input: loaded.examples.input_shape().to_vec(), classes: loaded.classes };
        check_fit(&jobs, &shape, &|text| output.note(text))?;
        return output.object(&serde_json::json!({ "fits": true, "job": null }), || {
            "no running job names columns; the table has the right number of them".into()
        });
    };
    applied.notes.iter().for_each(|note| output.note(note));
    let rows = applied.examples.len();
    let fits = serde_json::json!({ "fits": true, "job": applied.job, "schema": applied.schema, "rows": rows });
    output.object(&fits, || format!("{} fits the job {}: {rows} rows", table.path.display(), applied.job))
}
