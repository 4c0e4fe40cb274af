//! The examples of a client, read as the jobs that may use them want it.

use std::path::Path;

use tributary_client::Sets;
use tributary_client::examples::Examples;
use tributary_protocol::device::OpenJob;
use tributary_protocol::id::Name;

use super::answering::FileTable;
use super::compute::Compute;
use super::examples::{ExampleArgs, Loaded};
use super::fit::{Shape, misfits};
use super::fleet::Member;
use super::kept_labels;
use super::schema;
use super::settings::ClientSettings;
use crate::error::CliError;
use crate::output::Output;

/// What examples are read with.
pub(super) struct Reading<'a> {
    pub(super) settings: &'a ClientSettings,
    /// The running jobs; none while the coordinator is away.
    pub(super) jobs: Option<&'a [OpenJob]>,
    pub(super) state_dir: &'a Path,
    pub(super) output: &'a Output,
}

/// A client to start, with everything that it learns from.
#[derive(Default)]
pub(super) struct Starting {
    /// Its name in a fleet, and the name of its folder.
    pub(super) name: Option<String>,
    pub(super) attributes: Vec<(String, String)>,
    /// Examples of all its sets.
    pub(super) examples: usize,
    pub(super) trainer: Sets,
}

impl From<Member> for Starting {
    fn from(member: Member) -> Self {
        let Member { name, attributes, examples, trainer } = member;
        Self { name, attributes, examples, trainer: Sets::new().with_unnamed(trainer) }
    }
}

impl Reading<'_> {
    /// The clients that the settings describe: those of a fleet, or one with its named example sets.
    pub(super) fn clients(&self, table: Option<&FileTable>, compute: &Compute) -> Result<Vec<Starting>, CliError> {
        let ClientSettings { examples, fleet, sets, .. } = self.settings;
        if fleet.fleet.is_some() && !sets.is_empty() {
            return Err(CliError::BadSetting(
                "sets: named example sets are those of one client, not of a fleet".into(),
            ));
        }
        let mut clients = Vec::new();
        if sets.is_empty() || examples.are_given() {
            let loaded = self.load(examples, None, table)?;
            let mut members = fleet.members(loaded.examples, compute)?;
            members.iter_mut().for_each(|member| member.trainer.set_schema(loaded.schema));
            clients.extend(members.into_iter().map(Starting::from));
        } else {
            clients.push(Starting::default());
        }
        for (name, examples) in sets {
            let loaded = self.load(examples, Some(name), None)?;
            let client = &mut clients[0];
            client.examples += loaded.examples.len();
            let mut trainer = fleet.trainer(loaded.examples, compute)?;
            trainer.set_schema(loaded.schema);
            let added = client.trainer.add(name.clone(), Box::new(trainer));
            added.map_err(|error| CliError::BadSetting(format!("sets: {error}")))?;
        }
        Ok(clients)
    }

    /// Reads the examples of a set: a table by the columns of a job, if one that uses the set names them. The jobs are
    /// kept for a start while the coordinator is away.
    fn load(
        &self,
        examples: &ExampleArgs,
        data: Option<&Name>,
        answering: Option<&FileTable>,
    ) -> Result<Loaded, CliError> {
        let Self { jobs, state_dir, output, .. } = *self;
        let known = match jobs {
            Some(jobs) => jobs.to_vec(),
            None => schema::kept(state_dir)?,
        };
        let using: Vec<OpenJob> = known.iter().filter(|job| job.data.as_ref() == data).cloned().collect();
        let note = |text: &str| match data {
            Some(name) => output.note(&format!("{name}: {text}")),
            None => output.note(text),
        };
        if let Some(table) = examples.table()?
            && let Some(applied) = schema::apply(&using, &table)?
        {
            jobs.map_or(Ok(()), |jobs| schema::keep(state_dir, jobs))?;
            applied.notes.iter().for_each(|text| note(text));
            note(&format!("the table is read by the columns of the job {}", applied.job));
            let schema::Applied { examples, classes, notes, schema, .. } = applied;
            return Ok(Loaded { examples, labels: None, classes, notes, schema: Some(schema) });
        }
        if let Some(loaded) = answering.map(|table| table.answering(&known)).transpose()?.flatten() {
            schema::keep(state_dir, &known)?;
            note("the table answers analyses: no running job trains");
            return Ok(loaded);
        }
        let loaded = examples.load(kept_labels::read(state_dir, data)?)?;
        loaded.notes.iter().for_each(|text| note(text));
        if let Some(labels) = &loaded.labels {
            note(&format!("classes: {labels}; all clients of a job need --label-map {}", labels.option()));
            kept_labels::write(state_dir, data, labels)?;
        }
        let shape = Shape { input: loaded.examples.input_shape().to_vec(), classes: loaded.classes };
        check_fit(if jobs.is_some() { &using } else { &[] }, &shape, &note)?;
        Ok(loaded)
    }
}

/// Refuses examples that no running job can use, before a client is enrolled that would wait for ever.
pub(super) fn check_fit(jobs: &[OpenJob], shape: &Shape, note: &dyn Fn(&str)) -> Result<(), CliError> {
    for misfit in misfits(jobs, shape)? {
        note(&format!("warning: these examples do not fit the job {misfit}"));
    }
    Ok(())
}
