//! The section `[model]` of a job file: the network, and which of its parameters travel.

use serde::{Deserialize, Serialize};

use crate::inputs::Inputs;
use crate::layers::{Layer, ModelSpec, ModelSpecError, ModelTable};
use crate::model::{ParameterList, ParameterSpec};
use crate::sharing::{Parts, Sharing};

/// A name or a paragraph, and a link to the rest: every client gets it with every plan.
const LICENSE_BYTES_MAX: usize = 1_000;

/// The model of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "JobModelTable", into = "JobModelTable")]
pub struct JobModel {
    /// The network as layers, or the names and shapes of the parameters of an app's own network.
    pub spec: ModelSpec,
    /// Which parameters are shared, frozen and personal.
    pub sharing: Sharing,
    /// What the network is fed; none where clients feed it what they have.
    pub inputs: Option<Inputs>,
    /// The terms under which the model may be used, for people: they travel with the plan and in each exported file.
    pub license: Option<String>,
}

impl JobModel {
    /// Whether its license is a text that a terminal can show, of a length that a plan can carry.
    pub(crate) fn has_readable_license(&self) -> bool {
        let is_readable = |text: &str| {
            let is_shown = |letter: char| letter == '\n' || !letter.is_control();
            !text.trim().is_empty() && text.len() <= LICENSE_BYTES_MAX && text.chars().all(is_shown)
        };
        self.license.as_deref().is_none_or(is_readable)
    }

    /// Whether a round of sums must fix something before clients can train.
    pub fn lacks_statistics(&self) -> bool {
        self.inputs.as_ref().is_some_and(Inputs::lacks_statistics)
    }

    /// All parameters, in order.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer or parameter that is invalid.
    pub fn parameters(&self) -> Result<ParameterList, ModelSpecError> {
        self.spec.parameters()
    }

    /// All parameters, each with its part.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer, parameter or pattern that is invalid.
    pub fn parts(&self) -> Result<Parts, ModelSpecError> {
        Ok(self.sharing.parts(self.parameters()?)?)
    }

    /// Whether running means or variances of `batch_norm` layers are shared.
    pub fn shares_running_statistics(&self) -> bool {
        let ModelSpec::Layers(network) = &self.spec else { return false };
        let is_running = |name: &str| {
            let layer = layer_index(name).and_then(|index| network.layers.get(index));
            matches!(layer, Some(Layer::BatchNorm { .. })) && name.contains(".running_")
        };
        self.parts().is_ok_and(|parts| parts.shared().specs().iter().any(|spec| is_running(&spec.name)))
    }
}

/// The layer of the parameter `layers.<index>.<name>`.
fn layer_index(name: &str) -> Option<usize> {
    name.strip_prefix("layers.")?.split_once('.')?.0.parse().ok()
}

/// No parameter: the model of a job file that names none.
impl Default for JobModel {
    fn default() -> Self {
        ModelSpec::Parameters(Vec::new()).into()
    }
}

impl From<ModelSpec> for JobModel {
    fn from(spec: ModelSpec) -> Self {
        Self { spec, sharing: Sharing::default(), inputs: None, license: None }
    }
}

/// The section as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobModelTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layers: Option<Vec<Layer>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<Vec<ParameterSpec>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    frozen: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    personal: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Inputs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    license: Option<String>,
}

impl TryFrom<JobModelTable> for JobModel {
    type Error = &'static str;

    fn try_from(table: JobModelTable) -> Result<Self, Self::Error> {
        let JobModelTable { input, layers, parameters, shared, frozen, personal, inputs, license } = table;
        let spec = ModelTable { input, layers, parameters }.try_into()?;
        Ok(Self { spec, sharing: Sharing { shared, frozen, personal }, inputs, license })
    }
}

impl From<JobModel> for JobModelTable {
    fn from(JobModel { spec, sharing: Sharing { shared, frozen, personal }, inputs, license }: JobModel) -> Self {
        let ModelTable { input, layers, parameters } = spec.into();
        Self { input, layers, parameters, shared, frozen, personal, inputs, license }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_keys_of_the_model_and_are_written_back() {
        let text = "input = [4]\nlayers = [{ kind = \"batch_norm\" }, { kind = \"linear\", out_features = 2 }]\n\
                    personal = [\"layers.0.*\"]";
        let model: JobModel = toml::from_str(text).unwrap();
        assert_eq!(model.sharing.personal, ["layers.0.*"]);
        assert_eq!(toml::from_str::<JobModel>(&toml::to_string(&model).unwrap()).unwrap(), model);
        assert!(!model.shares_running_statistics());
        let shared = JobModel { sharing: Sharing::default(), ..model.clone() };
        assert!(shared.shares_running_statistics());
        assert!(
            !serde_json::to_string(&shared).unwrap().contains("personal"),
            "a plan without personal parameters has no such key"
        );
        let unknown = toml::from_str::<JobModel>(&text.replace("personal", "private"));
        assert!(unknown.unwrap_err().to_string().contains("unknown field `private`"));
    }

    #[test]
    fn a_license_travels_with_the_model() {
        let model: JobModel = serde_json::from_str(r#"{"parameters":[],"license":"CC BY 4.0"}"#).unwrap();
        assert_eq!(serde_json::to_string(&model).unwrap(), r#"{"parameters":[],"license":"CC BY 4.0"}"#);
        let is_readable =
            |license: &str| JobModel { license: Some(license.to_owned()), ..model.clone() }.has_readable_license();
        assert!(is_readable("CC BY 4.0") && is_readable("two\nlines") && is_readable(&"x".repeat(LICENSE_BYTES_MAX)));
        let long = "x".repeat(LICENSE_BYTES_MAX + 1);
        for text in ["", " \n", "\u{1b}[31mred", long.as_str()] {
            assert!(!is_readable(text), "{text:?}");
        }
    }

    #[test]
    fn patterns_are_checked_against_the_model() {
        let model: JobModel = serde_json::from_str(
            r#"{"parameters":[{"name":"body","shape":[2]},{"name":"head","shape":[1]}],"frozen":["tail"]}"#,
        )
        .unwrap();
        let refused = model.parts().unwrap_err().to_string();
        assert_eq!(refused, "frozen: \"tail\" matches no parameter; the model has body, head");
    }
}
