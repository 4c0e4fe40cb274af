//! Whether inputs are well formed and fit a network.

use std::collections::HashSet;

use super::column::{Column, ColumnKind, MissingValues};
use super::error::InputsError;
use super::{CATEGORIES_MAX, COLUMNS_MAX, Image, Inputs, NAME_BYTES_MAX, Target};
use crate::classes::COUNTED_CLASSES_MAX;
use crate::layers::ModelSpec;
use crate::plan::Loss;
use crate::text::visible;

impl Inputs {
    /// Checks names, numbers and limits, and that network and loss fit.
    ///
    /// # Errors
    /// [`InputsError`] names the first fault.
    pub fn check(&self, model: &ModelSpec, loss: Loss) -> Result<(), InputsError> {
        let forms = [!self.columns.is_empty(), self.image.is_some(), self.tokens.is_some()];
        if forms.iter().filter(|given| **given).count() > 1 {
            return Err(InputsError::Forms);
        }
        if self.standardize.is_some() && self.columns.is_empty() {
            return Err(InputsError::NothingToDescribe);
        }
        at_most("columns", self.columns.len(), COLUMNS_MAX)?;
        let target = self.target.iter().map(|target| target.name.as_str());
        distinct("the column", self.columns.iter().map(|column| column.name.as_str()).chain(target))?;
        for column in &self.columns {
            self.check_column(column)?;
        }
        self.image.as_ref().map_or(Ok(()), check_image)?;
        self.target.as_ref().map_or(Ok(()), |target| self.check_target(target, loss))?;
        self.check_network(model)
    }

    fn check_column(&self, column: &Column) -> Result<(), InputsError> {
        let wrong = |what| Err(InputsError::Value { column: column.name.clone(), what });
        at_most(&column.name, column.categories.len(), CATEGORIES_MAX)?;
        distinct("the category", column.categories.iter().map(String::as_str))?;
        column.unit.as_deref().map_or(Ok(()), check_name)?;
        match column.kind {
            ColumnKind::Category if column.categories.is_empty() => return wrong("a category needs `categories`"),
            ColumnKind::Number | ColumnKind::Date if !column.categories.is_empty() => {
                return wrong("only kind = \"category\" has categories");
            }
            ColumnKind::Category if column.range.is_some() => return wrong("a category has no range"),
            _ => {}
        }
        if column.range.is_some_and(|[low, high]| !(low.is_finite() && high.is_finite() && low < high)) {
            return wrong("a range is a smaller and a larger number");
        }
        check_scale(&column.name, column.mean, column.deviation)?;
        match column.replacement {
            Some(value) if !value.is_finite() => return wrong("a replacement is a number"),
            Some(code) if column.kind == ColumnKind::Category && !is_code(code, column.categories.len()) => {
                return wrong("the replacement of a category is its code: 0, 1, ..");
            }
            Some(_) if column.missing == MissingValues::Refuse => {
                return wrong("a replacement needs missing = \"replace\"");
            }
            _ => {}
        }
        if self.standardize.is_none() && column.lacks_replacement() {
            return Err(InputsError::NoReplacement(column.name.clone()));
        }
        Ok(())
    }

    fn check_target(&self, target: &Target, loss: Loss) -> Result<(), InputsError> {
        at_most("classes", target.classes.len(), COUNTED_CLASSES_MAX)?;
        distinct("the class", target.classes.iter().map(String::as_str))?;
        target.unit.as_deref().map_or(Ok(()), check_name)?;
        check_scale(&target.name, target.mean, target.deviation)?;
        let is_scaled = target.mean.is_some() || target.deviation.is_some();
        match (target.is_number(), loss) {
            (false, _) if is_scaled => Err(InputsError::Loss("classes have neither mean nor deviation")),
            (true, Loss::CrossEntropy) => Err(InputsError::Loss("loss = \"cross_entropy\" needs the names of classes")),
            (false, Loss::Mse) => Err(InputsError::Loss("loss = \"mse\" learns a number, not classes")),
            _ => Ok(()),
        }
    }

    fn check_network(&self, model: &ModelSpec) -> Result<(), InputsError> {
        let ModelSpec::Layers(network) = model else { return Ok(()) };
        let columns = self.width();
        if columns > 0 && network.input.iter().product::<usize>() != columns {
            return Err(InputsError::Width { columns, input: network.input.clone() });
        }
        let outputs = network.shapes().ok().and_then(|mut shapes| shapes.pop()).and_then(|mut shape| shape.pop());
        match (&self.target, outputs) {
            (Some(Target { classes, .. }), Some(outputs)) if !classes.is_empty() && classes.len() != outputs => {
                Err(InputsError::Classes { classes: classes.len(), outputs })
            }
            _ => Ok(()),
        }
    }
}

fn check_image(image: &Image) -> Result<(), InputsError> {
    let wrong = |what| Err(InputsError::Value { column: "image".into(), what });
    let [low, high] = image.range;
    if !(low.is_finite() && high.is_finite() && low < high) {
        return wrong("a range is a smaller and a larger number");
    }
    if !image.mean.iter().all(|mean| mean.is_finite()) || !image.deviation.iter().all(|value| is_scale(*value)) {
        return wrong("means are numbers, deviations numbers above 0");
    }
    Ok(())
}

fn check_scale(name: &str, mean: Option<f64>, deviation: Option<f64>) -> Result<(), InputsError> {
    if mean.is_none_or(f64::is_finite) && deviation.is_none_or(is_scale) {
        return Ok(());
    }
    Err(InputsError::Value { column: name.into(), what: "a mean is a number, a deviation a number above 0" })
}

fn is_scale(deviation: f64) -> bool {
    deviation.is_finite() && deviation > 0.0
}

fn is_code(code: f64, categories: usize) -> bool {
    code.fract() == 0.0 && code >= 0.0 && (code as usize) < categories
}

fn at_most(what: &str, count: usize, most: usize) -> Result<(), InputsError> {
    match count <= most {
        true => Ok(()),
        false => Err(InputsError::TooMany { what: what.into(), count, most }),
    }
}

fn distinct<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), InputsError> {
    let mut seen = HashSet::new();
    for name in names {
        check_name(name)?;
        if !seen.insert(name) {
            return Err(InputsError::Twice { what, name: name.into() });
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), InputsError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.trim() == name && visible(name) == name;
    if fits { Ok(()) } else { Err(InputsError::Name(name.chars().take(40).collect())) }
}
