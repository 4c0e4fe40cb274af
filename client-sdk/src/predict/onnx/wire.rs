//! Protocol Buffers' wire format, as far as ONNX needs it
//! (<https://protobuf.dev/programming-guides/encoding/>). Numbers of fields are those of `onnx.proto`.

/// How a field's value follows its number.
const VARINT: u32 = 0;
const LENGTH: u32 = 2;
const FOUR_BYTES: u32 = 5;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn integer(&mut self, field: u32, value: i64) {
        self.tag(field, VARINT);
        self.bytes.extend(varint(value as u64));
    }

    pub(super) fn float(&mut self, field: u32, value: f32) {
        self.tag(field, FOUR_BYTES);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.tag(field, LENGTH);
        self.bytes.extend(varint(text.len() as u64));
        self.bytes.extend(text.as_bytes());
    }

    /// A message within this one, written in place: a tensor is not copied once per message around it.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.tag(field, LENGTH);
        let start = self.bytes.len();
        fill(self);
        let length = varint((self.bytes.len() - start) as u64);
        self.bytes.splice(start..start, length);
    }

    /// Bytes that are made in place.
    pub(super) fn bytes(&mut self, field: u32, bytes: impl Iterator<Item = u8>) {
        self.message(field, |message| message.bytes.extend(bytes));
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.bytes.extend(varint(u64::from(field << 3 | kind)));
    }
}

/// Seven bits per byte, the lowest first; all bytes but the last have the highest bit set.
fn varint(mut value: u64) -> impl Iterator<Item = u8> {
    let mut left = true;
    std::iter::from_fn(move || {
        if !left {
            return None;
        }
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        left = value > 0;
        Some(byte | u8::from(left) << 7)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut message = Message::default();
        message.integer(1, 150);
        message.integer(2, -1);
        message.float(3, 1.0);
        message.message(16, |inner| inner.text(1, "hi"));
        message.bytes(4, [7; 200].into_iter());
        // 150 and the message are the examples of the format's documentation.
        let mut expected = vec![0x08, 0x96, 0x01, 0x10];
        expected.extend([[0xff; 9].as_slice(), &[0x01, 0x1d, 0, 0, 0x80, 0x3f, 0x82, 0x01, 4, 0x0a, 2]].concat());
        expected.extend(b"hi");
        expected.extend([[0x22, 0xc8, 0x01].as_slice(), &[7; 200]].concat());
        assert_eq!(message.into_bytes(), expected);
    }
}
