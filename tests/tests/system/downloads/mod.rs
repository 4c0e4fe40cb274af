//! The way down: models in other forms, steps instead of models, the same bits for every client.

mod accuracy;
mod clients;
mod forms;
mod steps;

use std::sync::Arc;

use serde_json::{Value, json};
use tributary_protocol::download::ModelForm;
use tributary_protocol::id::JobId;
use tributary_protocol::model::ParameterList;
use tributary_protocol::operator::Job;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{FormSurvey, model_in_form};

use crate::support::{Answer, Device, World};

/// Parameters of the large model: files of it have several parts, in every form.
const PARAMETERS: usize = 1_100_037;

/// Changes of a job file that make its model large.
fn large(changes: &[(&str, Value)]) -> Value {
    let mut file = json!({
        "model": { "parameters": [{ "name": "w", "shape": [1000, 1100] }, { "name": "b", "shape": [37] }] },
    });
    for (key, change) in changes {
        file[*key] = change.clone();
    }
    file
}

/// A delta that does not shrink.
fn delta(seed: u32) -> Vec<f32> {
    let mut stream = Seed(seed.into()).stream();
    (0..PARAMETERS).map(|_| stream.uniform(-2.0, 2.0)).collect()
}

/// A device of this SDK's age: it reads every form.
async fn device(world: &World) -> Device {
    world.device().await.reading(&["f32", "f16", "int8"])
}

fn parameters(job: &Job) -> Arc<ParameterList> {
    Arc::new(job.file.model.parameters().unwrap())
}

fn changes(download: Value) -> Value {
    json!({ "download": download })
}

/// The file of a model version in some form, made of its plain file in one piece.
async fn expected_form(world: &World, job: &Job, version: u32, form: ModelForm) -> Vec<u8> {
    let plain = world.model_file(job.head.id, version).await;
    let mut survey = FormSurvey::new(parameters(job), form);
    if survey.wants_file() {
        survey.push(&plain).unwrap();
    }
    let mut writer = survey.finish().unwrap();
    let file = writer.push(&plain).unwrap();
    writer.finish().unwrap();
    file
}

/// The values of a body in some form, as the whole numbers that their bits make.
fn bits(body: &[u8], job: &Job, form: ModelForm) -> Vec<u32> {
    bits_of(model_in_form(body, &parameters(job), form).unwrap().values())
}

fn bits_of(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

async fn get(device: &Device, path: &str) -> Answer {
    Answer::to(device.request(reqwest::Method::GET, path)).await
}

async fn get_range(device: &Device, path: &str, range: &str) -> Answer {
    Answer::to(device.request(reqwest::Method::GET, path).header("range", range)).await
}

fn model_path(job: JobId, version: u32, form: &str) -> String {
    format!("/jobs/{job}/models/{version}?form={form}")
}

fn step_path(job: JobId, version: u32) -> String {
    format!("/jobs/{job}/models/{version}/delta")
}
