//! Whole models as safetensors files: f32 tensors under the parameters' names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Data, Decoder, Dtype, HEADER_BYTES_MAX, Header, LayoutError, SafetensorsError, Sink, Tensor, TensorSpec,
    match_tensors, shortened, write,
    writer::{Entry, beginning},
};
use crate::model::{Model, ModelError, ParameterList, ParameterListError, ParameterSpec};

/// Most values that are handed out at once: 32 KiB, so that what is made of them is still in the processor's cache.
const VALUES_AT_ONCE: usize = 1 << 13;

/// Why a file is not the model that was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelFileError {
    /// Not a safetensors file.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// Not the tensors of this model.
    #[error(transparent)]
    Tensors(#[from] LayoutError),
    /// Names or shapes that no model can have.
    #[error(transparent)]
    Parameters(#[from] ParameterListError),
    /// Values that no model can have.
    #[error(transparent)]
    Values(#[from] ModelError),
}

/// What a coordinator's model files say of themselves: what PyTorch's own exporters write, and loaders of other tools look
/// for. No ids, so that equal models have equal files.
#[must_use]
pub fn model_metadata() -> BTreeMap<String, String> {
    BTreeMap::from([("format".to_owned(), "pt".to_owned())])
}

/// The model's file: its parameters in order, the same bytes each time.
#[must_use]
pub fn model_to_bytes(model: &Model, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    f32_file(model.parameters(), model.values(), metadata)
}

/// What [`model_to_bytes`] writes before the values: those follow, in order, as little-endian f32.
#[must_use]
pub fn model_file_beginning(parameters: &ParameterList, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut entries = Vec::with_capacity(parameters.specs().len());
    for (index, spec) in parameters.specs().iter().enumerate() {
        let bytes = parameters.range(index).len() * Dtype::F32.bytes();
        entries.push(Entry { name: &spec.name, dtype: Dtype::F32, shape: &spec.shape, bytes });
    }
    beginning(&entries, metadata)
}

/// Reads one model that arrives in pieces, with memory for its header only.
#[derive(Debug)]
pub struct ModelDecoder {
    file: Decoder,
    reading: Reading,
}

#[derive(Debug)]
struct Reading {
    parameters: Arc<ParameterList>,
    /// For each tensor of the file the parameter that it is.
    places: Vec<usize>,
}

impl ModelDecoder {
    /// A decoder of a model of these parameters.
    #[must_use]
    pub fn new(parameters: Arc<ParameterList>) -> Self {
        Self { file: Decoder::new(HEADER_BYTES_MAX), reading: Reading { parameters, places: Vec::new() } }
    }

    /// Takes the next bytes of the file and hands out, as (offset in the flat vector, values), what they complete. The
    /// values of a parameter come in order; the parameters come in the file's.
    ///
    /// # Errors
    /// [`ModelFileError`]; afterwards every further call fails.
    pub fn push(&mut self, piece: &[u8], accept: &mut impl FnMut(usize, &[f32])) -> Result<(), ModelFileError> {
        self.file.push(piece, &mut Ordered { reading: &mut self.reading, accept })
    }

    /// Says that the file ends here. Every value was then handed out exactly once. Returns for each tensor of the file,
    /// in the order of its data, the parameter that it is.
    ///
    /// # Errors
    /// [`ModelFileError`] if bytes are missing or the file was refused before.
    pub fn finish(self) -> Result<Vec<usize>, ModelFileError> {
        self.file.finish()?;
        Ok(self.reading.places)
    }
}

struct Ordered<'a, F> {
    reading: &'a mut Reading,
    accept: &'a mut F,
}

impl<F: FnMut(usize, &[f32])> Sink for Ordered<'_, F> {
    type Error = ModelFileError;

    fn header(&mut self, header: &Header) -> Result<(), ModelFileError> {
        self.reading.places = match_tensors(header, &f32_specs(&self.reading.parameters))?;
        Ok(())
    }

    fn block(&mut self, tensor: usize, element: usize, bytes: &[u8]) -> Result<(), ModelFileError> {
        let place = self.reading.places[tensor];
        let mut first = self.reading.parameters.range(place).start + element;
        for elements in bytes.as_chunks().0.chunks(VALUES_AT_ONCE) {
            let values: Vec<f32> = elements.iter().map(|element| f32::from_le_bytes(*element)).collect();
            if values.iter().any(|value| !value.is_finite()) {
                let parameter = self.reading.parameters.specs()[place].name.clone();
                return Err(ModelError::NotFinite { parameter }.into());
            }
            (self.accept)(first, &values);
            first += values.len();
        }
        Ok(())
    }
}

/// A model whose parameters are the file's tensors, in the order of its data.
///
/// # Errors
/// [`ModelFileError`] for a damaged file, elements other than F32 and values that are not finite.
pub fn model_from_bytes(file: &[u8]) -> Result<Model, ModelFileError> {
    let (header, values) = read_f32(file)?;
    let specs = header.tensors().iter().map(|info| ParameterSpec::new(info.name.as_str(), info.shape.as_slice()));
    let parameters = ParameterList::new(specs.collect())?;
    Ok(Model::new(Arc::new(parameters), values)?)
}

/// One F32 tensor for each parameter.
fn f32_specs(parameters: &ParameterList) -> Vec<TensorSpec> {
    let spec =
        |spec: &ParameterSpec| TensorSpec { name: spec.name.clone(), dtype: Dtype::F32, shape: spec.shape.clone() };
    parameters.specs().iter().map(spec).collect()
}

/// A file of these parameters with these values, which are as many as the parameters need.
pub(crate) fn f32_file<'a>(
    parameters: &'a ParameterList,
    values: &'a [f32],
    metadata: &BTreeMap<String, String>,
) -> Vec<u8> {
    let tensor = |(index, spec): (usize, &'a ParameterSpec)| Tensor {
        name: &spec.name,
        shape: &spec.shape,
        data: Data::F32(&values[parameters.range(index)]),
    };
    let tensors: Vec<Tensor<'a>> = parameters.specs().iter().enumerate().map(tensor).collect();
    write(&tensors, metadata)
}

/// All values of a file of F32 tensors, in the file's order.
fn read_f32(file: &[u8]) -> Result<(Header, Vec<f32>), ModelFileError> {
    // The file is at hand, so its own length bounds what its header can make us reserve.
    let mut values = Values(Vec::with_capacity(file.len() / Dtype::F32.bytes()));
    let mut decoder = Decoder::new(HEADER_BYTES_MAX);
    decoder.push(file, &mut values)?;
    Ok((decoder.finish()?, values.0))
}

struct Values(Vec<f32>);

impl Sink for Values {
    type Error = ModelFileError;

    fn header(&mut self, header: &Header) -> Result<(), ModelFileError> {
        match header.tensors().iter().find(|info| info.dtype != Dtype::F32) {
            None => Ok(()),
            Some(info) => {
                Err(LayoutError::WrongDtype { tensor: shortened(&info.name), expected: Dtype::F32, got: info.dtype }
                    .into())
            }
        }
    }

    fn block(&mut self, _tensor: usize, _element: usize, bytes: &[u8]) -> Result<(), ModelFileError> {
        self.0.extend(bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn model() -> Model {
        let specs = vec![
            ParameterSpec::new("z.weight", [2, 2]),
            ParameterSpec::new("a.bias", [2]),
            ParameterSpec::new("scale", []),
        ];
        let parameters = Arc::new(ParameterList::new(specs).expect("the list is right"));
        Model::new(parameters, vec![1.0, -2.0, 3.5, 1e-40, 0.0, -0.0, 7.25]).expect("the values are right")
    }

    #[test]
    fn a_model_comes_back_bit_for_bit_in_its_order() {
        let bytes = model_to_bytes(&model(), &BTreeMap::from([("job".into(), "digits".into())]));
        let read = model_from_bytes(&bytes).unwrap();
        assert_eq!(read, model());
        assert_eq!(model_to_bytes(&read, &BTreeMap::from([("job".into(), "digits".into())])), bytes);
    }

    #[test]
    fn a_model_in_pieces_is_the_same_model() {
        let (model, metadata) = (model(), BTreeMap::from([("job".into(), "digits".into())]));
        let bytes = model_to_bytes(&model, &metadata);
        let mut written = model_file_beginning(model.parameters(), &metadata);
        let mut read = Vec::new();
        let mut decoder = ModelDecoder::new(Arc::clone(model.parameters()));
        for piece in bytes.chunks(5) {
            let accept = &mut |first: usize, values: &[f32]| {
                assert_eq!(first, read.len());
                read.extend_from_slice(values);
            };
            decoder.push(piece, accept).unwrap();
        }
        decoder.finish().unwrap();
        assert_eq!(read, model.values());
        written.extend(read.iter().flat_map(|value| value.to_le_bytes()));
        assert_eq!(written, bytes);
    }

    #[test]
    fn a_model_in_pieces_that_is_none_is_refused() {
        let bytes = model_to_bytes(&model(), &BTreeMap::new());
        let refused = |bytes: &[u8], parameters: &Arc<ParameterList>| {
            let mut decoder = ModelDecoder::new(Arc::clone(parameters));
            decoder.push(bytes, &mut |_, _| ()).and_then(|()| decoder.finish()).expect_err("must be refused")
        };
        let missing = refused(&bytes[..bytes.len() - 3], model().parameters());
        assert_eq!(missing, ModelFileError::File(SafetensorsError::Truncated { missing_bytes: 3 }));
        let other = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [1])]).unwrap());
        assert!(matches!(refused(&bytes, &other), ModelFileError::Tensors(LayoutError::Extra(_))));
        let infinite = write(&[Tensor { name: "w", shape: &[1], data: Data::F32(&[f32::NAN]) }], &BTreeMap::new());
        assert!(matches!(refused(&infinite, &other), ModelFileError::Values(ModelError::NotFinite { .. })));
    }

    #[test]
    fn a_file_of_the_reference_library_in_another_order_is_read() {
        let model = model();
        let bytes: Vec<Vec<u8>> =
            (0..3).map(|index| model.tensor(index).iter().flat_map(|value| value.to_le_bytes()).collect()).collect();
        let views: HashMap<String, ::safetensors::tensor::TensorView<'_>> = model
            .parameters()
            .specs()
            .iter()
            .zip(&bytes)
            .map(|(spec, bytes)| {
                let view = ::safetensors::tensor::TensorView::new(::safetensors::Dtype::F32, spec.shape.clone(), bytes)
                    .unwrap();
                (spec.name.clone(), view)
            })
            .collect();
        let file = ::safetensors::serialize(views, Some(HashMap::from([("k".into(), "v".into())]))).unwrap();
        let (mut decoder, mut values) =
            (ModelDecoder::new(Arc::clone(model.parameters())), vec![f32::NAN; model.values().len()]);
        decoder.push(&file, &mut |first, part| values[first..first + part.len()].copy_from_slice(part)).unwrap();
        assert_eq!(values, model.values());
        assert_eq!(decoder.finish().unwrap(), [1, 2, 0], "a, scale, z");
        let sorted = model_from_bytes(&file).unwrap();
        assert_eq!(sorted.parameters().specs()[0].name, "a.bias");
        assert_eq!(sorted.tensor(2), model.tensor(0));
    }

    #[test]
    fn values_that_are_not_finite_and_other_dtypes_are_refused() {
        let one = |data| write(&[Tensor { name: "w", shape: &[1], data }], &BTreeMap::new());
        assert_eq!(
            model_from_bytes(&one(Data::F32(&[f32::INFINITY]))),
            Err(ModelFileError::Values(ModelError::NotFinite { parameter: "w".into() }))
        );
        assert!(matches!(
            model_from_bytes(&one(Data::Bytes(Dtype::I32, &[0; 4]))),
            Err(ModelFileError::Tensors(LayoutError::WrongDtype { got: Dtype::I32, .. }))
        ));
        let empty = write(&[], &BTreeMap::new());
        assert_eq!(model_from_bytes(&empty), Err(ModelFileError::Parameters(ParameterListError::Empty)));
    }
}
