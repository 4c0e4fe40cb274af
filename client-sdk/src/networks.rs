//! Random networks for tests.

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, Padding};
use tributary_protocol::seed::Stream;

/// Tokens of the embeddings.
const TOKENS: usize = 5;

pub(crate) fn any_network(stream: &mut Stream) -> LayeredModel {
    let mut layers = Vec::new();
    let input = match stream.below(4) {
        0 => vec![up_to(stream, 40)],
        1 => vec![up_to(stream, 5), up_to(stream, 6)],
        2 => {
            layers.push(Layer::Embedding { tokens: TOKENS, size: up_to(stream, 6) });
            vec![up_to(stream, 5)]
        }
        _ => vec![up_to(stream, 3), 2 + up_to(stream, 8), 2 + up_to(stream, 8)],
    };
    for _ in 0..up_to(stream, 7) {
        layers.push(any_layer(stream));
        if (LayeredModel { input: input.clone(), layers: layers.clone() }).shapes().is_err() {
            layers.pop();
        }
    }
    if stream.below(2) == 0 {
        layers.push(Layer::Flatten {});
    }
    layers.push(Layer::Linear { out_features: 3, bias: true });
    LayeredModel { input, layers }
}

/// Values between -1 and 1, or token ids if the network reads them.
pub(crate) fn any_inputs(network: &LayeredModel, examples: usize, stream: &mut Stream) -> Vec<f32> {
    let count = examples * network.input.iter().product::<usize>();
    match network.layers[0] {
        Layer::Embedding { .. } => (0..count).map(|_| stream.below(TOKENS as u64) as f32).collect(),
        _ => (0..count).map(|_| stream.uniform(-1.0, 1.0)).collect(),
    }
}

/// From 1 to `most`.
pub(crate) fn up_to(stream: &mut Stream, most: u64) -> usize {
    1 + stream.below(most) as usize
}

fn pair(stream: &mut Stream, most: u64) -> HeightWidth {
    HeightWidth { height: up_to(stream, most), width: up_to(stream, most) }
}

fn any_layer(stream: &mut Stream) -> Layer {
    let padding = match stream.below(3) {
        0 => Padding::Same,
        1 => Padding::Valid,
        _ => Padding::Zeros(pair(stream, 4)),
    };
    let (kernel_size, stride) = (pair(stream, 4), pair(stream, 3));
    let (hidden_size, return_sequences) = (up_to(stream, 6), stream.below(2) == 0);
    match stream.below(18) {
        0 | 1 => Layer::Linear { out_features: up_to(stream, 40), bias: stream.below(3) > 0 },
        2 | 3 => {
            let stride = if padding == Padding::Same { HeightWidth::square(1) } else { stride };
            let out_channels = up_to(stream, 40);
            Layer::Conv2d { out_channels, kernel_size, stride, padding, bias: stream.below(3) > 0 }
        }
        4 | 5 => Layer::MaxPool2d { kernel_size, stride: (stream.below(2) == 0).then_some(stride) },
        6 => Layer::AvgPool2d { kernel_size, stride: (stream.below(2) == 0).then_some(stride) },
        7 | 8 => Layer::Relu {},
        9 => Layer::Gelu {},
        10 => Layer::Tanh {},
        11 => Layer::Sigmoid {},
        12 => Layer::Flatten {},
        13 => Layer::Dropout { probability: 0.25 },
        14 => Layer::LayerNorm { epsilon: 0.01 },
        15 => Layer::BatchNorm { epsilon: 0.01, momentum: 0.3 },
        16 => {
            let alpha = (stream.below(2) == 0).then_some(1.5);
            Layer::LowRank { out_features: up_to(stream, 40), rank: up_to(stream, 4), alpha, bias: stream.below(3) > 0 }
        }
        _ if stream.below(2) == 0 => Layer::Lstm { hidden_size, return_sequences },
        _ => Layer::Gru { hidden_size, return_sequences },
    }
}
