//! Functions of each value.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Relu,
    Gelu,
    Tanh,
    Sigmoid,
}

impl Function {
    pub(crate) fn forward(self, x: &[f32], y: &mut [f32]) {
        let values = y.iter_mut().zip(x);
        match self {
            // A NaN stays a NaN: a divergence must not be hidden.
            Self::Relu => values.for_each(|(y, x)| *y = if *x < 0.0 { 0.0 } else { *x }),
            Self::Gelu => values.for_each(|(y, x)| *y = x * normal_distribution(*x)),
            Self::Tanh => values.for_each(|(y, x)| *y = x.tanh()),
            Self::Sigmoid => values.for_each(|(y, x)| *y = sigmoid(*x)),
        }
    }

    /// `dx = f'(x) dy`.
    pub(crate) fn backward(self, x: &[f32], y: &[f32], dy: &[f32], dx: &mut [f32]) {
        let values = dx.iter_mut().zip(dy).zip(x.iter().zip(y));
        match self {
            Self::Relu => values.for_each(|((dx, dy), (_, y))| *dx = if *y > 0.0 { *dy } else { 0.0 }),
            Self::Gelu => values.for_each(|((dx, dy), (x, _))| *dx = dy * gelu_slope(*x)),
            Self::Tanh => values.for_each(|((dx, dy), (_, y))| *dx = dy * (1.0 - y * y)),
            Self::Sigmoid => values.for_each(|((dx, dy), (_, y))| *dx = dy * y * (1.0 - y)),
        }
    }
}

pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `Phi(x) + x phi(x)`.
fn gelu_slope(x: f32) -> f32 {
    let density = (-0.5 * f64::from(x) * f64::from(x)).exp() / std::f64::consts::TAU.sqrt();
    normal_distribution(x) + x * density as f32
}

/// The normal distribution function, with an error below 1e-7: Abramowitz and Stegun (1964), formula 26.2.17.
fn normal_distribution(x: f32) -> f32 {
    const COEFFICIENTS: [f64; 5] = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let x = f64::from(x);
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let polynomial = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = polynomial * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    (if x < 0.0 { tail } else { 1.0 - tail }) as f32
}
