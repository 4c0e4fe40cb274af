//! Where a training of the app was suspended.

use tributary_client::trainer;

/// Where a training was suspended.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct Checkpoint {
    /// Number of steps that were taken.
    pub steps: u64,
    /// Sum of their losses.
    pub losses: f64,
    /// What the trainer needs besides, in a format of its own: weights, what the optimiser keeps.
    pub bytes: Vec<u8>,
}

impl From<Checkpoint> for trainer::Checkpoint {
    fn from(Checkpoint { steps, losses, bytes }: Checkpoint) -> Self {
        Self::new(steps, losses).with_bytes(bytes)
    }
}

impl Checkpoint {
    /// A checkpoint of an app's trainer. Others have no bytes.
    pub(crate) fn own(checkpoint: &trainer::Checkpoint) -> Option<Self> {
        let trainer::Checkpoint { steps, losses, ref bytes, .. } = *checkpoint;
        (!bytes.is_empty()).then(|| Self { steps, losses, bytes: bytes.clone() })
    }
}
