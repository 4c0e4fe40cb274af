//! What a codec guarantees about size and error.

/// Guarantees of a codec with its settings, for any delta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Properties {
    /// Whether the expectation of the decoded delta is the encoded one.
    pub unbiased: bool,
    /// Whether the codec needs error feedback: clients keep the residual and add it to their next delta.
    pub error_feedback: bool,
    /// Most bits per value of a large parameter, without the file's header and before zstd.
    pub bits_per_value_max: f64,
    /// Upper bound of the expectation of `|decoded - delta|^2 / |delta|^2`. `None` where the error depends on the
    /// delta. It holds for magnitudes of at least 1e-35: smaller ones are close to f32's denormal numbers, which have
    /// fewer bits.
    pub relative_error_max: Option<f64>,
}
