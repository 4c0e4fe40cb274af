//! C's functions as the callbacks of the SDK.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use tributary_client::Locked;

use super::status::{TributaryStatus, c_text};
use super::types::{
    TributaryAttestation, TributaryAttester, TributaryCheckpoint, TributaryDevice, TributaryHost, TributaryKeyStore,
    TributaryResult, TributaryStop, TributaryTask, TributaryTensor, TributaryTrainer,
};
use crate::attest::{Attestation, Attester};
use crate::errors::{CallbackError, TrainerError};
use crate::floats::Floats;
use crate::host::{Device, Host, Thermal};
use crate::keys::KeyStore;
use crate::trainer::{EvaluateTask, Evaluated, Stop, Tensor, TrainTask, Trained, Trainer};

/// Longest signature of P-256 in DER.
const SIGNATURE_BYTES_MAX: usize = 72;

/// A structure of C with a context, used by one thread after the other.
pub(super) struct FromC<T>(pub(super) T);

// SAFETY: the header says on which threads the functions are called, and that the context must allow it. The SDK calls
// them one at a time.
unsafe impl<T> Send for FromC<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for FromC<T> {}

fn failed(what: &str) -> CallbackError {
    CallbackError::Failed { detail: what.to_owned() }
}

/// The error that a function of the app returned as a status.
pub(super) fn returned(who: &str, status: i32) -> TrainerError {
    let is = |expected: TributaryStatus| status == expected as i32;
    if is(TributaryStatus::NoExamples) {
        TrainerError::NoExamples
    } else if is(TributaryStatus::Diverged) {
        TrainerError::Diverged
    } else if is(TributaryStatus::DoesNotFit) {
        TrainerError::DoesNotFit { detail: format!("the {who} says that its examples do not fit") }
    } else {
        TrainerError::Other { detail: format!("the {who} returned the status {status}") }
    }
}

impl Host for FromC<TributaryHost> {
    fn device(&self) -> Result<Device, CallbackError> {
        let TributaryHost { context, device, .. } = self.0;
        let ask = device.ok_or_else(|| failed("the host has no function `device`"))?;
        let mut found = TributaryDevice { metered: -1, charging: -1, battery_percent: -1, thermal: -1 };
        // SAFETY: the app gave this function for this context, and the structure outlives the call.
        if unsafe { ask(context, &raw mut found) } != 0 {
            return Err(failed("the host failed"));
        }
        let flag = |value: i32| (value >= 0).then_some(value != 0);
        Ok(Device {
            metered: flag(found.metered),
            charging: flag(found.charging),
            battery_percent: u8::try_from(found.battery_percent.min(100)).ok(),
            thermal: match found.thermal {
                ..0 => None,
                0 => Some(Thermal::None),
                1 => Some(Thermal::Light),
                2 => Some(Thermal::Moderate),
                3.. => Some(Thermal::Severe),
            },
        })
    }
}

impl KeyStore for FromC<TributaryKeyStore> {
    fn public_key(&self) -> Result<Vec<u8>, CallbackError> {
        let TributaryKeyStore { context, public_key, .. } = self.0;
        let ask = public_key.ok_or_else(|| failed("the key store has no function `public_key`"))?;
        let mut point = vec![0; 65];
        // SAFETY: the app gave this function for this context, and the point has the 65 bytes that it may write.
        match unsafe { ask(context, point.as_mut_ptr()) } {
            0 => Ok(point),
            _ => Err(failed("the key cannot be read")),
        }
    }

    fn sign(&self, message: Vec<u8>) -> Result<Vec<u8>, CallbackError> {
        let TributaryKeyStore { context, sign, .. } = self.0;
        let sign = sign.ok_or_else(|| failed("the key store has no function `sign`"))?;
        let (mut signature, mut bytes) = (vec![0; SIGNATURE_BYTES_MAX], 0);
        // SAFETY: the app gave this function for this context; the message and the 72 bytes that it may write outlive
        // the call.
        let done = unsafe { sign(context, message.as_ptr(), message.len(), signature.as_mut_ptr(), &raw mut bytes) };
        if done != 0 || bytes == 0 || bytes > SIGNATURE_BYTES_MAX {
            return Err(failed("the key does not sign"));
        }
        signature.truncate(bytes);
        Ok(signature)
    }
}

impl Attester for FromC<TributaryAttester> {
    fn attest(&self, key: Option<Vec<u8>>) -> Result<Attestation, CallbackError> {
        let TributaryAttester { context, attest } = self.0;
        let attest = attest.ok_or_else(|| failed("the attester has no function `attest`"))?;
        let mut stated = TributaryAttestation(None);
        let key = key.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
        // SAFETY: the app gave this function for this context; key and attestation outlive the call.
        let done = unsafe { attest(context, key, &raw mut stated) };
        match stated.0 {
            Some(stated) if done == 0 => Ok(stated),
            _ => Err(failed("the app makes no statement about the device")),
        }
    }
}

/// A task as C reads it, with what its pointers point to.
struct Told {
    model: Vec<Tensor>,
    names: Vec<CString>,
    shapes: Vec<Vec<usize>>,
    texts: [CString; 3],
    job: Option<CString>,
    data: Option<CString>,
}

impl Told {
    fn new(model: Vec<Tensor>, texts: [&str; 3], [job, data]: [Option<&String>; 2]) -> Self {
        let names = model.iter().map(|tensor| c_text(&tensor.name)).collect();
        let shape = |tensor: &Tensor| tensor.shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
        let shapes = model.iter().map(shape).collect();
        let [job, data] = [job, data].map(|name| name.map(|name| c_text(name)));
        Self { names, shapes, model, texts: texts.map(c_text), job, data }
    }

    /// The tensors, as long as this value is neither moved nor changed.
    fn tensors(&mut self, frozen: &[String]) -> Vec<TributaryTensor> {
        let tensors = self.model.iter_mut().zip(&self.names).zip(&self.shapes);
        let tensor = |((tensor, name), shape): ((&mut Tensor, &CString), &Vec<usize>)| TributaryTensor {
            name: name.as_ptr(),
            shape: shape.as_ptr(),
            dimensions: shape.len(),
            values: tensor.values.0.as_mut_ptr(),
            count: tensor.values.0.len(),
            frozen: frozen.contains(&tensor.name).into(),
        };
        tensors.map(tensor).collect()
    }
}

type Work = unsafe extern "C" fn(
    context: *mut std::ffi::c_void,
    task: *const TributaryTask,
    result: *mut TributaryResult,
) -> i32;

impl FromC<TributaryTrainer> {
    /// Calls a function of the trainer. The task's tensors, texts and stop are set here.
    fn work(
        &self,
        (name, function): (&str, Option<Work>),
        told: &mut Told,
        frozen: &[String],
        task: TributaryTask,
        stop: TributaryStop,
    ) -> Result<(TributaryResult, HashMap<String, f64>), TrainerError> {
        let other = |detail: String| TrainerError::Other { detail };
        let function = function.ok_or_else(|| other(format!("the trainer has no function `{name}`")))?;
        let mut tensors = told.tensors(frozen);
        let [loss, training_json, model_json] = [0, 1, 2].map(|index: usize| told.texts[index].as_ptr());
        let (tensors, tensors_count) = (tensors.as_mut_ptr(), tensors.len());
        let name = |name: &Option<CString>| name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        let (job, data, stop_at) = (name(&told.job), name(&told.data), &raw const stop);
        let texts = TributaryTask { loss, training_json, model_json, job, data, ..task };
        let task = TributaryTask { tensors, tensors_count, stop: stop_at, ..texts };
        let mut result = TributaryResult { examples: 0, steps: 0, loss: f64::NAN, accuracy: -1.0 };
        // SAFETY: the app gave this function for this context, and everything in the task outlives the call.
        let status = unsafe { function(self.0.context, &raw const task, &raw mut result) };
        let is = |expected: TributaryStatus| status == expected as i32;
        if is(TributaryStatus::Ok) {
            Ok((result, std::mem::take(&mut *stop.metrics.locked())))
        } else if is(TributaryStatus::Interrupted) {
            let checkpoint = stop.checkpoint.locked().take();
            Err(checkpoint.map_or(TrainerError::Interrupted, |checkpoint| TrainerError::Suspended { checkpoint }))
        } else {
            Err(returned("trainer", status))
        }
    }
}

/// A task without anything that it points to.
const NOTHING: TributaryTask = TributaryTask {
    tensors: std::ptr::null_mut(),
    tensors_count: 0,
    epochs: 0,
    steps: 0,
    batch_size: 0,
    learning_rate: 0.0,
    proximal: 0.0,
    seed: 0,
    loss: std::ptr::null(),
    training_json: std::ptr::null(),
    model_json: std::ptr::null(),
    stop: std::ptr::null(),
    resume: std::ptr::null(),
    job: std::ptr::null(),
    data: std::ptr::null(),
};

impl Trainer for FromC<TributaryTrainer> {
    fn examples(&self) -> Result<u64, TrainerError> {
        Ok(self.0.examples)
    }

    fn train(&self, task: TrainTask, stop: Arc<Stop>) -> Result<Trained, TrainerError> {
        let texts = [&*task.loss, &task.training_json, &task.model_json];
        let mut told = Told::new(task.model, texts, [task.job.as_ref(), task.data.as_ref()]);
        let resume = task.resume.as_ref().map(|checkpoint| TributaryCheckpoint {
            steps: checkpoint.steps,
            losses: checkpoint.losses,
            state: checkpoint.bytes.as_ptr(),
            state_bytes: checkpoint.bytes.len(),
        });
        let stop = TributaryStop::new(stop, task.may_suspend);
        let asked = TributaryTask {
            epochs: task.epochs.unwrap_or(0),
            steps: task.steps.unwrap_or(0),
            batch_size: task.batch_size.unwrap_or(0),
            learning_rate: task.learning_rate,
            proximal: task.proximal,
            seed: task.seed,
            resume: resume.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            ..NOTHING
        };
        let (TributaryResult { examples, steps, loss, .. }, metrics) =
            self.work(("train", self.0.train), &mut told, &task.frozen, asked, stop)?;
        Ok(Trained { model: told.model, examples, steps, loss, metrics })
    }

    fn evaluate(&self, task: EvaluateTask, stop: Arc<Stop>) -> Result<Evaluated, TrainerError> {
        let texts = [&*task.loss, "", &task.model_json];
        let mut told = Told::new(task.model, texts, [task.job.as_ref(), task.data.as_ref()]);
        let stop = TributaryStop::new(stop, false);
        let (TributaryResult { examples, loss, accuracy, .. }, metrics) =
            self.work(("evaluate", self.0.evaluate), &mut told, &[], NOTHING, stop)?;
        let accuracy = (accuracy >= 0.0 || accuracy.is_nan()).then_some(accuracy);
        Ok(Evaluated { examples, loss, accuracy, metrics })
    }
}

/// Floats from C.
pub(super) fn floats(values: &[f32]) -> Floats {
    Floats(values.to_vec())
}
