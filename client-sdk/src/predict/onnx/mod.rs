//! The same network as an ONNX file (<https://onnx.ai>), for runtimes of other makers.
//!
//! The file has opset 17, one input `input`, one output `output`, and the symbolic dimension `batch` before those of an
//! example. Initializers have the names of the model's parameters, in PyTorch's layout; what a runtime needs in another
//! layout is a node of constants, which runtimes compute once. Dropout is left out. A network that begins with an
//! embedding reads token ids as 64-bit integers; all others read 32-bit floats.
//!
//! | module | what it is |
//! |---|---|
//! | `wire` | Protocol Buffers' wire format |
//! | `graph` | nodes, constants, inputs and outputs |
//! | `layers` | the nodes of each kind of layer |

mod graph;
mod layers;
#[cfg(test)]
mod tests;
mod wire;

use tributary_protocol::layers::{Layer, LayeredModel};
use tributary_protocol::model::Model;

use self::graph::{FLOAT, Graph, INT64};
use self::wire::Message;
use super::error::PredictError;
use super::predictor::checked_shapes;

/// Version of ONNX's file format: that of its release 1.12.
const IR_VERSION: i64 = 8;
/// Version of the operators: the first with layer norm.
const OPSET: i64 = 17;
/// Longest message of Protocol Buffers: 2 GiB.
const BYTES_MAX: usize = i32::MAX as usize;
/// Room for nodes beside the parameters, of each layer.
const LAYER_BYTES: usize = 2048;

/// What an ONNX file holds beside the layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OnnxSettings {
    /// Name of the graph. Default: `tributary`.
    pub name: Option<String>,
    /// The nodes before the first layer. Default: none, so that the file reads prepared inputs.
    pub prologue: Option<Prologue>,
    /// Names of the classes in the order of the outputs, stored as a JSON array under `classes` in the metadata.
    /// Default: none.
    pub classes: Vec<String>,
    /// Further pairs of the metadata.
    pub metadata: Vec<(String, String)>,
}

/// Preparation of raw inputs: `(x - mean) / deviation` for each value of an example.
#[derive(Clone, Debug, PartialEq)]
pub struct Prologue {
    /// As many as an example has values, in their order.
    pub mean: Vec<f32>,
    /// As `mean`.
    pub deviation: Vec<f32>,
}

/// A network that cannot be written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OnnxError {
    /// The network is invalid, or the model has other parameters.
    #[error(transparent)]
    Network(#[from] PredictError),
    /// The numbers of the prologue are not those of an example, or the network reads token ids.
    #[error("the preparation of inputs has {mean} means and {deviation} deviations, and the network reads {expected}")]
    Prologue {
        /// Number of means.
        mean: usize,
        /// Number of deviations.
        deviation: usize,
        /// Number of values of an example that can be prepared; 0 for token ids.
        expected: usize,
    },
    /// An ONNX file holds at most 2 GiB.
    #[error("an ONNX file holds at most 2 GiB, and the model has {0} parameters of 4 bytes")]
    TooLarge(usize),
}

/// The bytes of an ONNX file.
///
/// # Errors
/// [`OnnxError`] if network, model and settings do not fit, or if the file would be too large.
pub fn write(network: &LayeredModel, model: &Model, settings: &OnnxSettings) -> Result<Vec<u8>, OnnxError> {
    let shapes = checked_shapes(network, model)?;
    let parameters = model.values().len();
    let bytes = parameters.saturating_mul(4).saturating_add(network.layers.len() * LAYER_BYTES);
    if bytes > BYTES_MAX {
        return Err(OnnxError::TooLarge(parameters));
    }
    let reads_tokens = matches!(network.layers.first(), Some(Layer::Embedding { .. }));
    let mut graph = Graph::default();
    graph.message.reserve(bytes);
    graph.value(11, "input", if reads_tokens { INT64 } else { FLOAT }, &network.input);
    let input = prepared(&mut graph, network, settings.prologue.as_ref(), reads_tokens)?;
    let last = layers::write(&mut graph, network, &shapes, model, input);
    graph.layer = "output".to_owned();
    graph.named("Identity", &[&last], &["output"], &[]);
    graph.value(12, "output", FLOAT, shapes.last().map_or(&[], Vec::as_slice));
    graph.message.text(2, settings.name.as_deref().unwrap_or("tributary"));
    Ok(file(graph, settings))
}

/// Writes the prologue. Returns the name of the value that the first layer reads.
fn prepared(
    graph: &mut Graph,
    network: &LayeredModel,
    prologue: Option<&Prologue>,
    reads_tokens: bool,
) -> Result<String, OnnxError> {
    let Some(Prologue { mean, deviation }) = prologue else { return Ok("input".to_owned()) };
    let expected = if reads_tokens { 0 } else { network.input.iter().product() };
    if [mean.len(), deviation.len()] != [expected; 2] || expected == 0 {
        return Err(OnnxError::Prologue { mean: mean.len(), deviation: deviation.len(), expected });
    }
    graph.layer = "inputs".to_owned();
    let mean = graph.floats("inputs.mean", &network.input, mean.iter().copied());
    let deviation = graph.floats("inputs.deviation", &network.input, deviation.iter().copied());
    let centred = graph.node("Sub", &["input", &mean], &[]);
    Ok(graph.node("Div", &[&centred, &deviation], &[]))
}

/// `ModelProto`.
fn file(graph: Graph, settings: &OnnxSettings) -> Vec<u8> {
    let mut model = Message::default();
    model.integer(1, IR_VERSION);
    model.text(2, "tributary");
    model.text(3, env!("CARGO_PKG_VERSION"));
    model.message(8, |opset| {
        opset.text(1, "");
        opset.integer(2, OPSET);
    });
    let classes = (!settings.classes.is_empty()).then(|| {
        let names = serde_json::Value::from(settings.classes.clone()).to_string();
        ("classes".to_owned(), names)
    });
    for (key, value) in settings.metadata.iter().chain(&classes) {
        model.message(14, |pair| {
            pair.text(1, key);
            pair.text(2, value);
        });
    }
    let graph = graph.message.into_bytes();
    model.reserve(graph.len() + 16);
    model.bytes(7, graph.into_iter());
    model.into_bytes()
}
