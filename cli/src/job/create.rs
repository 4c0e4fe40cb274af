//! `tributary job create`.

use tributary_protocol::job_file::InitialModel;
use tributary_protocol::operator::Job;
use tributary_protocol::state::JobState;

use super::args::JobCreateArgs;
use super::{check, file};
use crate::api::Api;
use crate::error::CliError;
use crate::format::count;
use crate::output::Output;

pub(crate) async fn run(args: &JobCreateArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let file = file::read(&args.file)?;
    let wants_upload = file.initial_model == InitialModel::Upload;
    if let Some(model) = &args.initial_model {
        // Checked before the job is created: a job whose model cannot be sent would wait for ever.
        std::fs::File::open(model).map_err(CliError::file("read", model))?;
        if !wants_upload {
            output.note(
                "note: the job file does not say `initial_model = \"upload\"`: the coordinator may refuse the model",
            );
        }
    }
    if args.dry_run {
        return check::run(file, api, output).await;
    }
    let mut job = api.create_job(file).await?;
    if let Some(model) = &args.initial_model {
        api.upload_initial_model(job.head.id, model).await?;
        job = api.job(job.head.id).await?;
    }
    output.object(&job, || text(&job))
}

fn text(job: &Job) -> String {
    let name = &job.file.name;
    let next = match job.head.state {
        JobState::AwaitingModel => "it waits for model version 0".to_owned(),
        _ => format!("next: `tributary job watch {name}`"),
    };
    format!("created the job {name} ({}) of {} parameters\n{next}", job.head.id, count(job.head.parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, JOB_FILE, output};
    use std::path::Path;

    fn args(file: &Path, initial_model: Option<&Path>) -> JobCreateArgs {
        JobCreateArgs { file: file.into(), initial_model: initial_model.map(Into::into), dry_run: false }
    }

    #[tokio::test]
    async fn a_mistake_is_named_with_its_file_and_key_and_nothing_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("digits.toml");
        std::fs::write(&file, JOB_FILE.replace("epochs", "epoch")).unwrap();
        let fake = Fake::default();
        let api = fake.start().await;
        let error = run(&args(&file, None), &api, &output(true).0).await.expect_err("a wrong key").to_string();
        assert!(error.contains("digits.toml") && error.contains("epoch") && error.contains("line"), "{error}");
        assert_eq!(fake.calls(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn the_initial_model_follows_its_job_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let (file, model) = (folder.path().join("digits.toml"), folder.path().join("m.safetensors"));
        std::fs::write(&file, format!("initial_model = \"upload\"\n{JOB_FILE}")).unwrap();
        std::fs::write(&model, vec![7; 100_000]).unwrap();
        let fake = Fake::default();
        run(&args(&file, Some(&model)), &fake.start().await, &output(true).0).await.unwrap();
        assert_eq!(fake.uploaded(), vec![7; 100_000]);
    }

    #[tokio::test]
    async fn a_missing_model_file_is_named_before_the_job_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("digits.toml");
        std::fs::write(&file, JOB_FILE).unwrap();
        let fake = Fake::default();
        let missing = folder.path().join("missing");
        let error =
            run(&args(&file, Some(&missing)), &fake.start().await, &output(true).0).await.expect_err("no model");
        assert!(matches!(error, CliError::File { action: "read", .. }), "{error}");
        assert_eq!(fake.calls(), Vec::<String>::new());
    }
}
