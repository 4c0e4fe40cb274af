//! The orders of lists.

use serde::{Deserialize, Serialize};

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first. `after` then selects items below.
    Desc,
}

/// What a list of clients is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientOrder {
    /// Number, in the order of enrolment. Smallest first.
    #[default]
    Number,
    /// Last request. Newest first.
    LastSeen,
    /// Number of training examples. Largest first.
    Examples,
    /// Number of rounds in which it reported. Largest first.
    Reported,
    /// Number of rounds that needed its report and closed without it. Largest first.
    Late,
    /// Number of rounds in which it gave up or its update was rejected. Largest first.
    Failed,
    /// Share of ended assignments that were dropped. Largest first.
    DropRate,
    /// Mean work time per report. Largest first; clients without reports last.
    Work,
    /// Bytes of the updates that it uploaded. Largest first.
    Up,
}

impl Order {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Asc => Self::Desc,
            Self::Desc => Self::Asc,
        }
    }

    /// The word in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asc => "asc",
            Self::Desc => "desc",
        }
    }
}

impl ClientOrder {
    /// All orders.
    pub const ALL: [Self; 9] = [
        Self::Number,
        Self::LastSeen,
        Self::Examples,
        Self::Reported,
        Self::Late,
        Self::Failed,
        Self::DropRate,
        Self::Work,
        Self::Up,
    ];

    /// The word in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::LastSeen => "last_seen",
            Self::Examples => "examples",
            Self::Reported => "reported",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::DropRate => "drop_rate",
            Self::Work => "work",
            Self::Up => "up",
        }
    }

    /// The direction of a list that asks for none.
    pub fn direction(self) -> Order {
        if self == Self::Number { Order::Asc } else { Order::Desc }
    }
}

/// What a list of rounds is sorted by. Rounds without the value come last, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RoundSort {
    /// Number.
    #[default]
    Number,
    /// Time from the opening to the end. Open rounds have none.
    Took,
    /// Accuracy of the resulting model.
    Accuracy,
    /// Loss of the resulting model.
    Loss,
    /// Mean training loss of the updates.
    TrainingLoss,
    /// Clients that were rejected, gave up, or did not report in time; spares are not lost.
    Lost,
    /// Bytes that clients uploaded.
    Up,
}

impl RoundSort {
    /// All orders.
    pub const ALL: [Self; 7] =
        [Self::Number, Self::Took, Self::Accuracy, Self::Loss, Self::TrainingLoss, Self::Lost, Self::Up];

    /// The word in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Took => "took",
            Self::Accuracy => "accuracy",
            Self::Loss => "loss",
            Self::TrainingLoss => "training_loss",
            Self::Lost => "lost",
            Self::Up => "up",
        }
    }

    /// The direction in which the rounds that need attention come first: the newest, the slowest, the worst.
    pub fn direction(self) -> Order {
        if self == Self::Accuracy { Order::Asc } else { Order::Desc }
    }
}
