//! Models as named tensors, for trainers in other languages.

use tributary_protocol::model::Model;

use super::contract::TrainError;

/// A parameter with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Name of the parameter.
    pub name: String,
    /// Its dimensions; empty for a single number.
    pub shape: Vec<usize>,
    /// Values row by row, as many as the product of the shape.
    pub values: Vec<f32>,
}

/// The parameters of a model, in its order.
pub fn tensors_of(model: &Model) -> Vec<NamedTensor> {
    let specs = model.parameters().specs().iter().enumerate();
    let tensor = |(index, spec): (usize, &tributary_protocol::model::ParameterSpec)| NamedTensor {
        name: spec.name.clone(),
        shape: spec.shape.clone(),
        values: model.tensor(index).to_vec(),
    };
    specs.map(tensor).collect()
}

/// The values of tensors with the names and shapes of a model's parameters, in its order. The tensors may be in any.
///
/// # Errors
/// [`TrainError::DoesNotFit`] that names the tensor that is missing, unknown, twice there or of another shape, and
/// [`TrainError::Diverged`] for a value that is not finite.
pub fn values_of(tensors: &[NamedTensor], model: &Model) -> Result<Vec<f32>, TrainError> {
    let parameters = model.parameters();
    let mut values = vec![f32::NAN; parameters.total()];
    let mut is_given = vec![false; parameters.specs().len()];
    for NamedTensor { name, shape, values: given } in tensors {
        let refuse = |what: String| Err(TrainError::DoesNotFit(format!("the trainer returned {what}")));
        let Some(index) = parameters.index_of(name) else {
            return refuse(format!("a parameter {name:?}, which the model does not have"));
        };
        let (spec, range) = (&parameters.specs()[index], parameters.range(index));
        if std::mem::replace(&mut is_given[index], true) {
            return refuse(format!("the parameter {name:?} twice"));
        }
        if *shape != spec.shape || given.len() != range.len() {
            let (count, expected) = (given.len(), &spec.shape);
            return refuse(format!("{name:?} of shape {shape:?} with {count} values; the model has {expected:?}"));
        }
        if given.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Diverged);
        }
        values[range].copy_from_slice(given);
    }
    match is_given.iter().position(|is_given| !is_given) {
        Some(index) => {
            let name = &parameters.specs()[index].name;
            Err(TrainError::DoesNotFit(format!("the trainer returned no parameter {name:?}")))
        }
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_protocol::model::{ParameterList, ParameterSpec};

    use super::*;

    fn model() -> Model {
        let specs = vec![ParameterSpec::new("w", [2, 2]), ParameterSpec::new("b", [2])];
        Model::new(Arc::new(ParameterList::new(specs).unwrap()), vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap()
    }

    #[test]
    fn tensors_come_back_in_any_order() {
        let mut tensors = tensors_of(&model());
        assert_eq!((tensors[1].name.as_str(), &tensors[1].values[..]), ("b", &[5.0, 6.0][..]));
        tensors.reverse();
        assert_eq!(values_of(&tensors, &model()).unwrap(), model().values());
    }

    #[test]
    fn tensors_that_do_not_fit_are_named() {
        let good = tensors_of(&model());
        let refused = |change: &dyn Fn(&mut Vec<NamedTensor>)| {
            let mut tensors = good.clone();
            change(&mut tensors);
            values_of(&tensors, &model()).unwrap_err()
        };
        type Change<'a> = &'a dyn Fn(&mut Vec<NamedTensor>);
        let cases: [(Change<'_>, &str); 5] = [
            (&|tensors| drop(tensors.pop()), "no parameter \"b\""),
            (&|tensors| tensors[0].name = "v".into(), "\"v\", which the model does not have"),
            (&|tensors| tensors[1] = tensors[0].clone(), "\"w\" twice"),
            (&|tensors| tensors[0].shape = vec![4], "\"w\" of shape [4] with 4 values; the model has [2, 2]"),
            (&|tensors| tensors[1].values.truncate(1), "\"b\" of shape [2] with 1 values"),
        ];
        for (change, text) in cases {
            let error = refused(change);
            assert!(matches!(error, TrainError::DoesNotFit(_)) && error.to_string().contains(text), "{error}");
        }
        assert_eq!(refused(&|tensors| tensors[0].values[3] = f32::NAN), TrainError::Diverged);
    }
}
