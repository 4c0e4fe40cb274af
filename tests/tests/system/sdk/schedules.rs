//! Learning rates and amounts of work that change with the version of the model.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{
    Client, EvaluateTask, Evaluated, HttpTransport, LayerTrainer, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::operator::Job;

use super::session;
use crate::support::{World, job_file};

/// Trains as [`LayerTrainer`] does, and notes the steps and the learning rate of each training.
struct Noting {
    trainer: LayerTrainer,
    trainings: Vec<(u64, f64)>,
}

impl Trainer for Noting {
    fn examples(&self) -> u64 {
        self.trainer.examples()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let trained = self.trainer.train(task, should_stop)?;
        self.trainings.push((trained.steps, task.training.optimizer.learning_rate()));
        Ok(trained)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.trainer.evaluate(task, should_stop)
    }
}

/// Goal: post-local SGD. Clients take one step a round until the first fall of the learning rate, then several.
#[tokio::test]
async fn clients_do_the_work_of_the_version_that_they_train_from() {
    let world = World::start().await;
    let training = json!({
        "epochs": null, "steps": 1, "batch_size": 2, "optimizer": { "learning_rate": 0.5 },
        "schedule": { "kind": "steps", "at": [2, 3], "factor": 0.5 },
        "work_schedule": [{ "version": 2, "steps": 5 }, { "version": 3, "epochs": 2 }],
    });
    let mut file = job_file(&json!({ "training": training, "stop": { "rounds": 4 } }));
    file["model"] = json!({ "input": [3], "layers": [{ "kind": "linear", "out_features": 2 }] });
    let job: Job = world.create_job(&file).await.ok();
    let inputs = (0..18).map(|index| (index % 7) as f32 / 7.0).collect();
    let labels = Targets::Classes((0..6).map(|label| label % 2).collect());
    let examples = MemoryExamples::new(vec![3], inputs, labels).unwrap();
    let mut trainer = Noting { trainer: LayerTrainer::new(Arc::new(examples)), trainings: Vec::new() };
    let directory = TempDir::new().unwrap();
    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let client = builder.transport(Arc::new(HttpTransport::new(world.http.clone()))).build().unwrap();
    for _ in 0..4 {
        let outcome = session(&world, &client, &mut trainer).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
    }
    assert_eq!(trainer.trainings, [(1, 0.5), (1, 0.5), (5, 0.25), (6, 0.125)]);
    world.check_books(job.head.id).await;
}
