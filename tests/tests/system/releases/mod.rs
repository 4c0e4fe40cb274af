//! Released models: who gets which, what a gate holds back, and models that are only evaluated.

mod only;
mod shares;

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::model::{Model, ParameterList, ParameterSpec};
use tributary_protocol::operator::{Job, Page, Release};
use tributary_protocol::release::{ChannelAnswer, Difference, Released};
use tributary_protocol::safetensors::{model_from_bytes, model_metadata, model_to_bytes};
use tributary_protocol::update::{add_model_delta, model_delta_header};

use crate::support::{Answer, Device, World};

/// A job whose newest version is this one.
async fn trained(world: &World, changes: Value, versions: u32) -> Job {
    let job = world.job(changes).await;
    let device = world.device().await;
    for version in 0..versions {
        let [work] = world.assign([&device]).await;
        device.contribute(&work, &[0.5 + version as f32, -0.25, 0.125, 1.0, 2.0, -3.0], 10).await;
        world.drive().await;
    }
    world.job_now(job.head.id).await
}

async fn release(world: &World, job: JobId, version: u32, changes: Value) -> Answer {
    let mut wanted = json!({ "job": job, "version": version, "channel": "stable" });
    wanted.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    world.operate(Method::POST, "/releases", &wanted).await
}

async fn releases(world: &World) -> Vec<Release> {
    world.look("/releases?population=devices").await.ok::<Page<Release>>().items
}

/// What the channel has for a device that has this file of it.
async fn asked(device: &Device, has: Option<Sha256Hash>) -> Answer {
    let mut request = device.request(Method::GET, "/release?channel=stable");
    if let Some(has) = has {
        request = request.header("if-none-match", format!("\"{has}\""));
    }
    Answer::to(request).await
}

/// The release that a device has once it has asked and asked again.
async fn updated(device: &Device, has: Option<Sha256Hash>) -> Option<Released> {
    let answer = asked(device, has).await;
    if answer.status == 304 {
        return None;
    }
    let released = answer.ok::<ChannelAnswer>().release.map(|released| *released);
    // It says what it has now.
    asked(device, released.as_ref().map(|released| released.sha256)).await;
    released
}

/// The parameters of [`crate::support::job_file`].
fn parameters() -> Arc<ParameterList> {
    let specs = vec![ParameterSpec::new("w", [2, 2]), ParameterSpec::new("b", [2])];
    Arc::new(ParameterList::new(specs).unwrap())
}

fn values(file: &[u8]) -> Vec<f32> {
    model_from_bytes(file).unwrap().into_values()
}

/// A release's file, made of another one and differences, as a client would.
fn added(base: &[u8], body: &[u8], difference: &Difference) -> Vec<u8> {
    let mut values = values(base);
    let header = model_delta_header(&difference.release.to_string(), difference.number);
    add_model_delta(&mut values, body, &parameters(), header).unwrap();
    model_to_bytes(&Model::new(parameters(), values).unwrap(), &model_metadata())
}
