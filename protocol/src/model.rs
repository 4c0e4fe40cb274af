//! Named parameters, and models as one flat vector of all values in the order of the parameters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Most values of a model, over all tensors: 2^31, which is 8 GiB of f32.
pub const PARAMETERS_MAX: usize = 1 << 31;
/// Most tensors of a model.
pub const TENSORS_MAX: usize = 16_384;
/// Longest tensor name in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Most dimensions of a tensor.
pub const RANK_MAX: usize = 8;

/// A parameter: one named tensor of a model. Name and layout follow PyTorch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// Name, such as `layers.0.weight`: 1 to 256 printable bytes, unique in the model.
    pub name: String,
    /// Length of each dimension, at most 8 dimensions of at least 1. Empty for a scalar.
    pub shape: Vec<usize>,
}

impl ParameterSpec {
    /// Makes a parameter from a name and a shape, unchecked.
    pub fn new(name: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        Self { name: name.into(), shape: shape.into() }
    }
}

/// The parameters of a model in order. Each is a range of one flat vector of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterList {
    parameters: Vec<ParameterSpec>,
    /// Parameter `i` is the range `starts[i]..starts[i + 1]` of the flat vector.
    starts: Vec<usize>,
}

/// A list of parameters that is not a valid model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterListError {
    /// There is no parameter.
    #[error("a model needs at least one parameter")]
    Empty,
    /// The list exceeds [`TENSORS_MAX`].
    #[error("{0} tensors are more than the {TENSORS_MAX} allowed")]
    TooManyTensors(usize),
    /// A name is empty, too long, has control characters, or is reserved by the file format.
    #[error("{0:?} cannot be a parameter's name: 1 to {NAME_BYTES_MAX} printable bytes")]
    BadName(String),
    /// Two parameters have the same name.
    #[error("two parameters are called {0:?}")]
    DuplicateName(String),
    /// A parameter has a dimension of length 0, or more than [`RANK_MAX`] dimensions.
    #[error("parameter {name:?} has the shape {shape:?}: 0 to {RANK_MAX} dimensions of at least 1 are possible")]
    BadShape {
        /// Name of the parameter.
        name: String,
        /// The invalid shape.
        shape: Vec<usize>,
    },
    /// The model exceeds [`PARAMETERS_MAX`].
    #[error("the model has more than {PARAMETERS_MAX} parameters")]
    TooLarge,
}

impl ParameterList {
    /// Checks names, shapes and total size.
    ///
    /// # Errors
    /// [`ParameterListError`] for the first parameter that fails.
    pub fn new(parameters: Vec<ParameterSpec>) -> Result<Self, ParameterListError> {
        if parameters.is_empty() {
            return Err(ParameterListError::Empty);
        }
        if parameters.len() > TENSORS_MAX {
            return Err(ParameterListError::TooManyTensors(parameters.len()));
        }
        let mut names = HashSet::new();
        let mut starts = vec![0];
        let mut total = 0usize;
        for ParameterSpec { name, shape } in &parameters {
            let printable = name.chars().all(|letter| !letter.is_control());
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !printable || name == "__metadata__" {
                return Err(ParameterListError::BadName(name.chars().take(NAME_BYTES_MAX).collect()));
            }
            if !names.insert(name.as_str()) {
                return Err(ParameterListError::DuplicateName(name.clone()));
            }
            if shape.len() > RANK_MAX || shape.contains(&0) {
                return Err(ParameterListError::BadShape { name: name.clone(), shape: shape.clone() });
            }
            total = shape
                .iter()
                .try_fold(1usize, |count, length| count.checked_mul(*length))
                .and_then(|count| count.checked_add(total))
                .filter(|total| *total <= PARAMETERS_MAX)
                .ok_or(ParameterListError::TooLarge)?;
            starts.push(total);
        }
        Ok(Self { parameters, starts })
    }

    /// The parameters in order.
    pub fn specs(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// Number of values of all parameters together.
    pub fn total(&self) -> usize {
        self.starts[self.parameters.len()]
    }

    /// The range of parameter `index` in the flat vector.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn range(&self, index: usize) -> std::ops::Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }

    /// The parameter that contains an index of the flat vector.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn parameter_at(&self, place: usize) -> usize {
        assert!(place < self.total(), "place {place} of {}", self.total());
        self.starts.partition_point(|start| *start <= place) - 1
    }

    /// The index of the parameter with this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name == name)
    }
}

/// A model: the finite f32 values of all parameters in one flat vector. Clones share the values.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    parameters: Arc<ParameterList>,
    values: Arc<Vec<f32>>,
}

/// Values that are not a model of the given parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The number of values is not that of the parameters.
    #[error("{got} values for a model of {expected} parameters")]
    WrongLength {
        /// Number of values of the parameters.
        expected: usize,
        /// Number of values given.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("{parameter:?} holds a value that is not finite")]
    NotFinite {
        /// Name of the parameter with that value.
        parameter: String,
    },
}

impl Model {
    /// Makes a model after checking the values.
    ///
    /// # Errors
    /// [`ModelError`] for a wrong number of values or one that is not finite.
    pub fn new(parameters: Arc<ParameterList>, values: Vec<f32>) -> Result<Self, ModelError> {
        if values.len() != parameters.total() {
            return Err(ModelError::WrongLength { expected: parameters.total(), got: values.len() });
        }
        for (index, parameter) in parameters.specs().iter().enumerate() {
            if values[parameters.range(index)].iter().any(|value| !value.is_finite()) {
                return Err(ModelError::NotFinite { parameter: parameter.name.clone() });
            }
        }
        Ok(Self { parameters, values: Arc::new(values) })
    }

    /// The names and shapes of the parameters.
    pub fn parameters(&self) -> &Arc<ParameterList> {
        &self.parameters
    }

    /// The flat vector of all values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The values of parameter `index` in row-major order.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn tensor(&self, index: usize) -> &[f32] {
        &self.values[self.parameters.range(index)]
    }

    /// The same model with its parameters in this order. `None` if these are not its parameters.
    #[must_use]
    pub fn in_order_of(&self, parameters: &Arc<ParameterList>) -> Option<Self> {
        let places: HashMap<&ParameterSpec, usize> = self.parameters.specs().iter().zip(0..).collect();
        let mut values = Vec::with_capacity(self.values.len());
        for spec in parameters.specs() {
            values.extend_from_slice(self.tensor(*places.get(spec)?));
        }
        let is_whole = values.len() == self.values.len();
        is_whole.then(|| Self { parameters: Arc::clone(parameters), values: Arc::new(values) })
    }

    /// Takes the flat vector out of the model. If a clone has it too, this is a copy.
    pub fn into_values(self) -> Vec<f32> {
        Arc::unwrap_or_clone(self.values)
    }
}

/// A vector that belongs to a model version, with one value per parameter if nothing else is said. The next round
/// starts from it as from the model, and it is stored in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Companion {
    /// The server optimiser's decaying mean of steps.
    Momentum,
    /// The server optimiser's mean or sum of squared steps.
    SecondMoment,
    /// The centre of centered clipping: the last combined step.
    Centre,
    /// SCAFFOLD's control variate: the mean of the clients' control vectors. Clients download it.
    Control,
    /// FedDyn's h: the mean of the clients' linear terms.
    Linear,
    /// L-BFGS's gradient, direction and pairs: several values per parameter.
    History,
    /// The buffers of correlated noise of a private job, two fixed-point numbers per parameter. They are in no API: who
    /// had them could take noise away again.
    Noise,
}

impl Companion {
    /// All companions that a version may have.
    pub const ALL: [Self; 7] =
        [Self::Momentum, Self::SecondMoment, Self::Centre, Self::Control, Self::Linear, Self::History, Self::Noise];

    /// The word that stands for it in names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Momentum => "momentum",
            Self::SecondMoment => "second_moment",
            Self::Centre => "centre",
            Self::Control => "control",
            Self::Linear => "linear",
            Self::History => "history",
            Self::Noise => "noise",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_takes_the_order_of_its_own_parameters_and_of_no_others() {
        let list = |specs: &[(&str, usize)]| {
            let specs = specs.iter().map(|(name, values)| ParameterSpec::new(*name, [*values])).collect();
            Arc::new(ParameterList::new(specs).unwrap())
        };
        let model = Model::new(list(&[("a", 1), ("b", 2)]), vec![1.0, 2.0, 3.0]).unwrap();
        let ordered = model.in_order_of(&list(&[("b", 2), ("a", 1)])).unwrap();
        assert_eq!(ordered.values(), [2.0, 3.0, 1.0]);
        for others in [&[("b", 2)][..], &[("b", 2), ("a", 2)], &[("b", 2), ("a", 1), ("c", 1)]] {
            assert_eq!(model.in_order_of(&list(others)), None);
        }
    }

    #[test]
    fn clones_share_their_values_and_taking_them_leaves_those_of_the_others() {
        let parameters = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [2])]).unwrap());
        let model = Model::new(parameters, vec![1.0, 2.0]).unwrap();
        let clone = model.clone();
        let address = model.values().as_ptr();
        assert_eq!(clone.values().as_ptr(), address);
        let mut taken = model.into_values();
        taken[0] = 9.0;
        assert_eq!((clone.values(), clone.values().as_ptr()), (&[1.0, 2.0][..], address));
        let values = clone.into_values();
        assert_eq!(values.as_ptr(), address, "the last one gives its own");
    }

    #[test]
    fn ranges_follow_the_order() -> Result<(), ParameterListError> {
        let list = ParameterList::new(vec![ParameterSpec::new("w", [2, 3]), ParameterSpec::new("b", [3])])?;
        assert_eq!(list.total(), 9);
        assert_eq!(list.range(1), 6..9);
        assert_eq!(list.index_of("b"), Some(1));
        Ok(())
    }

    #[test]
    fn lists_that_are_no_model_are_refused() {
        let refused = |parameters: Vec<ParameterSpec>| ParameterList::new(parameters).expect_err("must be refused");
        assert_eq!(refused(vec![]), ParameterListError::Empty);
        let twice = vec![ParameterSpec::new("w", [1]), ParameterSpec::new("w", [2])];
        assert_eq!(refused(twice), ParameterListError::DuplicateName("w".into()));
        assert!(matches!(refused(vec![ParameterSpec::new("w", [0])]), ParameterListError::BadShape { .. }));
        assert!(matches!(refused(vec![ParameterSpec::new("__metadata__", [1])]), ParameterListError::BadName(_)));
        assert_eq!(refused(vec![ParameterSpec::new("w", [usize::MAX, 2])]), ParameterListError::TooLarge);
        assert_eq!(refused(vec![ParameterSpec::new("w", [1 << 20, 1 << 12])]), ParameterListError::TooLarge);
    }

    #[test]
    fn a_value_that_is_not_finite_is_named() -> Result<(), ParameterListError> {
        let list = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [2]), ParameterSpec::new("b", [1])])?);
        assert_eq!(
            Model::new(Arc::clone(&list), vec![0.0, 1.0, f32::NAN]),
            Err(ModelError::NotFinite { parameter: "b".into() })
        );
        assert_eq!(Model::new(list, vec![0.0]), Err(ModelError::WrongLength { expected: 3, got: 1 }));
        Ok(())
    }
}
