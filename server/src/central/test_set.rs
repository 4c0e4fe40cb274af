//! Test sets: the safetensors files that operators upload, checked while they arrive.
//!
//! A file has two tensors. `inputs` is F32, one row per example, of the network's input shape or as many values;
//! where the job names columns, of one raw value for each.
//! `labels` has a class for each output row (U8, I32 or I64) with cross-entropy, and the values of the outputs (F32)
//! with the squared error.

use tributary_protocol::inputs::Inputs;
use tributary_protocol::job_model::JobModel;
use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
use tributary_protocol::plan::Loss;
use tributary_protocol::safetensors::{Decoder, Dtype, Header, SafetensorsError, Sink};

use crate::evaluator::{TestExamples, TestTargets};

/// Largest test set in bytes: the 10,000 test images of CIFAR-10 as F32 fit.
pub const TEST_SET_BYTES_MAX: u64 = 128 << 20;
/// Longest header of the file: two tensors and metadata.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// A file that is no test set of its job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestSetError {
    #[error(transparent)]
    File(#[from] SafetensorsError),
    #[error("a test set has the tensors inputs and labels; this file has {0:?}")]
    Tensors(Vec<String>),
    #[error("{tensor} is {got:?}; it must be {expected}")]
    Type { tensor: &'static str, got: Dtype, expected: &'static str },
    #[error("{tensor} has the shape {got:?}; the network takes {expected}")]
    Shape { tensor: &'static str, got: Vec<usize>, expected: String },
    #[error("there are no examples")]
    Empty,
    #[error("example {example}: a value of {tensor} is not finite")]
    NotFinite { tensor: &'static str, example: usize },
    #[error("example {example}: {label} is none of the network's {classes} classes")]
    Class { example: usize, label: i64, classes: usize },
    #[error("example {example}: {value} is not a token id: those are 0 to {last}")]
    Token { example: usize, value: String, last: usize },
    #[error("only lists of layers have a test set")]
    Foreign,
}

/// What a network takes.
#[derive(Clone, Debug)]
struct Wanted {
    /// Values of one input.
    input: usize,
    /// Output rows of one input: positions of a sequence, else 1.
    rows: usize,
    /// Length of an output row.
    outputs: usize,
    loss: Loss,
    /// Size of the vocabulary, if the inputs are token ids.
    tokens: Option<usize>,
}

/// Reads a test set that comes in pieces.
#[derive(Debug)]
pub(crate) struct TestSetReader {
    file: Decoder,
    reading: Reading,
}

#[derive(Debug)]
struct Reading {
    wanted: Wanted,
    /// Whether the values are kept, or only checked.
    keeps: bool,
    examples: usize,
    /// Which tensor of the file holds the inputs, and the type of the other one.
    inputs_tensor: usize,
    labels: Dtype,
    inputs: Vec<f32>,
    classes: Vec<u32>,
    values: Vec<f32>,
}

impl TestSetReader {
    /// Checks a file without keeping it.
    pub(crate) fn checking(model: &JobModel, loss: Loss) -> Result<Self, TestSetError> {
        Self::new(model, loss, false)
    }

    /// Reads a file into memory.
    pub(crate) fn keeping(model: &JobModel, loss: Loss) -> Result<Self, TestSetError> {
        Self::new(model, loss, true)
    }

    fn new(model: &JobModel, loss: Loss, keeps: bool) -> Result<Self, TestSetError> {
        let ModelSpec::Layers(network) = &model.spec else { return Err(TestSetError::Foreign) };
        let columns = model.inputs.as_ref().and_then(Inputs::raw_width);
        let reading = Reading {
            wanted: Wanted::of(network, columns, loss)?,
            keeps,
            examples: 0,
            inputs_tensor: 0,
            labels: Dtype::F32,
            inputs: Vec::new(),
            classes: Vec::new(),
            values: Vec::new(),
        };
        Ok(Self { file: Decoder::new(HEADER_BYTES_MAX), reading })
    }

    /// Takes the next bytes of the file.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), TestSetError> {
        self.file.push(piece, &mut self.reading)
    }

    /// Ends the file. Returns the number of examples, and what was kept of them.
    pub(crate) fn finish(self) -> Result<(u64, TestExamples), TestSetError> {
        self.file.finish()?;
        let Reading { wanted, examples, inputs, classes, values, .. } = self.reading;
        let targets = match wanted.loss {
            Loss::CrossEntropy => TestTargets::Classes(classes),
            Loss::Mse | Loss::Other => TestTargets::Values(values),
        };
        Ok((examples as u64, TestExamples { inputs, targets }))
    }
}

impl Wanted {
    fn of(network: &LayeredModel, columns: Option<usize>, loss: Loss) -> Result<Self, TestSetError> {
        let shapes = network.shapes().map_err(|_| TestSetError::Foreign)?;
        let (outputs, positions) = shapes.last().and_then(|shape| shape.split_last()).ok_or(TestSetError::Foreign)?;
        let tokens = match network.layers.first() {
            Some(Layer::Embedding { tokens, .. }) => Some(*tokens),
            _ => None,
        };
        let input = columns.unwrap_or_else(|| network.input.iter().product());
        let rows = positions.iter().product();
        Ok(Self { input, rows, outputs: *outputs, loss, tokens })
    }

    /// Labels of one example.
    fn labels(&self) -> usize {
        match self.loss {
            Loss::CrossEntropy => self.rows,
            Loss::Mse | Loss::Other => self.rows * self.outputs,
        }
    }

    fn check_labels(&self, dtype: Dtype) -> Result<(), TestSetError> {
        let (fits, expected) = match self.loss {
            Loss::CrossEntropy => (matches!(dtype, Dtype::U8 | Dtype::I32 | Dtype::I64), "U8, I32 or I64: classes"),
            Loss::Mse | Loss::Other => (dtype == Dtype::F32, "F32: values"),
        };
        if fits { Ok(()) } else { Err(TestSetError::Type { tensor: "labels", got: dtype, expected }) }
    }
}

impl Sink for Reading {
    type Error = TestSetError;

    fn header(&mut self, header: &Header) -> Result<(), TestSetError> {
        let tensors = header.tensors();
        let place = |name: &str| tensors.iter().position(|tensor| tensor.name == name);
        let (Some(inputs_at), Some(labels_at), 2) = (place("inputs"), place("labels"), tensors.len()) else {
            return Err(TestSetError::Tensors(tensors.iter().map(|tensor| tensor.name.clone()).take(8).collect()));
        };
        let (inputs, labels) = (&tensors[inputs_at], &tensors[labels_at]);
        if inputs.dtype != Dtype::F32 {
            return Err(TestSetError::Type { tensor: "inputs", got: inputs.dtype, expected: "F32" });
        }
        self.wanted.check_labels(labels.dtype)?;
        let examples = inputs.shape.first().copied().unwrap_or(0);
        let wrong = |tensor, shape: &[usize], each: usize, what: &str| TestSetError::Shape {
            tensor,
            got: shape.to_vec(),
            expected: format!("{each} {what} per example"),
        };
        if examples == 0 {
            return Err(TestSetError::Empty);
        }
        if examples.checked_mul(self.wanted.input) != Some(inputs.elements) {
            return Err(wrong("inputs", &inputs.shape, self.wanted.input, "values"));
        }
        if examples.checked_mul(self.wanted.labels()) != Some(labels.elements) {
            return Err(wrong("labels", &labels.shape, self.wanted.labels(), "labels"));
        }
        (self.examples, self.inputs_tensor, self.labels) = (examples, inputs_at, labels.dtype);
        Ok(())
    }

    fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), TestSetError> {
        if tensor == self.inputs_tensor {
            return self.take_inputs(element, bytes);
        }
        match self.labels {
            Dtype::U8 => self.take_classes(element, bytes.iter().map(|byte| i64::from(*byte))),
            Dtype::I32 => self
                .take_classes(element, bytes.as_chunks().0.iter().map(|class| i64::from(i32::from_le_bytes(*class)))),
            Dtype::I64 => {
                self.take_classes(element, bytes.as_chunks().0.iter().map(|class| i64::from_le_bytes(*class)))
            }
            _ => self.take_values(element, bytes),
        }
    }
}

impl Reading {
    fn take_inputs(&mut self, element: usize, bytes: &[u8]) -> Result<(), TestSetError> {
        for (index, value) in floats(bytes).enumerate() {
            let example = (element + index) / self.wanted.input;
            if !value.is_finite() {
                return Err(TestSetError::NotFinite { tensor: "inputs", example });
            }
            let is_token = |tokens: usize| value.fract() == 0.0 && value >= 0.0 && (value as usize) < tokens;
            if let Some(tokens) = self.wanted.tokens.filter(|tokens| !is_token(*tokens)) {
                return Err(TestSetError::Token { example, value: value.to_string(), last: tokens - 1 });
            }
            if self.keeps {
                self.inputs.push(value);
            }
        }
        Ok(())
    }

    fn take_classes(&mut self, element: usize, labels: impl Iterator<Item = i64>) -> Result<(), TestSetError> {
        let classes = self.wanted.outputs;
        for (index, label) in labels.enumerate() {
            let Some(class) = u32::try_from(label).ok().filter(|class| (*class as usize) < classes) else {
                let example = (element + index) / self.wanted.rows.max(1);
                return Err(TestSetError::Class { example, label, classes });
            };
            if self.keeps {
                self.classes.push(class);
            }
        }
        Ok(())
    }

    fn take_values(&mut self, element: usize, bytes: &[u8]) -> Result<(), TestSetError> {
        for (index, value) in floats(bytes).enumerate() {
            if !value.is_finite() {
                let example = (element + index) / self.wanted.labels().max(1);
                return Err(TestSetError::NotFinite { tensor: "labels", example });
            }
            if self.keeps {
                self.values.push(value);
            }
        }
        Ok(())
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tributary_protocol::safetensors::{Data, Tensor, write};

    use super::*;

    fn spec(json: &str) -> ModelSpec {
        serde_json::from_str(json).unwrap()
    }

    fn two_classes() -> ModelSpec {
        spec(r#"{"input": [3], "layers": [{"kind": "linear", "out_features": 2}]}"#)
    }

    fn read(spec: &ModelSpec, loss: Loss, tensors: &[Tensor<'_>]) -> Result<(u64, TestExamples), TestSetError> {
        let file = write(tensors, &BTreeMap::new());
        let mut reader = TestSetReader::keeping(&JobModel::from(spec.clone()), loss)?;
        for piece in file.chunks(7) {
            reader.push(piece)?;
        }
        reader.finish()
    }

    fn inputs<'a>(shape: &'a [usize], values: &'a [f32]) -> Tensor<'a> {
        Tensor { name: "inputs", shape, data: Data::F32(values) }
    }

    fn labels<'a>(shape: &'a [usize], dtype: Dtype, bytes: &'a [u8]) -> Tensor<'a> {
        Tensor { name: "labels", shape, data: Data::Bytes(dtype, bytes) }
    }

    #[test]
    fn classes_of_any_integer_type_and_values_are_read() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let expected = TestExamples { inputs: values.to_vec(), targets: TestTargets::Classes(vec![1, 0]) };
        for (dtype, bytes) in [
            (Dtype::U8, vec![1, 0]),
            (Dtype::I32, vec![1, 0, 0, 0, 0, 0, 0, 0]),
            (Dtype::I64, [[1; 1], [0; 1]].concat()),
        ] {
            let bytes = if dtype == Dtype::I64 { [1i64.to_le_bytes(), 0i64.to_le_bytes()].concat() } else { bytes };
            let file = [labels(&[2], dtype, &bytes), inputs(&[2, 3], &values)];
            assert_eq!(read(&two_classes(), Loss::CrossEntropy, &file), Ok((2, expected.clone())));
        }
        let targets = Tensor { name: "labels", shape: &[1, 2], data: Data::F32(&[0.5, -1.0]) };
        let (examples, read) = read(&two_classes(), Loss::Mse, &[inputs(&[1, 3], &values[..3]), targets]).unwrap();
        assert_eq!((examples, read.targets), (1, TestTargets::Values(vec![0.5, -1.0])));
    }

    #[test]
    fn a_file_that_does_not_fit_the_network_is_refused_with_its_example() {
        let spec = two_classes();
        let class = |tensors: &[Tensor<'_>]| read(&spec, Loss::CrossEntropy, tensors).unwrap_err().to_string();
        let rows = inputs(&[2, 3], &[0.0; 6]);
        assert!(class(&[rows]).contains("inputs and labels"));
        assert!(class(&[rows, labels(&[2], Dtype::U8, &[0, 2])]).contains("example 1: 2 is none of the network's 2"));
        let negative = (-1i64).to_le_bytes();
        assert!(class(&[inputs(&[1, 3], &[0.0; 3]), labels(&[1], Dtype::I64, &negative)]).contains("example 0: -1"));
        assert!(class(&[rows, labels(&[3], Dtype::U8, &[0; 3])]).contains("1 labels per example"));
        assert!(
            class(&[inputs(&[2, 2], &[0.0; 4]), labels(&[2], Dtype::U8, &[0; 2])]).contains("3 values per example")
        );
        assert!(class(&[inputs(&[0, 3], &[]), labels(&[0], Dtype::U8, &[])]).contains("no examples"));
        let nan = inputs(&[2, 3], &[0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0]);
        assert!(class(&[nan, labels(&[2], Dtype::U8, &[0; 2])]).contains("example 1: a value of inputs is not finite"));
        let float = Tensor { name: "labels", shape: &[2], data: Data::F32(&[0.0; 2]) };
        assert!(class(&[rows, float]).contains("labels is F32; it must be U8, I32 or I64"));
        let mut whole = TestSetReader::checking(&JobModel::from(spec.clone()), Loss::CrossEntropy).unwrap();
        whole.push(&write(&[rows, labels(&[2], Dtype::U8, &[0; 2])], &BTreeMap::new())[..100]).unwrap();
        assert!(matches!(whole.finish(), Err(TestSetError::File(_))), "a file that breaks off");
    }

    #[test]
    fn sequences_have_a_label_for_each_position_and_tokens_within_the_vocabulary() {
        let tagger = spec(
            r#"{"input": [2], "layers": [{"kind": "embedding", "tokens": 5, "size": 3},
                {"kind": "linear", "out_features": 2}]}"#,
        );
        let tags = labels(&[1, 2], Dtype::U8, &[1, 0]);
        assert_eq!(read(&tagger, Loss::CrossEntropy, &[inputs(&[1, 2], &[4.0, 0.0]), tags]).unwrap().0, 1);
        let error = read(&tagger, Loss::CrossEntropy, &[inputs(&[1, 2], &[4.0, 5.0]), tags]).unwrap_err();
        assert!(error.to_string().contains("5 is not a token id: those are 0 to 4"), "{error}");
        let own = spec(r#"{"parameters": [{"name": "w", "shape": [1]}]}"#);
        assert_eq!(
            TestSetReader::checking(&JobModel::from(own), Loss::CrossEntropy).unwrap_err(),
            TestSetError::Foreign
        );
    }
}
