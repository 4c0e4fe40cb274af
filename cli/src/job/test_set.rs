//! `tributary job test-set`: the examples on which the coordinator evaluates a job's models.

use std::collections::BTreeMap;
use std::path::Path;

use tributary_client::examples::{Batch, Examples, Targets};
use tributary_protocol::inputs::MissingValues;
use tributary_protocol::operator::{Job, TestSet};
use tributary_protocol::safetensors::{Data, Dtype, Tensor, write};

use super::args::{TestSetCommand, UploadArgs};
use super::find::find_job;
use crate::api::Api;
use crate::error::CliError;
use crate::format::{bytes, count, timestamp};
use crate::output::{self, Output};
use crate::table::{self, LabelMap, Missing, SchemaOptions, TableOptions, read_by_schema};

pub(super) async fn run(command: TestSetCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        TestSetCommand::Upload(args) => upload(&args, api, output).await,
        TestSetCommand::Show(args) => {
            let job = find_job(api, &args).await?;
            let state = api.test_set(job.head.id).await?;
            output.object(&state, || match &state.test_set {
                Some(test_set) => fields(test_set, output.width),
                None => format!("the job {} has no test set", job.file.name),
            })
        }
    }
}

async fn upload(args: &UploadArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let stored = match is_tensors(&args.file) {
        true => api.upload_test_set(job.head.id, &args.file).await?,
        false if has_columns(&job) => {
            let batch = by_columns(args, &job, output)?;
            let examples = batch.inputs.len() / job.file.model.inputs.as_ref().map_or(1, |inputs| inputs.columns.len());
            api.upload_test_set_file(job.head.id, tensors(&batch, examples)).await?
        }
        false => {
            let table = table::read_file(&args.file, &options(args))?;
            table.notes.iter().for_each(|note| output.note(&format!("note: {note}")));
            if let (Some(labels), None) = (&table.labels, &args.label_map) {
                output.note(&format!("note: the classes are {labels}; clients must have the same (--label-map)"));
            }
            let all: Vec<usize> = (0..table.examples.len()).collect();
            let batch = table.examples.batch(&all).map_err(|error| CliError::Internal(error.to_string()))?;
            api.upload_test_set_file(job.head.id, tensors(&batch, all.len())).await?
        }
    };
    output.object(&stored, || text(&job, &stored))
}

fn has_columns(job: &Job) -> bool {
    job.file.model.inputs.as_ref().is_some_and(|inputs| !inputs.columns.is_empty())
}

/// The raw rows of a table that has the job's columns. The coordinator prepares them as clients do, but replaces no
/// missing values.
fn by_columns(args: &UploadArgs, job: &Job, output: &Output) -> Result<Batch, CliError> {
    let mut inputs = job.file.model.inputs.clone().unwrap_or_default();
    inputs.columns.iter_mut().for_each(|column| column.missing = MissingValues::Refuse);
    let drops_missing = args.missing == Some(Missing::Drop);
    let options = SchemaOptions { drops_missing, is_for_training: true, ..SchemaOptions::default() };
    let table = read_by_schema(&args.file, &inputs, None, &options)?;
    table.notes.iter().for_each(|note| output.note(&format!("note: {note}")));
    let examples = table.examples(&inputs).map_err(|error| CliError::BadSetting(error.to_string()))?;
    let all: Vec<usize> = (0..examples.len()).collect();
    examples.batch(&all).map_err(|error| CliError::Internal(error.to_string()))
}

fn text(job: &Job, stored: &TestSet) -> String {
    let (name, examples) = (&job.file.name, count(stored.examples));
    format!("new versions of {name} are evaluated on these {examples} examples ({})", bytes(stored.bytes))
}

fn fields(test_set: &TestSet, width: Option<u16>) -> String {
    let pairs = [
        ("examples", test_set.examples.to_string()),
        ("size", bytes(test_set.bytes)),
        ("SHA-256", test_set.sha256.to_string()),
        ("uploaded", timestamp(test_set.uploaded_at_ms)),
    ];
    output::fields(&pairs, width)
}

fn is_tensors(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "safetensors")
}

fn options(args: &UploadArgs) -> TableOptions {
    TableOptions {
        target_column: args.target_column.clone(),
        regression: args.regression,
        missing: args.missing,
        standardize: args.standardize,
        input_scale: args.input_scale,
        labels: args.label_map.clone().map(LabelMap::new),
        ..TableOptions::default()
    }
}

/// The file that the coordinator takes.
fn tensors(batch: &Batch, examples: usize) -> Vec<u8> {
    let inputs = Tensor {
        name: "inputs",
        shape: &[examples, batch.inputs.len() / examples.max(1)],
        data: Data::F32(&batch.inputs),
    };
    match &batch.targets {
        Targets::Classes(classes) => {
            let bytes: Vec<u8> = classes.iter().flat_map(|class| i64::from(*class).to_le_bytes()).collect();
            let labels = Tensor { name: "labels", shape: &[examples], data: Data::Bytes(Dtype::I64, &bytes) };
            write(&[inputs, labels], &BTreeMap::new())
        }
        Targets::Values { values, width } => {
            let labels = Tensor { name: "labels", shape: &[examples, *width], data: Data::F32(values) };
            write(&[inputs, labels], &BTreeMap::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tributary_protocol::safetensors::Header;

    use super::*;
    use crate::testing::{Fake, job, output};

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: TestSetCommand,
    }

    async fn run_line(words: &[&str], fake: &Fake) -> Result<String, CliError> {
        let (output, printed) = output(false);
        let line = Line::try_parse_from(["test-set"].iter().chain(words)).unwrap();
        run(line.command, &fake.start().await, &output).await?;
        let text = printed.lock().unwrap().clone();
        Ok(text)
    }

    #[tokio::test]
    async fn a_table_becomes_the_tensors_that_the_coordinator_takes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.csv");
        std::fs::write(&file, "a;b;kind\n1;2;dog\n3;4;cat\n").unwrap();
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], ..Fake::default() };
        let file = file.to_str().unwrap();
        let text = run_line(&["upload", "digits", file, "--label-map", "dog,cat"], &fake).await.unwrap();
        assert!(text.contains("evaluated on these 2 examples"), "{text}");
        let sent = fake.uploaded();
        let header_bytes = u64::from_le_bytes(sent[..8].try_into().unwrap()) as usize;
        let header = Header::parse(&sent[8..8 + header_bytes]).unwrap();
        let shapes: Vec<_> = header.tensors().iter().map(|tensor| (&*tensor.name, tensor.shape.clone())).collect();
        assert_eq!(shapes, [("inputs", vec![2, 2]), ("labels", vec![2])]);
        assert_eq!(sent[sent.len() - 16..], [0i64.to_le_bytes(), 1i64.to_le_bytes()].concat(), "dog, then cat");
    }

    #[tokio::test]
    async fn tensors_are_sent_as_they_are_and_an_empty_place_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.safetensors");
        std::fs::write(&file, vec![7; 100_000]).unwrap();
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], ..Fake::default() };
        run_line(&["upload", "digits", file.to_str().unwrap()], &fake).await.unwrap();
        assert_eq!(fake.uploaded(), vec![7; 100_000]);
        let text = run_line(&["show", "digits"], &fake).await.unwrap();
        assert!(text.contains("the job digits has no test set"), "{text}");
    }
}
