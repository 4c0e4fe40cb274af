//! Companion tensors of a model version.

/// A vector that belongs to a model version, with one value per parameter. The next round starts from it as from the
/// model; it is stored in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Companion {
    /// The optimiser's decaying mean of steps.
    Momentum,
    /// The optimiser's mean or sum of squared steps.
    SecondMoment,
    /// The centre of centered clipping: the last combined step.
    Centre,
}

impl Companion {
    pub const ALL: [Self; 3] = [Self::Momentum, Self::SecondMoment, Self::Centre];

    /// The word that stands for it in names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Momentum => "momentum",
            Self::SecondMoment => "second_moment",
            Self::Centre => "centre",
        }
    }
}
