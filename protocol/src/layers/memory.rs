//! What a network holds in memory for one example.

use super::{Layer, LayeredModel, ModelSpecError, Padding};

impl LayeredModel {
    /// Number of values that one example takes in memory while the network is computed: the input, the output of each
    /// layer, and the inputs of convolutions with their border.
    ///
    /// # Errors
    /// [`ModelSpecError`] for the first layer that is invalid.
    pub fn values(&self) -> Result<usize, ModelSpecError> {
        let outputs = self.shapes()?;
        let inputs = std::iter::once(&self.input).chain(&outputs);
        let bordered = self.layers.iter().zip(inputs).map(|(layer, input)| layer.bordered(input));
        let own = std::iter::once(&self.input).chain(&outputs).map(|shape| product(shape));
        Ok(own.chain(bordered).fold(0, usize::saturating_add))
    }
}

impl Layer {
    /// Values of an input of this shape with its border; 0 for a layer that adds none.
    fn bordered(&self, input: &[usize]) -> usize {
        let (Self::Conv2d { kernel_size, padding, .. }, [channels, height, width]) = (self, input) else { return 0 };
        let added = match padding {
            Padding::Valid => [0, 0],
            Padding::Same => [kernel_size.height - 1, kernel_size.width - 1],
            Padding::Zeros(zeros) => [zeros.height.saturating_mul(2), zeros.width.saturating_mul(2)],
        };
        product(&[*channels, height.saturating_add(added[0]), width.saturating_add(added[1])])
    }
}

fn product(lengths: &[usize]) -> usize {
    lengths.iter().fold(1, |product, length| product.saturating_mul(*length))
}

#[cfg(test)]
mod tests {
    use super::super::ModelSpec;

    fn values(text: &str) -> usize {
        let ModelSpec::Layers(model) = serde_json::from_str(text).unwrap() else { panic!("a list of layers") };
        model.values().unwrap()
    }

    #[test]
    fn inputs_outputs_and_borders_are_counted_and_no_border_overflows() {
        let linear = r#"{"input": [4], "layers": [{"kind": "linear", "out_features": 3}, {"kind": "relu"}]}"#;
        assert_eq!(values(linear), 4 + 3 + 3);
        let convolution = |padding: &str, stride: u32| {
            let of = r#""kind": "conv2d", "out_channels": 2, "kernel_size": [3, 1]"#;
            values(&format!(
                r#"{{"input": [1, 4, 5], "layers": [{{{of}, "stride": {stride}, "padding": {padding}}}]}}"#
            ))
        };
        assert_eq!(convolution("\"valid\"", 1), 20 + 2 * 2 * 5 + 20);
        assert_eq!(convolution("\"same\"", 1), 20 + 2 * 4 * 5 + 6 * 5);
        assert_eq!(convolution("1", 1), 20 + 2 * 4 * 7 + 6 * 7);
        // On 32-bit processors the count ends at the largest number.
        let wide = usize::try_from(1_u64 << 40).unwrap_or(usize::MAX);
        assert!(convolution("4000000", 4_000_000) >= wide, "a wide border with few outputs");
    }
}
