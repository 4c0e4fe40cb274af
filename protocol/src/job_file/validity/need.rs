//! What settings of a job file rely on.

/// What a setting may rely on, and another one may take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// A round draws a cohort, and closes by a goal and a minimum of updates.
    Cohorts,
    /// A round waits for clients before it draws them.
    Wait,
    /// The coordinator chooses the size of a cohort.
    CohortSize,
    /// A client that misses its deadline may be drawn again.
    Redraw,
    /// The time of a report is that of all the work.
    FullTimes,
    /// A round has an end, whether or not clients report.
    RoundEnds,
    /// All updates of a version start from the version before.
    NewestBase,
    /// Updates that are added up were given out in one round, by its policy.
    OneRound,
    /// An update is one training from the model of its assignment.
    OneTraining,
    /// All clients take the same number of optimiser steps.
    EqualSteps,
    /// An update is as old as its assignment.
    KnownAge,
    /// The step depends on weights of updates.
    Weights,
    /// The sum of a buffer may be divided by another number than that of its weights.
    FreeDivisor,
    /// The sum of a buffer may be divided by a number that follows from what came.
    MovingDivisor,
    /// A client contributes to a version once at most.
    OneOfEach,
    /// An update counts in full, however late it is.
    FullCount,
    /// All updates count alike.
    EqualWeights,
    /// The rule reads sums of groups where it would read updates.
    SumsOfGroups,
    /// The step is the mean of the updates by their examples.
    ExampleMean,
    /// The rule needs the sum of the updates, and nothing else of them.
    SumAlone,
    /// The rule can be followed range by range of the parameters, with norms and inner products of whole updates.
    Ranges,
    /// All updates of a round can be read side by side.
    EachUpdate,
    /// Every pair of updates can be compared.
    Distances,
    /// Most values of a decoded update are not zero.
    DenseValues,
    /// An update is all that its training changed; nothing of it comes later.
    WholeUpdate,
    /// An update is a gradient: one step of plain SGD over all examples.
    Gradient,
    /// Clients train with SGD.
    ClientSgd,
    /// Steps of clients have no momentum.
    PlainSteps,
    /// It is known how many plain steps an update is worth.
    StepCount,
    /// The coordinator adds the step to the model as it is.
    AddedStep,
    /// The coordinator's learning rate is the same for all versions.
    ConstantRate,
    /// A parameter of the model stays among the values that its clients trained.
    MeanStep,
    /// Every shared parameter is trained by its gradient.
    TrainedValues,
    /// Clients and versions differ by their loss alone, so losses can be compared.
    ComparableLoss,
    /// No client trains parameters for itself.
    NothingPersonal,
    /// Each client trains some parameters for itself.
    PersonalParameters,
    /// Each parameter means something by itself.
    SeparateParameters,
    /// Clients start from the model of a version to the last bit.
    ExactModel,
    /// Updates are sent to the last bit.
    ExactUpdates,
    /// An update carries the model's delta alone.
    DeltaAlone,
    /// What single clients report of their work is known: examples, losses, norms, metrics.
    Figures,
}

impl Need {
    /// What to change in a job file whose settings contradict each other in this.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Cohorts => {
                "leave out updates_goal, updates_min, over_selection, available_min, selection and adapt's \
                 updates_goal_min, or set mode = { kind = \"synchronous\" } without [coded]"
            }
            Self::Wait => "leave out selection_timeout_ms",
            Self::CohortSize => "leave out adapt, or choose another selection",
            Self::Redraw => "leave out adapt, or choose another mode",
            Self::FullTimes => "leave out partial_work or adapt",
            Self::RoundEnds => "set separation_rounds = 0",
            Self::NewestBase => "set mode = { kind = \"synchronous\" }",
            Self::OneRound => {
                "set a number as the clip, in [secure_aggregation] or where there is one in [privacy], or set mode = \
                 { kind = \"synchronous\" }"
            }
            Self::OneTraining => "set fetch_every = 1 and push_every = 1, or algorithm = { kind = \"plain\" }",
            Self::EqualSteps => {
                "set steps in [training] and its work_schedule, and leave out partial_work and personal_epochs"
            }
            Self::KnownAge | Self::FullCount => "set staleness_weight = { kind = \"constant\" }",
            Self::Weights => {
                "set staleness_weight = { kind = \"constant\" }, or combine = \"weighted_mean\" or \"uniform_mean\""
            }
            Self::FreeDivisor => "set divisor = \"weights\", or staleness_weight = { kind = \"constant\" }",
            Self::MovingDivisor => "set divisor = \"count\"",
            Self::OneOfEach => "set mode = { kind = \"buffered\", .. } or { kind = \"synchronous\" }",
            Self::EqualWeights => "set combine = \"uniform_mean\"",
            Self::SumsOfGroups => {
                "set combine = \"uniform_mean\", or \"median\", \"trimmed_mean\" or \"norm_clipping\" with one norm, \
                 which read sums of groups"
            }
            Self::SumAlone => {
                "leave out [group] or [coded], or what reads single updates: set combine = \"weighted_mean\" or \"uniform_mean\""
            }
            Self::Ranges => {
                "leave out shards, or what compares whole updates: set combine = \"weighted_mean\", \"uniform_mean\" or \
                 \"norm_clipping\""
            }
            Self::ExampleMean => "set combine = \"weighted_mean\"",
            Self::EachUpdate | Self::Distances => "choose a combine that adds updates up, such as \"weighted_mean\"",
            Self::DenseValues => "choose a codec that sends every value, such as \"int8\", or a combine that is a mean",
            Self::WholeUpdate => "choose a codec without error feedback, such as \"int8\"",
            Self::Gradient => {
                "updates must be gradients: set steps = 1, no work_schedule, no batch_size, no partial_work, sgd \
                 without momentum and weight_decay, and no algorithm"
            }
            Self::ClientSgd => "set optimizer = { kind = \"sgd\", .. } in [training]",
            Self::PlainSteps => "set momentum = 0 in [training] optimizer",
            Self::StepCount => "set nesterov = false",
            Self::AddedStep => "leave out [aggregation.optimizer], which adds the step as it is",
            Self::ConstantRate => "leave out [aggregation] schedule",
            Self::MeanStep | Self::TrainedValues => "use layer_norm, which has no running values",
            Self::ComparableLoss => "leave out dropout layers and personal parameters",
            Self::NothingPersonal => "leave out personal",
            Self::PersonalParameters => "leave out personal_epochs, or name parameters in [model] personal",
            Self::SeparateParameters => "use linear layers",
            Self::ExactModel => "set codec = \"f32\" and no delta in [download]",
            Self::ExactUpdates => "set codec = \"f32\" in [update], or code = \"fractional\" without a tree in [coded]",
            Self::DeltaAlone => "set algorithm = { kind = \"plain\" } or \"fed_prox\"",
            Self::Figures => {
                "draw cohorts with selection = { kind = \"uniform\" }, evaluate with where = \"coordinator\", and leave \
                 out what follows losses or norms"
            }
        }
    }
}
