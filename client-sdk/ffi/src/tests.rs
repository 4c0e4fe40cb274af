//! Bad input from an app: each piece has its error, and nothing panics.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tributary_client::trainer::{self, Trainer as _};
use tributary_client::{Attest as _, KeyStore as _, TrainError};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Secret, SecretKind};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::{Model, ParameterList, ParameterSpec};
use tributary_protocol::plan::{Loss, Training};
use tributary_protocol::seed::Seed;

use crate::attest::AppAttester;
use crate::keys::AppKeys;
use crate::trainer::AppTrainer;
use crate::*;

pub(crate) fn settings() -> Settings {
    Settings {
        server: "http://127.0.0.1:1".to_owned(),
        token: Secret::from_random(SecretKind::Enrolment, [1; 32]).expose(),
        state_dir: "/nonexistent/tributary".to_owned(),
        attributes: HashMap::new(),
        wait_ms: 0,
        checkpoint_every_s: 300,
        channels: Vec::new(),
        consent: None,
        privacy_floor: None,
        ca_pem: None,
        allow_plaintext: false,
        sdk: None,
    }
}

#[test]
fn a_wrong_setting_is_bad_input_that_names_it() {
    assert!(Client::new(settings(), None, None, None).is_ok());
    type Change<'a> = &'a dyn Fn(&mut Settings);
    let cases: [(Change<'_>, &str); 7] = [
        (&|settings| settings.server = "fl.example.org".into(), "http://"),
        (&|settings| settings.server = "http://fl.example.org".into(), "plain HTTP"),
        (&|settings| settings.token = "secret".into(), "enrolment token"),
        (&|settings| settings.ca_pem = Some("no certificate".into()), "set up"),
        (&|settings| drop(settings.attributes.insert("x".into(), "y".repeat(1000))), "set up"),
        (&|settings| settings.consent = Some(Consent { text: String::new(), given_at_ms: 0 }), "consent"),
        (&|settings| settings.sdk = Some("a b".into()), "\"a b\" is not a name"),
    ];
    for (change, text) in cases {
        let mut settings = settings();
        change(&mut settings);
        let error = Client::new(settings, None, None, None).err().unwrap();
        assert!(matches!(&error, TributaryError::BadInput { detail } if detail.contains(text)), "{error:?}");
    }
}

#[test]
fn examples_that_do_not_fit_or_are_not_finite_are_bad_input() {
    let classes = |shape: &[u64], inputs: &[f32], labels: &[u32]| {
        Examples::of_classes(shape.to_vec(), Floats(inputs.to_vec()), labels.to_vec())
    };
    assert!(classes(&[2], &[1.0, 2.0], &[0]).is_ok());
    let huge = u64::MAX;
    for (shape, inputs, labels) in [
        (&[][..], &[1.0][..], &[0][..]),
        (&[0], &[1.0], &[0]),
        (&[huge, huge], &[1.0], &[0]),
        (&[2], &[1.0, 2.0, 3.0], &[0]),
        (&[2], &[1.0, 2.0], &[]),
        (&[2], &[1.0, f32::NAN], &[0]),
        (&[2], &[f32::INFINITY, 1.0], &[0]),
    ] {
        let refused = classes(shape, inputs, labels);
        assert!(matches!(refused, Err(TributaryError::BadInput { .. })), "{shape:?} {inputs:?} {labels:?}");
    }
    let values =
        |targets: &[f32], width| Examples::of_values(vec![1], Floats(vec![1.0]), Floats(targets.to_vec()), width);
    assert!(values(&[1.0, 2.0], 2).is_ok());
    for (targets, width) in [(&[1.0][..], 0), (&[1.0], 2), (&[f32::NAN], 1), (&[], 1)] {
        assert!(matches!(values(targets, width), Err(TributaryError::BadInput { .. })), "{targets:?}");
    }
}

#[test]
fn a_part_of_a_float_is_bad_input() {
    let lift = |bytes: Vec<u8>| {
        let mut framed = (bytes.len() as i32).to_be_bytes().to_vec();
        framed.extend(bytes);
        <Floats as uniffi::Lift<UniFfiTag>>::try_read(&mut &framed[..])
    };
    assert_eq!(lift(1.5f32.to_le_bytes().to_vec()).unwrap(), Floats(vec![1.5]));
    let error = lift(vec![1, 2, 3]).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(TributaryError::BadInput { .. })), "{error}");
}

struct Answering(Result<Device, CallbackError>);

impl Host for Answering {
    fn device(&self) -> Result<Device, CallbackError> {
        self.0.clone()
    }
}

#[test]
fn a_host_that_fails_a_busy_device_and_a_cancel_end_a_session_before_its_first_request() {
    let client = Client::new(settings(), None, None, None).unwrap();
    let examples = Examples::of_classes(vec![1], Floats(vec![1.0]), vec![0]).unwrap();
    let fails = Answering(Err(CallbackError::Failed { detail: "the sensor is gone".into() }));
    let metered = Answering(Ok(Device { metered: Some(true), ..Device::default() }));
    for host in [fails, metered] {
        let outcome = client.run_once(&examples, Some(Arc::new(host)), None, None).unwrap();
        assert!(matches!(outcome, Outcome::Interrupted { .. }), "{outcome:?}");
    }
    let cancel = Cancel::new();
    cancel.cancel();
    let outcome = client.run_once(&examples, None, None, Some(Arc::clone(&cancel))).unwrap();
    assert!(matches!(outcome, Outcome::Interrupted { .. }), "{outcome:?}");
    let impossible = Conditions { battery_percent_min: 101, ..Conditions::default() };
    let refused = client.run_once(&examples, None, Some(impossible), None);
    assert!(matches!(refused, Err(TributaryError::BadInput { .. })), "{refused:?}");
}

/// States the key that it was asked about, or fails.
struct Platform {
    fails: bool,
}

impl Attester for Platform {
    fn attest(&self, key: Option<Vec<u8>>) -> Result<Attestation, CallbackError> {
        match self.fails {
            true => Err(CallbackError::Failed { detail: "no service".into() }),
            false => Ok(Attestation { platform: "test".into(), statement: format!("{:?}", key.map(|key| key.len())) }),
        }
    }
}

#[test]
fn an_attester_of_the_app_gets_the_hash_of_the_key_and_its_statement_is_sent() {
    let attest = |fails, key| {
        let attester = AppAttester(Arc::new(Platform { fails }));
        let stated = attester.attest(key).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(stated) = stated else { panic!("it waits") };
        stated
    };
    let stated = attest(false, Some(Sha256Hash([7; 32]))).unwrap();
    assert_eq!((stated.platform.as_str(), stated.statement.as_str()), ("test", "Some(32)"));
    assert_eq!(attest(false, None).unwrap().statement, "None");
    assert!(attest(true, None).unwrap_err().to_string().contains("no service"));
}

struct Key(usize);

impl KeyStore for Key {
    fn public_key(&self) -> Result<Vec<u8>, CallbackError> {
        Ok(vec![4; self.0])
    }

    fn sign(&self, _: Vec<u8>) -> Result<Vec<u8>, CallbackError> {
        Err(CallbackError::Failed { detail: "the device is locked".into() })
    }
}

#[test]
fn a_key_of_another_length_and_a_locked_device_are_errors() {
    assert_eq!(AppKeys(Arc::new(Key(65))).public_key().unwrap(), [4; 65]);
    let error = AppKeys(Arc::new(Key(64))).public_key().unwrap_err().to_string();
    assert!(error.contains("64 bytes instead of 65"), "{error}");
    let error = AppKeys(Arc::new(Key(65))).sign(b"message").unwrap_err().to_string();
    assert!(error.contains("the device is locked"), "{error}");
}

pub(crate) fn model() -> Model {
    let specs = vec![ParameterSpec::new("w", [2, 2]), ParameterSpec::new("b", [2])];
    Model::new(Arc::new(ParameterList::new(specs).unwrap()), vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap()
}

pub(crate) fn spec() -> ModelSpec {
    let parameters = serde_json::json!([{ "name": "w", "shape": [2, 2] }, { "name": "b", "shape": [2] }]);
    serde_json::from_value(serde_json::json!({ "parameters": parameters })).unwrap()
}

pub(crate) fn training() -> Training {
    let optimizer = serde_json::json!({ "kind": "sgd", "learning_rate": 0.25 });
    serde_json::from_value(serde_json::json!({ "steps": 3, "optimizer": optimizer })).unwrap()
}

/// A trainer whose results the test chooses.
#[derive(Clone)]
struct Scripted {
    trained: Result<fn(&mut Trained), TrainerError>,
    evaluated: Result<fn(&mut Evaluated), TrainerError>,
}

impl Trainer for Scripted {
    fn examples(&self) -> Result<u64, TrainerError> {
        Ok(4)
    }

    fn train(&self, task: TrainTask, stop: Arc<Stop>) -> Result<Trained, TrainerError> {
        assert_eq!((task.steps, task.epochs, task.learning_rate), (Some(3), None, 0.25));
        assert!(!stop.is_set() && !stop.is_over());
        let mut trained = Trained { model: task.model, examples: 4, steps: 3, loss: 0.5, metrics: HashMap::new() };
        self.trained.clone()?(&mut trained);
        Ok(trained)
    }

    fn evaluate(&self, task: EvaluateTask, _: Arc<Stop>) -> Result<Evaluated, TrainerError> {
        assert_eq!(task.model.len(), 2);
        let mut evaluated = Evaluated { examples: 4, loss: 0.5, accuracy: Some(1.0), metrics: HashMap::new() };
        self.evaluated.clone()?(&mut evaluated);
        Ok(evaluated)
    }
}

const GOOD: Scripted = Scripted { trained: Ok(|_| {}), evaluated: Ok(|_| {}) };

fn train(scripted: Scripted) -> Result<trainer::Trained, TrainError> {
    let (model, spec, training) = (model(), spec(), training());
    let task = trainer::TrainTask::new(&model, &spec, &training, Seed(7));
    AppTrainer::new(Arc::new(scripted)).unwrap().train(&task, &|| false)
}

fn evaluate(scripted: Scripted) -> Result<trainer::Evaluated, TrainError> {
    let (model, spec) = (model(), spec());
    let task = trainer::EvaluateTask::new(&model, &spec, Loss::CrossEntropy);
    AppTrainer::new(Arc::new(scripted)).unwrap().evaluate(&task, &|| false)
}

#[test]
fn a_trainer_gives_back_the_model_that_it_was_given() {
    let changed = train(Scripted { trained: Ok(|trained| trained.model.reverse()), ..GOOD }).unwrap();
    assert_eq!((changed.values.as_slice(), changed.steps), (model().values(), 3));
    assert_eq!(evaluate(GOOD).unwrap().accuracy, Some(1.0));
}

#[test]
fn what_a_trainer_returns_is_checked() {
    type Change = fn(&mut Trained);
    let cases: [(Change, &str); 5] = [
        (|trained| trained.model[0].shape = vec![4], "shape"),
        (|trained| trained.model[0].shape = vec![u64::MAX], "shape"),
        (|trained| drop(trained.model.pop()), "no parameter \"b\""),
        (|trained| trained.model[1].values = Floats(vec![]), "0 values"),
        (|trained| trained.metrics.extend([("a name that is no name".to_owned(), 1.0)]), ""),
    ];
    for (change, text) in cases {
        let error = train(Scripted { trained: Ok(change), ..GOOD }).unwrap_err();
        assert!(matches!(&error, TrainError::DoesNotFit(detail) if detail.contains(text)), "{error:?}");
    }
    let nan = train(Scripted { trained: Ok(|trained| trained.model[0].values.0[0] = f32::NAN), ..GOOD });
    assert_eq!(nan.unwrap_err(), TrainError::Diverged);
    for accuracy in [f64::NAN, -0.1, 1.1] {
        let change: fn(&mut Evaluated) = match accuracy {
            1.1 => |evaluated| evaluated.accuracy = Some(1.1),
            -0.1 => |evaluated| evaluated.accuracy = Some(-0.1),
            _ => |evaluated| evaluated.accuracy = Some(f64::NAN),
        };
        let refused = evaluate(Scripted { evaluated: Ok(change), ..GOOD });
        assert!(matches!(refused, Err(TrainError::DoesNotFit(_))), "{refused:?}");
    }
}

#[test]
fn what_a_trainer_throws_keeps_its_kind_and_a_panic_is_an_error() {
    let checkpoint = |losses| Checkpoint { steps: 2, losses, bytes: vec![7] };
    let kept = trainer::Checkpoint::new(2, 0.5).with_bytes(vec![7]);
    for (thrown, told) in [
        (TrainerError::Interrupted, TrainError::Interrupted),
        (TrainerError::Suspended { checkpoint: checkpoint(0.5) }, TrainError::Suspended(Box::new(kept))),
        (TrainerError::Suspended { checkpoint: checkpoint(f64::NAN) }, TrainError::Diverged),
        (TrainerError::NoExamples, TrainError::NoExamples),
        (TrainerError::Diverged, TrainError::Diverged),
        (TrainerError::DoesNotFit { detail: "a".into() }, TrainError::DoesNotFit("a".into())),
        (TrainerError::Other { detail: "b".into() }, TrainError::Other("b".into())),
    ] {
        assert_eq!(train(Scripted { trained: Err(thrown.clone()), ..GOOD }).unwrap_err(), told);
        assert_eq!(evaluate(Scripted { evaluated: Err(thrown), ..GOOD }).unwrap_err(), told);
    }
    let panicked = train(Scripted { trained: Ok(|_| panic!("on purpose")), ..GOOD });
    assert!(matches!(panicked, Err(TrainError::Other(_))), "{panicked:?}");
    let unexpected = uniffi::UnexpectedUniFFICallbackError { reason: "NullPointerException".into() };
    assert_eq!(TrainerError::from(unexpected), TrainerError::Thrown { detail: "NullPointerException".into() });
}

/// Rows of an app; one without rows fails.
#[derive(Debug)]
struct AppRows(Vec<Vec<Cell>>);

impl Table for AppRows {
    fn rows(&self, columns: Vec<String>) -> Result<Vec<Vec<Cell>>, TrainerError> {
        assert_eq!(columns, ["age", "pet"]);
        if self.0.is_empty() {
            return Err(TrainerError::Thrown { detail: "java.io.IOException: patient_17 not found".to_owned() });
        }
        Ok(self.0.clone())
    }
}

#[test]
fn the_rows_of_an_app_are_its_cells_and_of_its_exceptions_the_kind_is_told() {
    use tributary_client::{Cell as Value, Table as _};
    let of = |rows: Vec<Vec<Cell>>| crate::table::AppTable(Arc::new(AppRows(rows))).rows(&["age", "pet"]);
    let row = vec![Cell::Number { value: 3.5 }, Cell::Text { value: "cat".to_owned() }];
    let read = of(vec![row, vec![Cell::Missing, Cell::Missing]]).unwrap();
    assert_eq!(read, [vec![Value::from(3.5), Value::from("cat")], vec![Value::Missing, Value::Missing]]);
    let failed = of(Vec::new()).unwrap_err();
    assert!(matches!(&failed, TrainError::Thrown { kind, .. } if kind == "java.io.IOException"), "{failed:?}");
}
