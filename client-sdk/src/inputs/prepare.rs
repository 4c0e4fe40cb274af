//! From raw values to inputs.

use tributary_protocol::inputs::{Column, ColumnKind, Encoding, Image, Inputs, MissingValues};
use tributary_protocol::job_model::JobModel;
use tributary_protocol::layers::ModelSpec;

use crate::examples::{Batch, Examples, ExamplesError, RawBatch, RawTargets, Targets};

/// How raw examples become what the network reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    feeds: Feeds,
    /// Mean and deviation of a target that is a number.
    target: Option<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Feeds {
    /// One for each value of a row.
    Columns(Vec<ColumnFeed>),
    Image(Image),
    /// Values are fed as they are.
    Plain,
}

#[derive(Clone, Debug, PartialEq)]
struct ColumnFeed {
    name: String,
    form: Form,
    /// A raw value in place of a missing one.
    replacement: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Scaled { mean: f64, deviation: f64, range: Option<[f64; 2]> },
    OneHot { categories: usize },
    Code { categories: usize },
}

/// Why a raw example cannot be fed to the network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// Another number of values.
    #[error("{got} values, where the job has {expected} columns")]
    Width {
        /// Number of columns.
        expected: usize,
        /// Number of values given.
        got: usize,
    },
    /// A missing value that has no replacement.
    #[error("{0} is missing, and the job does not say what replaces it")]
    Missing(String),
    /// An infinity.
    #[error("{0} is not finite")]
    NotFinite(String),
    /// A number outside of its range.
    #[error("{column} is {value}, outside of {low} to {high}")]
    Range {
        /// Name of the column.
        column: String,
        /// The value.
        value: f64,
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// A code that no category has.
    #[error("{column} is {value}, and its categories have the codes 0 to {last}")]
    Code {
        /// Name of the column.
        column: String,
        /// The value.
        value: f64,
        /// The last code.
        last: usize,
    },
}

impl Preparation {
    /// What the network of these inputs is fed. Numbers without mean and deviation are fed as they are.
    pub fn of(inputs: &Inputs) -> Self {
        let feeds = match (&inputs.image, inputs.columns.is_empty()) {
            (Some(image), _) => Feeds::Image(image.clone()),
            (None, false) => Feeds::Columns(inputs.columns.iter().map(ColumnFeed::of).collect()),
            (None, true) => Feeds::Plain,
        };
        let target = inputs.target.as_ref().filter(|target| target.is_number());
        let target = target.map(|target| (target.mean.unwrap_or(0.0), target.deviation.unwrap_or(1.0)));
        Self { feeds, target }
    }

    /// Number of raw values of an example; `None` if any.
    pub fn raw_width(&self) -> Option<usize> {
        match &self.feeds {
            Feeds::Columns(columns) => Some(columns.len()),
            Feeds::Image(_) | Feeds::Plain => None,
        }
    }

    /// Number of inputs that a raw example of this many values becomes.
    pub fn width(&self, raw: usize) -> usize {
        match &self.feeds {
            Feeds::Columns(columns) => columns.iter().map(|column| column.form.width()).sum(),
            Feeds::Image(_) | Feeds::Plain => raw,
        }
    }

    /// Appends the inputs of one raw example. `channels` is the first length of an image's shape; NaN is a missing
    /// value.
    ///
    /// # Errors
    /// [`PrepareError`] names the first column whose value cannot be fed.
    pub fn prepare(&self, raw: &[f64], channels: usize, inputs: &mut Vec<f32>) -> Result<(), PrepareError> {
        match &self.feeds {
            Feeds::Plain => inputs.extend(raw.iter().map(|value| *value as f32)),
            Feeds::Image(image) => prepare_image(image, raw, channels, inputs),
            Feeds::Columns(columns) if columns.len() != raw.len() => {
                return Err(PrepareError::Width { expected: columns.len(), got: raw.len() });
            }
            Feeds::Columns(columns) => {
                for (column, value) in columns.iter().zip(raw) {
                    column.prepare(*value, inputs)?;
                }
            }
        }
        Ok(())
    }

    /// Mean and deviation of each input, for exports: the values of categories spread to one input each are left as
    /// they are, with a mean of 0 and a deviation of 1. `None` where raw values are fed as they are. `raw` is the
    /// number of values of a raw example, and `channels` the first length of an image's shape.
    pub fn scales(&self, raw: usize, channels: usize) -> Option<(Vec<f32>, Vec<f32>)> {
        match &self.feeds {
            Feeds::Plain => None,
            Feeds::Columns(columns) => Some(columns.iter().flat_map(|column| column.form.scales()).unzip()),
            Feeds::Image(image) => {
                let [low, high] = image.range;
                let scale = |place: usize| {
                    let (mean, deviation) = channel_scale(image, place, raw, channels);
                    // ((x - low) / (high - low) - mean) / deviation
                    ((low + mean * (high - low)) as f32, ((high - low) * deviation) as f32)
                };
                Some((0..raw).map(scale).unzip())
            }
        }
    }

    /// The number that an output stands for.
    pub fn number(&self, output: f32) -> f64 {
        let (mean, deviation) = self.target.unwrap_or((0.0, 1.0));
        f64::from(output) * deviation + mean
    }

    /// What the network should put out for a number.
    pub fn aim(&self, number: f64) -> f32 {
        let (mean, deviation) = self.target.unwrap_or((0.0, 1.0));
        ((number - mean) / deviation) as f32
    }

    /// The examples with these indices as the network reads them.
    ///
    /// # Errors
    /// [`ExamplesError`] if they cannot be read, or one cannot be fed.
    pub fn batch(&self, examples: &dyn Examples, indices: &[usize]) -> Result<Batch, ExamplesError> {
        let RawBatch { inputs: raw, targets } = raw_batch(examples, indices)?;
        let (each, channels) = (raw.len() / indices.len().max(1), examples.input_shape().first().copied().unwrap_or(1));
        let mut inputs = Vec::with_capacity(indices.len() * self.width(each));
        for (row, index) in raw.chunks(each.max(1)).zip(indices) {
            let unfit = |error: PrepareError| ExamplesError::Unfit { index: *index, why: error.to_string() };
            self.prepare(row, channels, &mut inputs).map_err(unfit)?;
        }
        let targets = match targets {
            RawTargets::Classes(classes) => Targets::Classes(classes),
            RawTargets::Values { values, width } => {
                Targets::Values { values: values.into_iter().map(|value| self.aim(value)).collect(), width }
            }
        };
        Ok(Batch { inputs, targets })
    }
}

/// The inputs of raw rows with so many values each, one row after the other: for apps with a trainer of their own. Rows
/// of a job without `[model.inputs]` stay as they are.
///
/// # Errors
/// [`PrepareError`] names the first column whose value cannot be fed.
pub fn prepared_rows(model: &JobModel, rows: &[f64], width: usize) -> Result<Vec<f32>, PrepareError> {
    let preparation = Preparation::of(model.inputs.as_ref().unwrap_or(&Inputs::default()));
    let channels = match &model.spec {
        ModelSpec::Layers(network) => network.input.first().copied().unwrap_or(1),
        ModelSpec::Parameters(_) => 1,
    };
    let mut inputs = Vec::with_capacity(rows.len());
    for row in rows.chunks(width.max(1)) {
        preparation.prepare(row, channels, &mut inputs)?;
    }
    Ok(inputs)
}

/// The examples with these indices as they are; those that come as f32 are widened.
pub(super) fn raw_batch(examples: &dyn Examples, indices: &[usize]) -> Result<RawBatch, ExamplesError> {
    if let Some(raw) = examples.raw(indices)? {
        return Ok(raw);
    }
    let Batch { inputs, targets } = examples.batch(indices)?;
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
    let targets = match targets {
        Targets::Classes(classes) => RawTargets::Classes(classes),
        Targets::Values { values, width } => RawTargets::Values { values: wide(values), width },
    };
    Ok(RawBatch { inputs: wide(inputs), targets })
}

impl ColumnFeed {
    fn of(column: &Column) -> Self {
        let categories = column.categories.len();
        let form = match (column.kind, column.encoding) {
            (ColumnKind::Category, Encoding::OneHot) => Form::OneHot { categories },
            (ColumnKind::Category, Encoding::Code) => Form::Code { categories },
            (ColumnKind::Number | ColumnKind::Date, _) => Form::Scaled {
                mean: column.mean.unwrap_or(0.0),
                deviation: column.deviation.unwrap_or(1.0),
                range: column.range,
            },
        };
        let replacement = match column.missing {
            MissingValues::Refuse => None,
            MissingValues::Replace => column.replacement.or(column.mean),
        };
        Self { name: column.name.clone(), form, replacement }
    }

    fn prepare(&self, value: f64, inputs: &mut Vec<f32>) -> Result<(), PrepareError> {
        let name = || self.name.clone();
        let value = match value.is_nan() {
            true => self.replacement.ok_or_else(|| PrepareError::Missing(name()))?,
            false => value,
        };
        if value.is_infinite() {
            return Err(PrepareError::NotFinite(name()));
        }
        match self.form {
            Form::Scaled { range: Some([low, high]), .. } if !(low..=high).contains(&value) => {
                return Err(PrepareError::Range { column: name(), value, low, high });
            }
            Form::Scaled { mean, deviation, .. } => inputs.push(((value - mean) / deviation) as f32),
            Form::OneHot { categories } | Form::Code { categories } if !is_code(value, categories) => {
                return Err(PrepareError::Code { column: name(), value, last: categories.saturating_sub(1) });
            }
            Form::OneHot { categories } => {
                inputs.extend((0..categories).map(|code| f32::from(u8::from(code == value as usize))));
            }
            Form::Code { .. } => inputs.push(value as f32),
        }
        Ok(())
    }
}

impl Form {
    fn scales(self) -> Vec<(f32, f32)> {
        match self {
            Self::Scaled { mean, deviation, .. } => vec![(mean as f32, deviation as f32)],
            Self::OneHot { .. } | Self::Code { .. } => vec![(0.0, 1.0); self.width()],
        }
    }

    fn width(self) -> usize {
        match self {
            Self::OneHot { categories } => categories,
            Self::Scaled { .. } | Self::Code { .. } => 1,
        }
    }
}

fn prepare_image(image: &Image, raw: &[f64], channels: usize, inputs: &mut Vec<f32>) {
    let [low, high] = image.range;
    inputs.extend(raw.iter().enumerate().map(|(place, value)| {
        let (mean, deviation) = channel_scale(image, place, raw.len(), channels);
        (((value - low) / (high - low) - mean) / deviation) as f32
    }));
}

/// Mean and deviation of the channel of this value, after scaling to 0 to 1.
fn channel_scale(image: &Image, place: usize, values: usize, channels: usize) -> (f64, f64) {
    let channel = place / (values / channels.max(1)).max(1);
    let of = |values: &[f64], default| match values {
        [] => default,
        [one] => *one,
        several => several.get(channel).copied().unwrap_or(default),
    };
    (of(&image.mean, 0.0), of(&image.deviation, 1.0))
}

fn is_code(value: f64, categories: usize) -> bool {
    value.fract() == 0.0 && value >= 0.0 && value < categories as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::MemoryExamples;

    fn inputs() -> Inputs {
        serde_json::from_value(serde_json::json!({
            "columns": [
                { "name": "age", "mean": 40.0, "deviation": 10.0, "range": [0.0, 120.0], "missing": "replace" },
                { "name": "ward", "kind": "category", "categories": ["east", "west"] },
                { "name": "grade", "kind": "category", "categories": ["a", "b", "c"], "encoding": "code",
                  "missing": "replace", "replacement": 2.0 },
            ],
            "target": { "name": "days", "mean": 4.0, "deviation": 2.0 },
        }))
        .unwrap()
    }

    fn prepared(raw: &[f64]) -> Result<Vec<f32>, String> {
        let mut out = Vec::new();
        Preparation::of(&inputs()).prepare(raw, 1, &mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn numbers_are_scaled_and_categories_spread() {
        assert_eq!(prepared(&[60.0, 1.0, 0.0]).unwrap(), [2.0, 0.0, 1.0, 0.0]);
        assert_eq!(prepared(&[f64::NAN, 0.0, f64::NAN]).unwrap(), [0.0, 1.0, 0.0, 2.0]);
        assert_eq!(Preparation::of(&inputs()).width(3), 4);
    }

    #[test]
    fn what_cannot_be_fed_is_named() {
        for (raw, said) in [
            (&[60.0, 1.0][..], "2 values, where the job has 3 columns"),
            (&[121.0, 1.0, 0.0], "age is 121, outside of 0 to 120"),
            (&[60.0, f64::NAN, 0.0], "ward is missing"),
            (&[60.0, 2.0, 0.0], "ward is 2, and its categories have the codes 0 to 1"),
            (&[60.0, 0.5, 0.0], "ward is 0.5"),
            (&[f64::INFINITY, 0.0, 0.0], "age is not finite"),
        ] {
            assert!(prepared(raw).unwrap_err().starts_with(said), "{raw:?}");
        }
    }

    #[test]
    fn a_batch_has_scaled_inputs_and_targets() {
        let targets = RawTargets::Values { values: vec![8.0, 2.0], width: 1 };
        let rows = MemoryExamples::from_rows(3, vec![60.0, 1.0, 0.0, 30.0, 0.0, 1.0], targets).unwrap();
        let preparation = Preparation::of(&inputs());
        let batch = preparation.batch(&rows, &[1, 0]).unwrap();
        assert_eq!(batch.inputs, [-1.0, 1.0, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0]);
        assert_eq!(batch.targets, Targets::Values { values: vec![-1.0, 2.0], width: 1 });
        assert_eq!((preparation.number(2.0), preparation.aim(8.0)), (8.0, 2.0));
    }

    #[test]
    fn rows_of_an_app_with_its_own_trainer_are_prepared() {
        let mut model: JobModel = serde_json::from_str(r#"{"parameters":[{"name":"w","shape":[1]}]}"#).unwrap();
        let rows = [60.0, 1.0, 0.0, 30.0, 0.0, 1.0];
        assert_eq!(prepared_rows(&model, &rows, 3).unwrap(), rows.map(|value| value as f32));
        model.inputs = Some(inputs());
        assert_eq!(prepared_rows(&model, &rows, 3).unwrap(), [2.0, 0.0, 1.0, 0.0, -1.0, 1.0, 0.0, 1.0]);
        assert!(prepared_rows(&model, &rows, 2).unwrap_err().to_string().starts_with("2 values, where the job has 3"));
    }

    #[test]
    fn images_are_scaled_by_channel() {
        let image =
            serde_json::json!({ "image": { "range": [0.0, 255.0], "mean": [0.5, 0.0], "deviation": [0.5, 1.0] } });
        let preparation = Preparation::of(&serde_json::from_value(image).unwrap());
        let mut out = Vec::new();
        preparation.prepare(&[255.0, 0.0, 255.0, 51.0], 2, &mut out).unwrap();
        assert_eq!(out, [1.0, -1.0, 1.0, 0.2]);
    }
}
