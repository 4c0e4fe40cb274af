//! Downloads of whole models in several forms, encoded and decoded in pieces of any size.
//!
//! | form | file |
//! |---|---|
//! | `f32` | one F32 tensor for each parameter, in their order: the plain file of a model |
//! | `f16` | the same in F16; magnitudes above 65,504 become 65,504 |
//! | `int8` | scales and numbers in the format of the codec `int8`, in blocks of 64, rounded to nearest |
//!
//! The files contain no ids, so equal models have equal files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::Codec;
use super::codecs::Blocks;
use super::codecs::blocks::all_specs;
use super::codecs::nearest::{BlockWriter, Scales};
use super::codecs::plain;
use super::decoder::{UpdateDecoder, UpdateLimits};
use super::error::UpdateError;
use super::sink::DeltaSink;
use super::size::data_bytes;
use crate::download::ModelForm;
use crate::model::{Model, ModelError, ParameterList};
use crate::safetensors::{Dtype, ModelDecoder, ModelFileError, beginning_of, model_metadata, tensor_per_parameter};

/// The largest finite number of half precision.
const F16_MAX: f32 = 65_504.0;

impl ModelForm {
    /// The codec whose format the form uses.
    pub fn codec(self) -> Codec {
        match self {
            Self::F32 => Codec::F32,
            Self::F16 => Codec::F16,
            Self::Int8 => Codec::Int8(Blocks::default()),
        }
    }

    fn metadata(self) -> BTreeMap<String, String> {
        match self {
            Self::F32 | Self::F16 => model_metadata(),
            // Other tools cannot load these tensors, so the file does not claim to be a PyTorch model.
            Self::Int8 => BTreeMap::from([("codec".to_owned(), self.codec().to_string())]),
        }
    }
}

/// A plain file that cannot be converted to another form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FormError {
    /// The file is not the plain file of this model.
    #[error(transparent)]
    File(#[from] ModelFileError),
    /// The values do not come in the order of the parameters. The number is an index of the flat vector.
    #[error("value {0} comes too early or too late in the model's file")]
    Order(usize),
}

/// Length of a model's file in a form, in bytes, before compression.
pub fn form_bytes(parameters: &ParameterList, form: ModelForm) -> u64 {
    form_beginning(parameters, form).len() as u64 + data_bytes(parameters, form.codec())
}

fn form_beginning(parameters: &ParameterList, form: ModelForm) -> Vec<u8> {
    let specs = match form {
        ModelForm::F32 => tensor_per_parameter(parameters, Dtype::F32),
        ModelForm::F16 => tensor_per_parameter(parameters, Dtype::F16),
        ModelForm::Int8 => all_specs(parameters, 8, Blocks::default()),
    };
    beginning_of(&specs, &form.metadata())
}

/// The first pass over a model's plain file. For `int8` it collects the scales, which precede the numbers in the file.
#[derive(Debug)]
pub struct FormSurvey {
    parameters: Arc<ParameterList>,
    form: ModelForm,
    /// Decoder and scales; `None` for a form without scales.
    reading: Option<(ModelDecoder, Scales)>,
}

impl FormSurvey {
    /// Begins the first pass over a model with these parameters.
    pub fn new(parameters: Arc<ParameterList>, form: ModelForm) -> Self {
        let reading = (form == ModelForm::Int8).then(|| {
            let scales = Scales::new(Arc::clone(&parameters), Blocks::default());
            (ModelDecoder::new(Arc::clone(&parameters)), scales)
        });
        Self { parameters, form, reading }
    }

    /// Whether this pass needs the file. If not, [`Self::push`] can be skipped.
    pub fn wants_file(&self) -> bool {
        self.reading.is_some()
    }

    /// Takes the next bytes of the plain file.
    ///
    /// # Errors
    /// [`FormError`] if they are not the plain file of this model.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), FormError> {
        let Some((decoder, scales)) = &mut self.reading else { return Ok(()) };
        let mut failed = None;
        decoder.push(piece, &mut |first, values| match first == scales.values() && failed.is_none() {
            true => scales.look(values),
            false => failed = failed.or(Some(first)),
        })?;
        failed.map_or(Ok(()), |first| Err(FormError::Order(first)))
    }

    /// Ends the first pass. Returns the writer for the second pass.
    ///
    /// # Errors
    /// [`FormError`] if the file is incomplete.
    pub fn finish(self) -> Result<FormWriter, FormError> {
        let Self { parameters, form, reading } = self;
        let values = match reading {
            None if form == ModelForm::F32 => Writer::F32 { values: 0 },
            None => Writer::F16 { values: 0 },
            Some((decoder, scales)) => {
                decoder.finish()?;
                Writer::Int8(BlockWriter::new(scales))
            }
        };
        let beginning = form_beginning(&parameters, form);
        Ok(FormWriter { decoder: ModelDecoder::new(parameters), values, beginning })
    }
}

/// The second pass: converts a model's plain file to another form, piece by piece.
#[derive(Debug)]
pub struct FormWriter {
    decoder: ModelDecoder,
    values: Writer,
    /// The beginning of the file, until it is returned.
    beginning: Vec<u8>,
}

#[derive(Debug)]
enum Writer {
    F32 { values: usize },
    F16 { values: usize },
    Int8(BlockWriter),
}

impl FormWriter {
    /// Takes the next bytes of the plain file and returns the next bytes of the converted file.
    ///
    /// # Errors
    /// [`FormError`] if they are not the plain file of this model.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, FormError> {
        let (mut made, mut failed) = (std::mem::take(&mut self.beginning), None);
        let writer = &mut self.values;
        self.decoder.push(piece, &mut |first, values| match first == writer.values() && failed.is_none() {
            true => writer.write(values, &mut made),
            false => failed = failed.or(Some(first)),
        })?;
        failed.map_or(Ok(made), |first| Err(FormError::Order(first)))
    }

    /// Ends the plain file. The converted file is complete.
    ///
    /// # Errors
    /// [`FormError`] if the plain file is incomplete.
    pub fn finish(self) -> Result<(), FormError> {
        self.decoder.finish()?;
        Ok(())
    }
}

impl Writer {
    /// Number of values written so far.
    fn values(&self) -> usize {
        match self {
            Self::F32 { values } | Self::F16 { values } => *values,
            Self::Int8(writer) => writer.values(),
        }
    }

    fn write(&mut self, next: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 { values } => {
                out.extend(next.iter().flat_map(|value| value.to_le_bytes()));
                *values += next.len();
            }
            Self::F16 { values } => {
                let cut: Vec<f32> = next.iter().map(|value| value.clamp(-F16_MAX, F16_MAX)).collect();
                let bytes = plain::encode_16(&cut, Dtype::F16).expect("no value is beyond the largest");
                out.extend_from_slice(&bytes);
                *values += next.len();
            }
            Self::Int8(writer) => writer.write(&mut next.to_vec(), out),
        }
    }
}

/// Decodes a model that arrives in pieces, in any form, as a plain file or as one zstd frame.
#[derive(Debug)]
pub struct FormDecoder(UpdateDecoder);

impl FormDecoder {
    /// Makes a decoder for a model with these parameters.
    pub fn new(parameters: Arc<ParameterList>, form: ModelForm) -> Self {
        let limits = UpdateLimits::of_magnitude(f32::MAX);
        Self(UpdateDecoder::reading(parameters, form.codec(), None, limits))
    }

    /// Takes the next bytes of the body and passes the values that they complete to the sink.
    ///
    /// # Errors
    /// [`UpdateError`] if the body is not such a model. Every later call fails too.
    pub fn push(&mut self, piece: &[u8], sink: &mut impl DeltaSink) -> Result<(), UpdateError> {
        self.0.push(piece, sink)
    }

    /// Ends the body. The sink has received every value exactly once.
    ///
    /// # Errors
    /// [`UpdateError`] if bytes are missing or an earlier call failed.
    pub fn finish(self) -> Result<(), UpdateError> {
        self.0.finish().map(drop)
    }
}

/// A body that is not the expected model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FormBodyError {
    /// The file does not have the expected form or tensors.
    #[error(transparent)]
    File(#[from] UpdateError),
    /// The values are not those of a model.
    #[error(transparent)]
    Values(#[from] ModelError),
}

/// Decodes a whole body to a model with these parameters.
///
/// # Errors
/// [`FormBodyError`] if the body is not such a model.
pub fn model_in_form(body: &[u8], parameters: &Arc<ParameterList>, form: ModelForm) -> Result<Model, FormBodyError> {
    let mut values = vec![0.0; parameters.total()];
    let mut decoder = FormDecoder::new(Arc::clone(parameters), form);
    decoder.push(body, &mut values)?;
    decoder.finish()?;
    Ok(Model::new(Arc::clone(parameters), values)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ParameterSpec;
    use crate::safetensors::{ModelFileError, model_to_bytes, write};
    use crate::seed::Seed;

    /// Parameters whose blocks end in the middle of pieces.
    fn parameters() -> Arc<ParameterList> {
        let specs =
            vec![ParameterSpec::new("w", [7, 19]), ParameterSpec::new("scale", []), ParameterSpec::new("b", [64])];
        Arc::new(ParameterList::new(specs).unwrap())
    }

    fn model(seed: u64) -> Model {
        let mut stream = Seed(seed).stream();
        let values = (0..parameters().total()).map(|_| stream.uniform(-2.0, 2.0)).collect();
        Model::new(parameters(), values).unwrap()
    }

    fn file(model: &Model) -> Vec<u8> {
        model_to_bytes(model, &model_metadata())
    }

    fn written(plain: &[u8], form: ModelForm, piece_bytes: usize) -> Result<Vec<u8>, FormError> {
        let mut survey = FormSurvey::new(parameters(), form);
        assert_eq!(survey.wants_file(), form == ModelForm::Int8);
        if survey.wants_file() {
            plain.chunks(piece_bytes).try_for_each(|piece| survey.push(piece))?;
        }
        let mut writer = survey.finish()?;
        let mut made = Vec::new();
        for piece in plain.chunks(piece_bytes) {
            made.extend(writer.push(piece)?);
        }
        writer.finish()?;
        assert_eq!(made.len() as u64, form_bytes(&parameters(), form));
        Ok(made)
    }

    proptest! {
        #[test]
        fn the_size_of_the_pieces_does_not_matter(seed: u64, piece_bytes in 1usize..900) {
            let model = model(seed);
            for form in ModelForm::ALL {
                let made = written(&file(&model), form, piece_bytes).unwrap();
                prop_assert_eq!(&made, &written(&file(&model), form, 1 << 20).unwrap());
                let mut values = vec![f32::NAN; model.values().len()];
                let mut decoder = FormDecoder::new(parameters(), form);
                for piece in made.chunks(piece_bytes) {
                    decoder.push(piece, &mut values).unwrap();
                }
                decoder.finish().unwrap();
                let whole = model_in_form(&made, &parameters(), form).unwrap();
                prop_assert_eq!(whole.values(), &values);
            }
        }

        #[test]
        fn any_bytes_are_a_model_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
            for form in ModelForm::ALL {
                prop_assert!(model_in_form(&body, &parameters(), form).is_err());
            }
        }
    }

    #[test]
    fn each_form_errs_by_half_a_step_at_most() {
        let model = model(1);
        for form in ModelForm::ALL {
            let read = model_in_form(&written(&file(&model), form, 100).unwrap(), &parameters(), form).unwrap();
            for (value, read) in model.values().iter().zip(read.values()) {
                let half_step = match form {
                    ModelForm::F32 => 0.0,
                    ModelForm::F16 => value.abs() / 2048.0 + 3e-8,
                    // Scales are rounded up by a 128th at most.
                    ModelForm::Int8 => 0.5 * 2.0 / 127.0 * (1.0 + 1.0 / 128.0),
                };
                assert!((value - read).abs() <= half_step, "{form:?}: {read} instead of {value}");
            }
        }
        assert_eq!(written(&file(&model), ModelForm::F32, 100).unwrap(), file(&model));
    }

    #[test]
    fn values_beyond_a_form_become_its_largest() {
        let mut values = vec![0.0; parameters().total()];
        (values[0], values[1], values[2]) = (f32::MAX, -1e38, 65_504.0);
        let model = Model::new(parameters(), values).unwrap();
        let read = |form| model_in_form(&written(&file(&model), form, 99).unwrap(), &parameters(), form).unwrap();
        assert_eq!(read(ModelForm::F16).values()[..4], [65_504.0, -65_504.0, 65_504.0, 0.0]);
        let int8 = read(ModelForm::Int8);
        assert!(int8.values()[0] > 0.99 * f32::MAX && (int8.values()[1] + 1e38).abs() < 2e36);
    }

    #[test]
    fn a_form_is_written_in_the_tensors_of_its_codec() {
        let model = model(2);
        let read = |form| {
            let made = written(&file(&model), form, 1 << 20).unwrap();
            let tensors = ::safetensors::SafeTensors::deserialize(&made).unwrap();
            let mut names: Vec<_> = tensors.names().into_iter().map(str::to_owned).collect();
            names.sort();
            names
        };
        assert_eq!(read(ModelForm::F16), ["b", "scale", "w"]);
        let int8 = ["b.scales", "b.values", "scale.scales", "scale.values", "w.scales", "w.values"];
        assert_eq!(read(ModelForm::Int8), int8);
    }

    #[test]
    fn a_file_that_is_no_model_is_refused_in_both_passes() {
        let whole = file(&model(3));
        for form in ModelForm::ALL {
            let cut = written(&whole[..whole.len() - 1], form, 64).unwrap_err();
            assert!(matches!(cut, FormError::File(ModelFileError::File(_))), "{cut}");
            assert!(written(&write(&[], &BTreeMap::new()), form, 64).is_err());
        }
        let specs = parameters().specs().iter().rev().cloned().collect();
        let other = Arc::new(ParameterList::new(specs).unwrap());
        let reversed = file(&Model::new(other, vec![1.0; parameters().total()]).unwrap());
        for form in ModelForm::ALL {
            assert_eq!(written(&reversed, form, 1 << 20), Err(FormError::Order(134)), "{form:?}");
        }
    }
}
