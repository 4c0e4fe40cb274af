//! Layer norm (`torch.nn.LayerNorm`).

/// `weight (x - mean) / sqrt(variance + epsilon) + bias` over each row, which is as long as the weight.
pub(crate) fn layer_norm(x: &[f32], y: &mut [f32], [weight, bias]: [&[f32]; 2], epsilon: f64) {
    for (x, y) in x.chunks_exact(weight.len()).zip(y.chunks_exact_mut(weight.len())) {
        let [mean, scale] = statistics(x, epsilon);
        for (place, (x, y)) in x.iter().zip(y).enumerate() {
            *y = ((f64::from(*x) - mean) * scale) as f32 * weight[place] + bias[place];
        }
    }
}

/// Mean, and 1 / standard deviation.
pub(crate) fn statistics(row: &[f32], epsilon: f64) -> [f64; 2] {
    let count = row.len() as f64;
    let mean = row.iter().copied().map(f64::from).sum::<f64>() / count;
    let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
    [mean, 1.0 / (variance + epsilon).sqrt()]
}
