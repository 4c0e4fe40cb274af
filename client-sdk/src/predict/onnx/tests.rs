//! The file's nodes, decoded by a reader of the wire format that is written here from its documentation.

use std::collections::BTreeMap;

use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, ModelSpec, Padding};
use tributary_protocol::seed::Seed;

use super::*;

/// The fields of a message in order: numbers, or bytes.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let byte = *bytes.split_off_first().unwrap();
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(bytes.split_off(..length).unwrap().to_vec())
            }
            5 => Field::Bytes(bytes.split_off(..4).unwrap().to_vec()),
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

/// All messages or texts with this number.
fn all(message: &[u8], number: u64) -> Vec<Vec<u8>> {
    let of = |(field, value)| match value {
        Field::Bytes(bytes) if field == number => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(of).collect()
}

fn texts(message: &[u8], number: u64) -> Vec<String> {
    all(message, number).into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
}

fn numbers(message: &[u8], number: u64) -> Vec<u64> {
    let of = |(field, value)| match value {
        Field::Number(value) if field == number => Some(value),
        _ => None,
    };
    fields(message).into_iter().filter_map(of).collect()
}

fn graph_of(network: &LayeredModel, settings: &OnnxSettings) -> (Vec<u8>, Vec<u8>) {
    let model = ModelSpec::Layers(network.clone()).initial_model(Seed(1)).unwrap();
    let file = write(network, &model, settings).unwrap();
    (all(&file, 7).concat(), file)
}

/// `kind(inputs) -> outputs` of each node.
fn nodes(graph: &[u8]) -> Vec<String> {
    let nodes = all(graph, 1).into_iter();
    let line = |node: Vec<u8>| {
        format!("{}({}) -> {}", texts(&node, 4)[0], texts(&node, 1).join(", "), texts(&node, 2).join(", "))
    };
    nodes.map(line).collect()
}

/// Names of an initializer, its dimensions and its bytes.
fn initializers(graph: &[u8]) -> BTreeMap<String, (Vec<u64>, Vec<u8>)> {
    let tensors = all(graph, 5).into_iter();
    tensors.map(|tensor| (texts(&tensor, 8)[0].clone(), (numbers(&tensor, 1), all(&tensor, 9).concat()))).collect()
}

fn linear(out_features: usize) -> Layer {
    Layer::Linear { out_features, bias: true }
}

#[test]
fn a_perceptron_is_a_node_for_each_layer_but_dropout() {
    let layers = vec![linear(3), Layer::Relu {}, Layer::Dropout { probability: 0.5 }, linear(2)];
    let network = LayeredModel { input: vec![4], layers };
    let settings = OnnxSettings {
        prologue: Some(Prologue { mean: vec![1.0; 4], deviation: vec![2.0; 4] }),
        classes: vec!["a \"b\"".to_owned(), "ü".to_owned()],
        metadata: vec![("job".to_owned(), "demo".to_owned())],
        ..OnnxSettings::default()
    };
    let (graph, file) = graph_of(&network, &settings);
    let expected = [
        "Sub(input, inputs.mean) -> value.0",
        "Div(value.0, inputs.deviation) -> value.1",
        "Gemm(value.1, layers.0.weight, layers.0.bias) -> value.2",
        "Relu(value.2) -> value.3",
        "Gemm(value.3, layers.3.weight, layers.3.bias) -> value.4",
        "Identity(value.4) -> output",
    ];
    assert_eq!(nodes(&graph), expected);
    let model = ModelSpec::Layers(network.clone()).initial_model(Seed(1)).unwrap();
    let tensors = initializers(&graph);
    for (index, spec) in model.parameters().specs().iter().enumerate() {
        let (shape, bytes) = &tensors[&spec.name];
        assert_eq!(*shape, spec.shape.iter().map(|length| *length as u64).collect::<Vec<_>>());
        let values: Vec<u8> = model.tensor(index).iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(*bytes, values);
    }
    assert_eq!(tensors["inputs.deviation"], (vec![4], [2.0f32.to_le_bytes(); 4].concat()));
    let pairs: Vec<(String, String)> =
        all(&file, 14).iter().map(|pair| (texts(pair, 1)[0].clone(), texts(pair, 2)[0].clone())).collect();
    let classes = ("classes".to_owned(), r#"["a \"b\"","ü"]"#.to_owned());
    assert_eq!(pairs, [("job".to_owned(), "demo".to_owned()), classes]);
    assert_eq!((numbers(&file, 1), numbers(&all(&file, 8)[0], 2)), (vec![8], vec![17]));
}

#[test]
fn the_batch_is_symbolic_and_tokens_are_integers() {
    let layers = vec![Layer::Embedding { tokens: 9, size: 4 }, Layer::Lstm { hidden_size: 3, return_sequences: false }];
    let (graph, _) = graph_of(&LayeredModel { input: vec![5], layers }, &OnnxSettings::default());
    let dimensions = |value: &[u8]| {
        let tensor = all(&all(value, 2)[0], 1).concat();
        let shape = all(&all(&tensor, 2)[0], 1);
        (
            numbers(&tensor, 1),
            texts(&shape[0], 2),
            shape[1..].iter().flat_map(|one| numbers(one, 1)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(dimensions(&all(&graph, 11)[0]), (vec![7], vec!["batch".to_owned()], vec![5]));
    assert_eq!(dimensions(&all(&graph, 12)[0]), (vec![1], vec!["batch".to_owned()], vec![3]));
    let kinds: Vec<String> = nodes(&graph).iter().map(|node| node.split('(').next().unwrap().to_owned()).collect();
    let gathered = ["Gather"; 5].into_iter();
    let rest = ["Concat", "Unsqueeze", "Unsqueeze", "Unsqueeze", "Transpose", "LSTM", "Squeeze", "Identity"];
    assert_eq!(kinds, gathered.chain(rest).collect::<Vec<_>>());
    let (_, gates) = &initializers(&graph)["layers.1.gates"];
    let gates: Vec<u8> = gates.chunks_exact(8).map(|number| number[0]).collect();
    assert_eq!(gates, [0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn attributes_have_their_type_and_zeros_their_sides() {
    let kernel_size = HeightWidth { height: 4, width: 3 };
    let stride = HeightWidth::square(1);
    let conv = Layer::Conv2d { out_channels: 2, kernel_size, stride, padding: Padding::Same, bias: false };
    let network = LayeredModel { input: vec![1, 6, 6], layers: vec![conv, Layer::LayerNorm { epsilon: 0.25 }] };
    let (graph, _) = graph_of(&network, &OnnxSettings::default());
    let nodes = all(&graph, 1);
    let pads = all(&nodes[0], 5).into_iter().find(|attribute| texts(attribute, 1)[0] == "pads").unwrap();
    assert_eq!((numbers(&pads, 8), numbers(&pads, 20)), (vec![1, 1, 2, 1], vec![7]));
    let norm = all(&nodes[1], 5);
    assert_eq!(numbers(&norm[0], 3), [u64::MAX], "the axis -1");
    assert_eq!((all(&norm[1], 2)[0].as_slice(), numbers(&norm[1], 20)), (&0.25f32.to_le_bytes()[..], vec![1]));
}

#[test]
fn what_does_not_fit_is_refused() {
    let network = LayeredModel { input: vec![4], layers: vec![linear(3)] };
    let spec = ModelSpec::Layers(network.clone());
    let model = spec.initial_model(Seed(1)).unwrap();
    let settings = |mean: usize, deviation: usize| OnnxSettings {
        prologue: Some(Prologue { mean: vec![0.0; mean], deviation: vec![1.0; deviation] }),
        ..OnnxSettings::default()
    };
    assert!(write(&network, &model, &settings(4, 4)).is_ok());
    let error = write(&network, &model, &settings(4, 3)).unwrap_err();
    assert_eq!(error, OnnxError::Prologue { mean: 4, deviation: 3, expected: 4 });
    let tokens = LayeredModel { input: vec![4], layers: vec![Layer::Embedding { tokens: 3, size: 1 }] };
    assert!(matches!(write(&tokens, &model, &settings(4, 4)), Err(OnnxError::Network(_))));
    let embedding = ModelSpec::Layers(tokens.clone()).initial_model(Seed(1)).unwrap();
    let error = write(&tokens, &embedding, &settings(4, 4)).unwrap_err();
    assert_eq!(error, OnnxError::Prologue { mean: 4, deviation: 4, expected: 0 });
}
