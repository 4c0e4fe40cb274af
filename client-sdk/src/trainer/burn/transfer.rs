//! Loads a model's values into a network and saves them, parameter by parameter in burn's visiting order.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use tributary_protocol::model::{Model, ParameterSpec};

use super::super::contract::TrainError;

/// Names and shapes of a network's float parameters in burn's visiting order, for `[model] parameters` of a job file.
pub fn parameters_of(network: &impl Module) -> Vec<ParameterSpec> {
    let mut listing = Listing::default();
    network.visit(&mut listing);
    listing.parameters
}

/// Loads the model's values into a newly built network. A clone would not do: burn's clones share running statistics.
///
/// # Errors
/// [`TrainError::DoesNotFit`] if the parameters of model and network differ in number, name or shape.
pub(super) fn import<N: Module>(network: N, model: &Model) -> Result<N, TrainError> {
    let mut import = Import { model, next: 0, path: Path::default(), problem: None };
    let network = network.map(&mut import);
    let parameters = model.parameters().specs();
    match import.problem {
        Some(problem) => Err(TrainError::DoesNotFit(problem)),
        None if import.next < parameters.len() => {
            let name = &parameters[import.next].name;
            Err(TrainError::DoesNotFit(format!("the network has no parameter {name:?}, which the model has")))
        }
        None => Ok(network),
    }
}

/// All values in the model's order; `count` is their number, to allocate once.
pub(super) fn export<N: Module>(network: &N, count: usize) -> Result<Vec<f32>, TrainError> {
    let mut export = Export { values: Vec::with_capacity(count), problem: None };
    // Running statistics lag by one step until `valid` is called.
    network.valid().visit(&mut export);
    match export.problem {
        Some(problem) => Err(TrainError::Other(problem)),
        None => Ok(export.values),
    }
}

/// All values, one flat tensor per parameter in burn's visiting order, as burn holds them: in its own layout and on its
/// device.
pub(super) fn as_held(network: &impl Module) -> Vec<Tensor<1>> {
    let mut held = Held(Vec::new());
    network.visit(&mut held);
    held.0
}

struct Held(Vec<Tensor<1>>);

impl ModuleVisitor for Held {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let count = value.dims().iter().product::<usize>();
        self.0.push(value.reshape([count]));
    }
}

struct Import<'a> {
    model: &'a Model,
    /// Index of the model's parameter that is expected next.
    next: usize,
    path: Path,
    /// The first mismatch; nothing is loaded after it.
    problem: Option<String>,
}

impl Import<'_> {
    /// The values of the parameter that burn is visiting, which must be the model's next one.
    fn values<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Result<TensorData, String> {
        let name = self.path.name();
        let Some(spec) = self.model.parameters().specs().get(self.next) else {
            return Err(format!("the model has no parameter {name:?}, which the network has"));
        };
        if spec.name != name {
            return Err(format!("parameter {} is {:?} in the model and {name:?} in the network", self.next, spec.name));
        }
        let shape = outer_shape(param);
        if spec.shape != shape {
            return Err(format!(
                "parameter {name:?} has the shape {:?} in the model and {shape:?} in the network",
                spec.shape
            ));
        }
        let values = self.model.tensor(self.next).to_vec();
        self.next += 1;
        Ok(TensorData::new(values, shape))
    }
}

/// The shape in which a parameter is loaded and saved. Burn may hold it in another one.
fn outer_shape<const D: usize>(param: &Param<Tensor<D>>) -> Vec<usize> {
    // A parameter that is not initialised knows its shape. Initialising it would compute values that nobody needs.
    match param.is_initialized() {
        true => param.transform_for_save().val().dims().to_vec(),
        false => param.lazy_shape().as_slice().to_vec(),
    }
}

impl ModuleMapper for Import<'_> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.problem.is_some() {
            return param;
        }
        match self.values(&param) {
            Ok(values) => {
                let (id, device) = (param.id, param.lazy_device());
                param.transform_for_load(Tensor::from_data(values, &device), id)
            }
            Err(problem) => {
                self.problem = Some(problem);
                param
            }
        }
    }
}

struct Export {
    values: Vec<f32>,
    problem: Option<String>,
}

impl ModuleVisitor for Export {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        match param.transform_for_save().val().try_into_vec_as::<f32>() {
            Ok(values) => self.values.extend(values),
            Err(error) => self.problem = Some(format!("a parameter cannot be read from the device: {error:?}")),
        }
    }
}

/// The names of the modules that burn is in, from the outermost one.
#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn enter(&mut self, name: &str, container_type: &str) {
        if !is_enum(container_type) {
            self.0.push(name.to_owned());
        }
    }

    fn exit(&mut self, container_type: &str) {
        if !is_enum(container_type) {
            self.0.pop();
        }
    }

    /// As in PyTorch: `layers.0.weight`.
    fn name(&self) -> String {
        self.0.join(".")
    }
}

/// The variant of an enum is no part of a parameter's name.
fn is_enum(container_type: &str) -> bool {
    container_type.starts_with("Enum:")
}

#[derive(Default)]
struct Listing {
    parameters: Vec<ParameterSpec>,
    path: Path,
}

impl ModuleVisitor for Listing {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.parameters.push(ParameterSpec::new(self.path.name(), outer_shape(param)));
    }
}
