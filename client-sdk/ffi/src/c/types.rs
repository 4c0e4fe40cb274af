//! Structures that C fills in or reads. A number stands where C could write a `bool` that is neither true nor false.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use crate::attest::Attestation;
use crate::checkpoint::Checkpoint;
use crate::client::{Cancel, Client};
use crate::examples::Examples;
use crate::model::Model;
use crate::sets::Sets;
use crate::table::Cell;
use crate::trainer::Stop;

/// A client of one coordinator. Its calls block the calling thread; it does one at a time.
pub struct TributaryClient(pub(super) Arc<Client>);

/// Examples in memory, for jobs whose model is a list of layers.
pub struct TributaryExamples(pub(super) Arc<Examples>);

/// Example sets of an app with several models.
pub struct TributarySets(pub(super) Arc<Sets>);

/// Ends the sessions that were started with it, from any thread and for good.
pub struct TributaryCancel(pub(super) Arc<Cancel>);

/// A model that predicts without a network. Threads may share it.
pub struct TributaryModel(pub(super) Arc<Model>);

/// Whether a training should stop, where it stopped, and what it measured.
pub struct TributaryStop {
    pub(super) stop: Arc<Stop>,
    pub(super) may_suspend: bool,
    pub(super) checkpoint: Mutex<Option<Checkpoint>>,
    pub(super) metrics: Mutex<HashMap<String, f64>>,
}

impl TributaryStop {
    pub(super) fn new(stop: Arc<Stop>, may_suspend: bool) -> Self {
        Self { stop, may_suspend, checkpoint: Mutex::default(), metrics: Mutex::default() }
    }
}

/// An attribute of the device.
#[repr(C)]
pub struct TributaryAttribute {
    /// For example `platform`.
    pub name: *const c_char,
    /// For example `linux`.
    pub value: *const c_char,
}

/// The device's key pair: ECDSA on P-256. The functions return 0 for success.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryKeyStore {
    /// Passed to the functions.
    pub context: *mut c_void,
    /// Writes the 65 bytes of the public point, uncompressed.
    pub public_key: Option<unsafe extern "C" fn(context: *mut c_void, point: *mut u8) -> i32>,
    /// Signs the SHA-256 of a message: writes the signature in DER, at most 72 bytes, and its length.
    pub sign: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            message: *const u8,
            message_bytes: usize,
            signature: *mut u8,
            signature_bytes: *mut usize,
        ) -> i32,
    >,
}

/// A statement of the device's platform that an attester fills in with `tributary_attest`.
pub struct TributaryAttestation(pub(super) Option<Attestation>);

/// What the platform says about the device, where the operator asks for it. The function returns 0 for success.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryAttester {
    /// Passed to the function.
    pub context: *mut c_void,
    /// Passes the statement to `tributary_attest`. `key` are the 32 bytes of the SHA-256 of the device's public key,
    /// which a platform that signs a nonce of the app should sign; null where the client has no key. The thread that
    /// runs a session calls it at an enrolment.
    pub attest: Option<
        unsafe extern "C" fn(context: *mut c_void, key: *const u8, attestation: *mut TributaryAttestation) -> i32,
    >,
}

/// The rows of a table, which `tributary_row` adds.
pub struct TributaryRows(pub(super) Vec<Vec<Cell>>);

/// The rows from which a client answers analyses. They never leave the device: what is sent are the sums that an
/// analysis asks for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryTable {
    /// Passed to the function.
    pub context: *mut c_void,
    /// Passes each row to `tributary_row`, with a value for each of these columns. The thread that runs a session calls
    /// it. It returns `TRIBUTARY_STATUS_OK`, `TRIBUTARY_STATUS_DOES_NOT_FIT` if the app has no such column, or another
    /// status that a trainer may return.
    pub rows: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            columns: *const *const c_char,
            columns_count: usize,
            rows: *mut TributaryRows,
        ) -> i32,
    >,
}

/// Settings of a client. Zeros and nulls are the defaults, where there are any.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributarySettings {
    /// `sizeof(TributarySettings)`. What a later release adds is zero for apps that were compiled before.
    pub size: usize,
    /// URL of the coordinator.
    pub server: *const c_char,
    /// The enrolment token, which admits the client to a population.
    pub token: *const c_char,
    /// A folder for identity, model cache and undelivered work. Two clients must not share it.
    pub state_dir: *const c_char,
    /// Accepts only certificates of these CAs, in PEM. May be null.
    pub ca_pem: *const c_char,
    /// Describes the device. May be null.
    pub attributes: *const TributaryAttribute,
    /// Number of attributes.
    pub attributes_count: usize,
    /// How long the coordinator may hold a check-in while it has no work, at most 60,000.
    pub wait_ms: u32,
    /// Not 0: allows `http://` to other machines, where everyone on the way could read models and updates.
    pub allow_plaintext: i32,
    /// May be null: the key is then kept in the folder.
    pub key_store: *const TributaryKeyStore,
    /// How many seconds lie between two checkpoints of a training, from which the next session goes on after a crash or
    /// a kill: 0 for 300, `UINT32_MAX` for no checkpoints.
    pub checkpoint_every_s: u32,
    /// May be null: then the client enrols without a statement about the device.
    pub attester: *const TributaryAttester,
    /// The channels whose releases sessions and updates get, at most 8. May be null.
    pub channels: *const *const c_char,
    /// Number of channels.
    pub channels_count: usize,
    /// Names the text of the consent with which the client takes part, such as `consent-v3`. Operators see it with the
    /// client. May be null.
    pub consent: *const c_char,
    /// When the consent was given, in milliseconds since 1970.
    pub consent_given_at_ms: i64,
    /// Not 0: takes part only in jobs whose updates are masked, so that the coordinator learns sums of groups alone.
    pub secure_aggregation: i32,
    /// Not 0: takes part only in groups whose members sign who they are and who has survived.
    pub signed_groups: i32,
    /// Fewest members whose updates are in a sum with this client's; 0 for any number.
    pub survivors_min: u32,
    /// Largest epsilon that this client spends in a job, against the coordinator, but for a chance of 1e-6; 0 for any.
    pub epsilon_max: f64,
    /// Largest norm to which updates are clipped, where they are masked; 0 for any.
    pub clip_max: f64,
    /// Answers analyses. May be null: then none is asked.
    pub table: *const TributaryTable,
}

/// A structure that an app fills in, and that may grow: its first member is its size, as the app's header has it.
///
/// # Safety
/// It is `repr(C)`, its first member is a `usize`, and zeros are a value of each of its members.
pub(super) unsafe trait Grows: Copy {}

// SAFETY: the first member is the size; all others are numbers, pointers and functions that may be absent.
unsafe impl Grows for TributarySettings {}
// SAFETY: as above.
unsafe impl Grows for TributaryHost {}
// SAFETY: as above.
unsafe impl Grows for TributaryTrainer {}
// SAFETY: as above.
unsafe impl Grows for TributaryPrediction {}

/// The device at a moment. -1 is unknown, which hinders nothing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryDevice {
    /// 1: the network connection is metered; 0: it is not.
    pub metered: i32,
    /// 1: the device has external power; 0: it has not.
    pub charging: i32,
    /// 0 to 100.
    pub battery_percent: i32,
    /// 0: no sign of heat, 1: light, 2: moderate, 3: severe.
    pub thermal: i32,
}

/// What must hold for a session to begin and to continue. `tributary_conditions` gives the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryConditions {
    /// Not 0: only on networks that are not metered.
    pub unmetered: i32,
    /// Only while charging, or with at least this charge in percent; 0 asks nothing of the battery.
    pub battery_percent_min: i32,
    /// Not 0: only while the device is cooler than moderate.
    pub cool: i32,
    /// Longest time of a session.
    pub time_budget_ms: u64,
}

/// The app's view of the device, asked at most once a second by the thread that runs the session.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryHost {
    /// `sizeof(TributaryHost)`.
    pub size: usize,
    /// Passed to the function.
    pub context: *mut c_void,
    /// Fills in the device and returns 0. Another value ends the session.
    pub device: Option<unsafe extern "C" fn(context: *mut c_void, device: *mut TributaryDevice) -> i32>,
    /// What must hold.
    pub conditions: TributaryConditions,
}

/// A parameter of the model.
#[repr(C)]
pub struct TributaryTensor {
    /// Name of the parameter.
    pub name: *const c_char,
    /// Its dimensions.
    pub shape: *const usize,
    /// Number of dimensions.
    pub dimensions: usize,
    /// Values row by row. Training changes them in place.
    pub values: *mut f32,
    /// Number of values: the product of the shape.
    pub count: usize,
    /// Not 0: must stay as it is.
    pub frozen: i32,
}

/// What to learn or to measure. Everything is valid until the callback returns.
#[repr(C)]
pub struct TributaryTask {
    /// The global model.
    pub tensors: *mut TributaryTensor,
    /// Number of parameters.
    pub tensors_count: usize,
    /// How often to train on every example; if 0, `steps` says how long.
    pub epochs: u32,
    /// Number of optimiser steps, or 0.
    pub steps: u32,
    /// Examples of a step; 0 for all.
    pub batch_size: u32,
    /// The optimiser's step size.
    pub learning_rate: f64,
    /// Weight of `(w - w_global)` in each gradient (FedProx); 0 for nothing.
    pub proximal: f64,
    /// The source of all randomness.
    pub seed: u64,
    /// `cross_entropy`, `mse`, or `other` for a loss of the app.
    pub loss: *const c_char,
    /// `[training]` of the job file as JSON; empty for an evaluation.
    pub training_json: *const c_char,
    /// `[model]` of the job file as JSON.
    pub model_json: *const c_char,
    /// For `tributary_should_stop`, `tributary_checkpoint_is_due` and `tributary_is_over`.
    pub stop: *const TributaryStop,
    /// Where an earlier session suspended this training, perhaps with an earlier release of the app; null to begin.
    pub resume: *const TributaryCheckpoint,
    /// Name of the job.
    pub job: *const c_char,
    /// The example set that the job names; null for the examples without a name.
    pub data: *const c_char,
}

/// Where a training was suspended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryCheckpoint {
    /// Number of steps that were taken.
    pub steps: u64,
    /// Sum of their losses.
    pub losses: f64,
    /// What the trainer needs besides: weights, what the optimiser keeps.
    pub state: *const u8,
    /// Number of bytes, at least 1.
    pub state_bytes: usize,
}

/// The result of training or of an evaluation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryResult {
    /// Number of examples, at least 1.
    pub examples: u64,
    /// Number of optimiser steps; of training only.
    pub steps: u64,
    /// Mean loss of the steps, or per example.
    pub loss: f64,
    /// Share of right classes, 0 to 1; negative for none. Of an evaluation only.
    pub accuracy: f64,
}

/// A trainer of the app. Its functions are called on a thread of the SDK, one at a time. They return
/// `TRIBUTARY_STATUS_OK`, or one of the statuses that a trainer may return.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryTrainer {
    /// `sizeof(TributaryTrainer)`.
    pub size: usize,
    /// Passed to the functions.
    pub context: *mut c_void,
    /// How many examples the client has.
    pub examples: u64,
    /// Trains the tensors of the task in place. It looks at `tributary_should_stop` before each batch.
    pub train: Option<
        unsafe extern "C" fn(context: *mut c_void, task: *const TributaryTask, result: *mut TributaryResult) -> i32,
    >,
    /// Measures the model.
    pub evaluate: Option<
        unsafe extern "C" fn(context: *mut c_void, task: *const TributaryTask, result: *mut TributaryResult) -> i32,
    >,
}

/// How a session ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TributaryOutcomeKind {
    /// With an error: the call returned another status than `TRIBUTARY_STATUS_OK`.
    Failed = 0,
    /// The coordinator accepted an update.
    Contributed = 1,
    /// The coordinator accepted an evaluation.
    Evaluated = 2,
    /// The coordinator had no work for this client.
    NothingToDo = 3,
    /// The round closed before this client had reported.
    TooLate = 4,
    /// The host or the app stopped the session.
    Interrupted = 5,
    /// The coordinator accepted the sums of the client's examples.
    Described = 6,
}

/// How a session ended, and when to begin the next one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TributaryOutcome {
    /// How it ended.
    pub kind: TributaryOutcomeKind,
    /// The round's number in its job, from 1; 0 without one.
    pub round: u32,
    /// Wait this long before the next session; 0 if nobody said.
    pub retry_after_ms: u64,
}

/// A value of a row.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryValue {
    /// Name of its column; not read in the rows of a table.
    pub column: *const c_char,
    /// A category, an ISO date, or a number as text; an empty one is missing. Null: it is `number`.
    pub text: *const c_char,
    /// A number, the code of a category, or a date in days since 1970; NaN is missing.
    pub number: f64,
}

/// What a model says of one row. The library fills it in.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TributaryPrediction {
    /// `sizeof(TributaryPrediction)`, which the app sets.
    pub size: usize,
    /// The network's outputs.
    pub outputs: *const f32,
    /// Number of outputs.
    pub outputs_count: usize,
    /// Probability of each class in their order, for each output row.
    pub probabilities: *const f32,
    /// Number of probabilities; 0 for numbers.
    pub probabilities_count: usize,
    /// The predicted numbers, in the target's unit.
    pub numbers: *const f64,
    /// Number of numbers; 0 for classes.
    pub numbers_count: usize,
    /// The most probable class, of the last output row; -1 for numbers.
    pub class_index: i64,
    /// Its name, or its number where classes have no names; null for numbers.
    pub label: *const c_char,
}
