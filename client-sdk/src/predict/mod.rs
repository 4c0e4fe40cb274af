//! A network that only predicts: a model's layers, with one example at a time.
//!
//! ```
//! use tributary_client::predict::Predictor;
//! use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
//! use tributary_protocol::seed::Seed;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layers = vec![Layer::Linear { out_features: 3, bias: true }];
//! let network = LayeredModel { input: vec![4], layers };
//! let model = ModelSpec::Layers(network.clone()).initial_model(Seed(1))?;
//! let predictor = Predictor::new(&network, &model)?;
//! let mut outputs = [0.0; 3];
//! predictor.predict(&[0.1, 0.2, 0.3, 0.4], &mut outputs)?;
//! # Ok(())
//! # }
//! ```
//!
//! It holds the parameters once, in the layout that its kernels read: dropout is gone, low-rank layers are one matrix,
//! and the running statistics of batch norm are a scale and a shift. Nothing is allocated after the first call of each
//! thread that predicts at the same time as others.
//!
//! | module | what it is |
//! |---|---|
//! | `predictor`, `error` | [`Predictor`]: a network with the values of a model; why there is none |
//! | `build` | steps made of a list of layers |
//! | `step`, `linear`, `recurrent` | what a step computes |
//! | `scratch` | the buffers of a prediction, and the pool of those that wait for the next one |
//! | `usable` | [`UsableModel`]: an exported file, from raw values to classes and numbers |
//! | `row` | [`Value`]: a row of an app, by the names of its columns |
//! | [`onnx`] | the same network as an ONNX file |

mod build;
mod error;
mod linear;
pub mod onnx;
mod predictor;
mod recurrent;
mod row;
mod scratch;
mod step;
#[cfg(test)]
mod tests;
mod usable;

pub use self::error::PredictError;
pub use self::predictor::Predictor;
pub use self::row::Value;
pub use self::usable::{Prediction, UsableError, UsableModel};
