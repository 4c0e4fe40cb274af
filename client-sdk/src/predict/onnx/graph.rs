//! A graph of ONNX in the making: nodes in order, each with the value that it makes.

use super::wire::Message;

/// `TensorProto.DataType`.
pub(super) const FLOAT: i64 = 1;
pub(super) const INT64: i64 = 7;

/// An attribute of a node, with its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attribute<'a> {
    Float(&'a str, f64),
    Integer(&'a str, usize),
    Integers(&'a str, &'a [usize]),
    /// The last dimension.
    LastAxis,
}

/// The nodes and constants so far.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// `GraphProto`, as far as it is written.
    pub(super) message: Message,
    /// Nodes so far: their numbers name values.
    nodes: usize,
    /// The layer that nodes belong to, in their names.
    pub(super) layer: String,
}

impl Graph {
    /// Adds a node. Returns the name of its output.
    pub(super) fn node(&mut self, kind: &str, inputs: &[&str], attributes: &[Attribute<'_>]) -> String {
        self.node_with_output(kind, inputs, attributes, 0)
    }

    /// Adds a node whose output `place` is read; those before it have no name. Returns the name of that one.
    pub(super) fn node_with_output(
        &mut self,
        kind: &str,
        inputs: &[&str],
        attributes: &[Attribute<'_>],
        place: usize,
    ) -> String {
        let output = format!("value.{}", self.nodes);
        let outputs: Vec<&str> = std::iter::repeat_n("", place).chain([output.as_str()]).collect();
        self.named(kind, inputs, &outputs, attributes);
        output
    }

    /// Adds a node with these names of outputs.
    pub(super) fn named(&mut self, kind: &str, inputs: &[&str], outputs: &[&str], attributes: &[Attribute<'_>]) {
        let name = format!("{}.{}.{kind}", self.layer, self.nodes);
        self.nodes += 1;
        self.message.message(1, |node| {
            inputs.iter().for_each(|input| node.text(1, input));
            outputs.iter().for_each(|output| node.text(2, output));
            node.text(3, &name);
            node.text(4, kind);
            attributes.iter().for_each(|attribute| attribute.write(node));
        });
    }

    /// A constant of 32-bit values. An initializer has the name of its parameter.
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: impl Iterator<Item = f32>) -> String {
        self.tensor(name, FLOAT, shape, values.flat_map(f32::to_le_bytes))
    }

    /// A vector of whole numbers.
    pub(super) fn integers(&mut self, name: &str, values: impl ExactSizeIterator<Item = usize>) -> String {
        let shape = [values.len()];
        self.tensor(name, INT64, &shape, values.flat_map(|value| (value as i64).to_le_bytes()))
    }

    fn tensor(&mut self, name: &str, kind: i64, shape: &[usize], bytes: impl Iterator<Item = u8>) -> String {
        self.message.message(5, |tensor| {
            shape.iter().for_each(|length| tensor.integer(1, *length as i64));
            tensor.integer(2, kind);
            tensor.text(8, name);
            tensor.bytes(9, bytes);
        });
        name.to_owned()
    }

    /// An input (11) or output (12) of the graph: a batch of examples of this shape.
    pub(super) fn value(&mut self, field: u32, name: &str, kind: i64, shape: &[usize]) {
        self.message.message(field, |value| {
            value.text(1, name);
            value.message(2, |of_type| {
                of_type.message(1, |tensor| {
                    tensor.integer(1, kind);
                    tensor.message(2, |dimensions| {
                        dimensions.message(1, |batch| batch.text(2, "batch"));
                        for length in shape {
                            dimensions.message(1, |dimension| dimension.integer(1, *length as i64));
                        }
                    });
                });
            });
        });
    }
}

impl Attribute<'_> {
    /// `AttributeProto`: name 1, f 2, i 3, ints 8, type 20.
    fn write(self, node: &mut Message) {
        node.message(5, |attribute| match self {
            Self::Float(name, value) => {
                attribute.text(1, name);
                attribute.float(2, value as f32);
                attribute.integer(20, 1);
            }
            Self::Integer(name, value) => {
                attribute.text(1, name);
                attribute.integer(3, value as i64);
                attribute.integer(20, 2);
            }
            Self::LastAxis => {
                attribute.text(1, "axis");
                attribute.integer(3, -1);
                attribute.integer(20, 2);
            }
            Self::Integers(name, values) => {
                attribute.text(1, name);
                values.iter().for_each(|value| attribute.integer(8, *value as i64));
                attribute.integer(20, 7);
            }
        });
    }
}
