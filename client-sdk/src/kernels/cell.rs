//! What distinguishes recurrent layers from each other.

/// A time step of a batch.
pub(crate) struct Moment<'a> {
    /// `[example][gate][unit]`, as `products`: those of the input, `W x + b`, which become the gates after their
    /// functions.
    pub(crate) gates: &'a mut [f32],
    /// Those of the state: `U h + b'`.
    pub(crate) products: &'a mut [f32],
    /// State and cell before the step, `[example][unit]`.
    pub(crate) before: [&'a [f32]; 2],
    pub(crate) after: [&'a mut [f32]; 2],
}

/// The formulas of a recurrent layer.
pub(crate) trait Cell: Send + 'static {
    /// Gates of a unit.
    const GATES: usize;
    /// Whether both products are added before the gates' functions. Then they have one gradient.
    const ADDS: bool;
    /// Values that a unit carries from step to step beside its state.
    const CARRIES: usize;

    fn forward(&self, hidden: usize, moment: Moment<'_>);

    /// Turns gates into gradients by the products of the input, and products that were not added into their gradients.
    /// Leaves of the gradients by state and cell what reaches those before the step without the products.
    fn backward(&self, hidden: usize, moment: Moment<'_>, by_after: [&mut [f32]; 2]);
}
