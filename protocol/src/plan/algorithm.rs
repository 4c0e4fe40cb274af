//! What clients optimise: the setting `[training] algorithm`.

use serde::{Deserialize, Serialize};

use super::TrainingError;
use crate::model::{ParameterList, ParameterListError, ParameterSpec};

/// Most clients of a job whose clients keep control vectors.
pub const CLIENTS_MAX: u32 = 1 << 24;
/// Largest weight of the distance from the global model.
pub const MU_MAX: f64 = 1e3;
/// Precedes the names of the parameters to which the second vector of an update belongs.
const CONTROL_PREFIX: &str = "control.";

/// What a client optimises, and how its steps count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Algorithm {
    /// The loss of the client's examples (FedAvg, McMahan et al. 2017).
    #[default]
    Plain,
    /// The loss plus `mu / 2 |w - w_t|^2`, the distance from the global model w_t (FedProx, Li et al. 2020).
    FedProx {
        /// Weight of the distance, 0 to 1000; 0 is the plain loss. Where it adapts, that of the first round.
        mu: f64,
        /// How the weight follows the training loss from round to round. Default: it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        adaptive: Option<AdaptiveMu>,
    },
    /// The coordinator divides each update by the steps behind it (FedNova, Wang et al. 2020), so that clients with
    /// more steps do not pull the model towards their own optimum.
    FedNova {
        /// Weight of the distance from the global model, as in `fed_prox`. Default: 0.
        #[serde(default)]
        mu: f64,
    },
    /// Each gradient is corrected by how the client's gradients differ from those of all clients (SCAFFOLD,
    /// Karimireddy et al. 2020). Clients keep a control vector and send its change beside the update.
    Scaffold {
        /// Number of clients that take part in the job, those included that are never selected: N of the paper.
        clients: u32,
        /// What the client's next control vector is. Default: `steps`.
        #[serde(default)]
        control: Control,
    },
    /// The objective gets a linear term, learned over the rounds, and `alpha / 2 |w - w_t|^2`, so that its optimum is
    /// that of all clients (FedDyn, Acar et al. 2021). Clients keep the linear term.
    FedDyn {
        /// Weight of the distance, above 0 and at most 1000.
        alpha: f64,
        /// Number of clients that take part in the job, those included that are never selected: m of the paper.
        clients: u32,
    },
    /// Each client keeps weights of its own and trains from them. After each training they and the global model are
    /// drawn together by a share of their distance (EASGD, Zhang, Choromanska and LeCun 2015).
    Easgd {
        /// The share of the distance by which both sides move, above 0. Times the updates of a version at most 1.
        alpha: f64,
    },
}

/// How `mu` of FedProx follows the training loss (Li et al. 2020, section 5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveMu {
    /// Added after each round whose loss rose, and subtracted after falls, above 0 and at most 1000. Default: 0.1.
    pub step: f64,
    /// Rounds in a row whose loss fell before `mu` falls, at least 1. Default: 5.
    pub falls: u32,
}

impl Default for AdaptiveMu {
    fn default() -> Self {
        Self { step: 0.1, falls: 5 }
    }
}

/// The control vector that a client of SCAFFOLD keeps after a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Option I: the gradient of all its examples at the global model. It costs one more pass over the examples.
    Gradient,
    /// Option II: the mean gradient of its steps.
    #[default]
    Steps,
}

impl Algorithm {
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::Plain
    }

    /// The word in job files.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::FedProx { .. } => "fed_prox",
            Self::FedNova { .. } => "fed_nova",
            Self::Scaffold { .. } => "scaffold",
            Self::FedDyn { .. } => "fed_dyn",
            Self::Easgd { .. } => "easgd",
        }
    }

    /// Whether clients change their gradients by more than the loss says: a trainer must know how.
    pub fn corrects_gradients(&self) -> bool {
        self.proximal() > 0.0 || self.adaptive_mu().is_some() || self.keeps_state()
    }

    /// How the weight of the distance adapts, if it does.
    pub fn adaptive_mu(&self) -> Option<AdaptiveMu> {
        match *self {
            Self::FedProx { adaptive, .. } => adaptive,
            _ => None,
        }
    }

    /// The algorithm of a round with this weight of the distance.
    #[must_use]
    pub fn with_mu(self, mu: f64) -> Self {
        match self {
            Self::FedProx { adaptive, .. } => Self::FedProx { mu, adaptive },
            other => other,
        }
    }

    /// Whether a vector of the client's own is added to its gradients, and kept on the device between rounds.
    pub fn keeps_state(&self) -> bool {
        self.clients().is_some()
    }

    /// The share of the distance by which a client's own weights and the model are drawn together, where it has any.
    pub fn elastic(&self) -> Option<f64> {
        match *self {
            Self::Easgd { alpha } => Some(alpha),
            _ => None,
        }
    }

    /// Whether model versions have a control vector, which clients download, and updates the change of the client's
    /// own.
    pub fn sends_control(&self) -> bool {
        matches!(self, Self::Scaffold { .. })
    }

    /// Number of clients that take part in the job, where the formula needs it.
    pub fn clients(&self) -> Option<u32> {
        match *self {
            Self::Scaffold { clients, .. } | Self::FedDyn { clients, .. } => Some(clients),
            _ => None,
        }
    }

    /// What an update carries for a model with these parameters: the delta, then the change of the control vector if
    /// there is one. All of it is one flat vector, so codecs need not know.
    ///
    /// # Errors
    /// [`ParameterListError`] if a control vector makes the list too large, or its names are names of the model.
    pub fn update_parameters(&self, model: &ParameterList) -> Result<ParameterList, ParameterListError> {
        let mut parameters = model.specs().to_vec();
        if self.sends_control() {
            let control =
                |spec: &ParameterSpec| ParameterSpec::new(format!("{CONTROL_PREFIX}{}", spec.name), spec.shape.clone());
            parameters.extend(model.specs().iter().map(control));
        }
        ParameterList::new(parameters)
    }

    /// Weight of the distance from the global model in the objective; 0 where there is no such term.
    pub fn proximal(&self) -> f64 {
        match *self {
            Self::Plain | Self::Scaffold { .. } | Self::Easgd { .. } => 0.0,
            Self::FedProx { mu, .. } | Self::FedNova { mu } => mu,
            Self::FedDyn { alpha, .. } => alpha,
        }
    }

    pub(super) fn check(&self) -> Result<(), TrainingError> {
        if self.clients().is_some_and(|clients| !(1..=CLIENTS_MAX).contains(&clients)) {
            return Err(TrainingError::Algorithm("clients must be 1 to 16,777,216"));
        }
        if let Some(AdaptiveMu { step, falls }) = self.adaptive_mu()
            && !(step > 0.0 && step <= MU_MAX && falls > 0)
        {
            return Err(TrainingError::Algorithm(
                "adaptive needs a step above 0 and at most 1000, and falls of at least 1",
            ));
        }
        match *self {
            // The server divides by it.
            Self::FedDyn { alpha, .. } if alpha < 1e-6 => {
                Err(TrainingError::Algorithm("alpha must be at least 0.000001"))
            }
            Self::Easgd { alpha } if !(alpha > 0.0 && alpha <= 1.0) => {
                Err(TrainingError::Algorithm("alpha of easgd must be above 0 and at most 1"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_carries_the_delta_and_then_the_control() {
        let model = ParameterList::new(vec![ParameterSpec::new("w", [2, 3]), ParameterSpec::new("b", [3])]).unwrap();
        assert_eq!(Algorithm::FedDyn { alpha: 1.0, clients: 2 }.update_parameters(&model), Ok(model.clone()));
        let scaffold = Algorithm::Scaffold { clients: 2, control: Control::Gradient };
        let update = scaffold.update_parameters(&model).unwrap();
        let names: Vec<&str> = update.specs().iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["w", "b", "control.w", "control.b"]);
        assert_eq!((update.total(), update.range(2).start), (18, 9));
        let taken = ParameterList::new(vec![ParameterSpec::new("w", [1]), ParameterSpec::new("control.w", [1])]);
        assert!(scaffold.update_parameters(&taken.unwrap()).is_err());
    }
}
