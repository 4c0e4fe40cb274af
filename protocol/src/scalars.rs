//! Named scalars that a trainer reports beside loss and accuracy, such as AUC, F1 or perplexity.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most metrics of one report, and of one round.
pub const SCALARS_MAX: usize = 32;
/// Longest name of a metric in bytes.
pub const SCALAR_NAME_BYTES_MAX: usize = 64;
/// Largest magnitude of a metric. The weighted mean of larger ones could overflow.
pub const SCALAR_MAX: f64 = 1e12;

/// The loss of the clients' own models, where a job has personal parameters: the client reports it as a metric.
pub const PERSONALISED_LOSS: &str = "personalised_loss";
/// The accuracy of the clients' own models.
pub const PERSONALISED_ACCURACY: &str = "personalised_accuracy";

/// Figures of every report. A metric of such a name would share its curve in exports.
const RESERVED: [&str; 3] = ["accuracy", "examples", "loss"];

/// Name of a metric: 1 to 64 of the characters `a` to `z`, digits, `_`, `.` and `-`. `accuracy`, `examples` and `loss`
/// are members of reports and no names of metrics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ScalarName(String);

/// Named scalars of one report, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<ScalarName, f64>", try_from = "BTreeMap<ScalarName, f64>")]
pub struct Scalars(BTreeMap<ScalarName, f64>);

/// A metric that no report may carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScalarsError {
    /// The name has another form.
    #[error("{0:?} is no name of a metric: 1 to 64 of a-z, 0-9, _, . and -")]
    BadName(String),
    /// The name is that of another member of the report.
    #[error("{0} is a member of the report and no metric")]
    Reserved(String),
    /// The value is a NaN, an infinity, or above [`SCALAR_MAX`] in magnitude.
    #[error("the metric {0} is not finite, or above 1e12")]
    NotFinite(ScalarName),
    /// The report has more than [`SCALARS_MAX`] metrics.
    #[error("a report has at most 32 metrics; {0} is one too many")]
    TooMany(ScalarName),
    /// The text is no list of `name:value`.
    #[error("metrics are written as name:value,name:value; {0:?} is not")]
    BadText(String),
}

impl ScalarName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ScalarName {
    type Err = ScalarsError;

    fn from_str(text: &str) -> Result<Self, ScalarsError> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
        if !(1..=SCALAR_NAME_BYTES_MAX).contains(&text.len()) || !text.bytes().all(is_letter) {
            return Err(ScalarsError::BadName(text.chars().take(SCALAR_NAME_BYTES_MAX).collect()));
        }
        if RESERVED.contains(&text) {
            return Err(ScalarsError::Reserved(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for ScalarName {
    type Error = ScalarsError;

    fn try_from(text: String) -> Result<Self, ScalarsError> {
        text.parse()
    }
}

impl From<ScalarName> for String {
    fn from(name: ScalarName) -> Self {
        name.0
    }
}

impl fmt::Display for ScalarName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl Scalars {
    /// No metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// These metrics and one more. A metric of the same name is replaced.
    ///
    /// ```
    /// # use tributary_protocol::scalars::Scalars;
    /// let metrics = Scalars::new().with("auc", 0.91)?.with("perplexity", 14.2)?;
    /// assert!(metrics.with("AUC", 1.0).is_err());
    /// # Ok::<(), tributary_protocol::scalars::ScalarsError>(())
    /// ```
    ///
    /// # Errors
    /// [`ScalarsError`] for a bad name, a value that is not finite, or one metric too many.
    pub fn with(mut self, name: &str, value: f64) -> Result<Self, ScalarsError> {
        self.insert(name.parse()?, value)?;
        Ok(self)
    }

    fn insert(&mut self, name: ScalarName, value: f64) -> Result<(), ScalarsError> {
        if !(-SCALAR_MAX..=SCALAR_MAX).contains(&value) {
            return Err(ScalarsError::NotFinite(name));
        }
        if self.0.len() >= SCALARS_MAX && !self.0.contains_key(&name) {
            return Err(ScalarsError::TooMany(name));
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ScalarName, f64)> {
        self.0.iter().map(|(name, value)| (name, *value))
    }

    /// The value of a metric.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<ScalarName, f64>> for Scalars {
    type Error = ScalarsError;

    fn try_from(values: BTreeMap<ScalarName, f64>) -> Result<Self, ScalarsError> {
        let mut metrics = Self::new();
        for (name, value) in values {
            metrics.insert(name, value)?;
        }
        Ok(metrics)
    }
}

impl From<Scalars> for BTreeMap<ScalarName, f64> {
    fn from(metrics: Scalars) -> Self {
        metrics.0
    }
}

/// Metrics as text, for queries: `auc:0.91,f1:0.8`.
impl fmt::Display for Scalars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // `Debug` writes the shortest text that reads back, with an exponent where that is shorter.
            write!(formatter, "{comma}{name}:{value:?}")?;
        }
        Ok(())
    }
}

impl FromStr for Scalars {
    type Err = ScalarsError;

    fn from_str(text: &str) -> Result<Self, ScalarsError> {
        let mut metrics = Self::new();
        for pair in text.split(',').filter(|_| !text.is_empty()) {
            let bad = || ScalarsError::BadText(pair.chars().take(2 * SCALAR_NAME_BYTES_MAX).collect());
            let (name, value) = pair.split_once(':').ok_or_else(bad)?;
            metrics.insert(name.parse()?, value.parse().map_err(|_| bad())?)?;
        }
        Ok(metrics)
    }
}

/// Serialises [`Scalars`] as text.
pub(crate) mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Scalars;

    pub(crate) fn serialize<S: Serializer>(metrics: &Scalars, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(metrics)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scalars, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_the_same_in_json_and_in_a_query() {
        let metrics = Scalars::new().with("f1-macro", 0.1).unwrap().with("auc", 1e-9).unwrap();
        let metrics = metrics.with("auc", 0.91).unwrap();
        assert_eq!(metrics.to_string(), "auc:0.91,f1-macro:0.1");
        assert_eq!(metrics.to_string().parse::<Scalars>().unwrap(), metrics);
        let json = serde_json::to_string(&metrics).unwrap();
        assert_eq!(json, r#"{"auc":0.91,"f1-macro":0.1}"#);
        assert_eq!(serde_json::from_str::<Scalars>(&json).unwrap(), metrics);
        assert_eq!("".parse::<Scalars>().unwrap(), Scalars::new());
    }

    #[test]
    fn what_no_report_may_carry_is_named() {
        let none = Scalars::new;
        let long = "n".repeat(SCALAR_NAME_BYTES_MAX + 1);
        for name in ["", "AUC", "a b", "a:b", "a,b", "ü", long.as_str()] {
            assert!(matches!(none().with(name, 0.5), Err(ScalarsError::BadName(_))), "{name}");
        }
        assert_eq!(none().with("loss", 0.5), Err(ScalarsError::Reserved("loss".into())));
        for value in [f64::NAN, f64::INFINITY, -1e13] {
            let auc = "auc".parse().unwrap();
            assert_eq!(none().with("auc", value), Err(ScalarsError::NotFinite(auc)));
            assert!(format!("auc:{value}").parse::<Scalars>().is_err());
        }
        let full = (0..SCALARS_MAX).fold(none(), |metrics, index| metrics.with(&format!("m{index}"), 1.0).unwrap());
        assert!(full.clone().with("m0", 2.0).is_ok(), "a replacement is not one more");
        assert!(matches!(full.with("more", 1.0), Err(ScalarsError::TooMany(_))));
        for text in ["auc", "auc:", "auc:x", "auc:1,", ":1"] {
            assert!(text.parse::<Scalars>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Scalars>(r#"{"accuracy":1}"#).is_err());
    }
}
