//! Models as safetensors files: one f32 tensor for each parameter.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Data, Decoder, Dtype, HEADER_BYTES_MAX, Header, LayoutError, SafetensorsError, Sink, Tensor,
    layout::tensor_per_parameter,
    match_tensors, shortened, write,
    writer::{Entry, beginning},
};
use crate::model::{Model, ModelError, ParameterList, ParameterListError, ParameterSpec};

/// Most values that are passed on at once: 32 KiB, which stay in the processor's cache until the receiver has used
/// them.
const VALUES_AT_ONCE: usize = 1 << 13;

/// A file that is not the expected model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelFileError {
    /// The file is not a safetensors file.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// The tensors are not those of the model.
    #[error(transparent)]
    Tensors(#[from] LayoutError),
    /// The names or shapes are not those of a model.
    #[error(transparent)]
    Parameters(#[from] ParameterListError),
    /// The values are not those of a model.
    #[error(transparent)]
    Values(#[from] ModelError),
}

/// The metadata of a coordinator's model files: the entry that PyTorch's exporters write and loaders of other tools
/// expect. There are no ids, so equal models have equal files.
pub fn model_metadata() -> BTreeMap<String, String> {
    BTreeMap::from([("format".to_owned(), "pt".to_owned())])
}

/// Writes a model with its parameters in order. The same model gives the same bytes.
pub fn model_to_bytes(model: &Model, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    f32_file(model.parameters(), model.values(), metadata)
}

/// The bytes that [`model_to_bytes`] writes before the values. The values follow in order as little-endian f32.
pub fn model_file_beginning(parameters: &ParameterList, metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut entries = Vec::with_capacity(parameters.specs().len());
    for (index, spec) in parameters.specs().iter().enumerate() {
        let bytes = parameters.range(index).len() * Dtype::F32.bytes();
        entries.push(Entry { name: &spec.name, dtype: Dtype::F32, shape: &spec.shape, bytes });
    }
    beginning(&entries, metadata)
}

/// Decodes a model that arrives in pieces. Only the header is held in memory.
#[derive(Debug)]
pub struct ModelDecoder {
    file: Decoder,
    reading: Reading,
}

#[derive(Debug)]
struct Reading {
    parameters: Arc<ParameterList>,
    /// The parameter index of each tensor of the file.
    places: Vec<usize>,
    /// The `__metadata__` of the file, once its header was read.
    metadata: BTreeMap<String, String>,
}

impl ModelDecoder {
    /// Makes a decoder for a model of these parameters.
    pub fn new(parameters: Arc<ParameterList>) -> Self {
        let reading = Reading { parameters, places: Vec::new(), metadata: BTreeMap::new() };
        Self { file: Decoder::new(HEADER_BYTES_MAX), reading }
    }

    /// The `__metadata__` of the file; empty until the first value was decoded.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.reading.metadata
    }

    /// Takes the next bytes of the file and passes the values that they complete to `accept`, with the index of the
    /// first one in the flat vector. Parameters come in the order of the file, the values of each in order.
    ///
    /// # Errors
    /// [`ModelFileError`] if the file is not this model. Every later call fails too.
    pub fn push(&mut self, piece: &[u8], accept: &mut impl FnMut(usize, &[f32])) -> Result<(), ModelFileError> {
        self.file.push(piece, &mut Ordered { reading: &mut self.reading, accept })
    }

    /// Ends the file: `accept` has received every value exactly once. Returns the parameter index of each tensor, in
    /// the order of the file.
    ///
    /// # Errors
    /// [`ModelFileError`] if bytes are missing or an earlier call failed.
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
        self.reading.places = match_tensors(header, &tensor_per_parameter(&self.reading.parameters, Dtype::F32))?;
        self.reading.metadata.clone_from(header.metadata());
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

/// Reads a model whose parameters are the tensors of the file, in the order of their data.
///
/// # Errors
/// [`ModelFileError`] for a damaged file, for elements other than F32, and for values that are not finite.
pub fn model_from_bytes(file: &[u8]) -> Result<Model, ModelFileError> {
    model_with_metadata(file).map(|(model, _)| model)
}

/// The same with the file's metadata.
///
/// # Errors
/// As [`model_from_bytes`].
pub fn model_with_metadata(file: &[u8]) -> Result<(Model, BTreeMap<String, String>), ModelFileError> {
    let (header, values) = read_f32(file)?;
    let specs = header.tensors().iter().map(|info| ParameterSpec::new(info.name.as_str(), info.shape.as_slice()));
    let parameters = ParameterList::new(specs.collect())?;
    Ok((Model::new(Arc::new(parameters), values)?, header.metadata().clone()))
}

/// Writes a file of parameters and their values, one value for each.
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

/// Reads all values of a file of F32 tensors, in the order of the file.
fn read_f32(file: &[u8]) -> Result<(Header, Vec<f32>), ModelFileError> {
    // The length of the file bounds the reservation, whatever the header claims.
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
