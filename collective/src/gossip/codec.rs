//! How a model travels over an edge. Both ends read the same values from the same bytes, so both compute the same flow.

use tributary_protocol::plan::MixCodec;

/// Values with one scale.
const BLOCK: usize = 64;
const SCALE_BYTES: usize = 4;
/// The largest magnitude of a rounded value.
const LEVELS: f32 = 127.0;

/// Values of a frame with a body of so many bytes: whole blocks.
pub(super) fn values_of(codec: MixCodec, frame_bytes: u32) -> usize {
    let block_bytes = match codec {
        MixCodec::F32 => BLOCK * 4,
        MixCodec::Int8 => BLOCK + SCALE_BYTES,
    };
    (frame_bytes as usize / block_bytes).max(1) * BLOCK
}

/// Writes values, and replaces them by what is read from the bytes.
pub(super) fn write(codec: MixCodec, values: &mut [f32], bytes: &mut Vec<u8>) {
    match codec {
        MixCodec::F32 => values.iter().for_each(|value| bytes.extend(value.to_le_bytes())),
        MixCodec::Int8 => {
            for block in values.chunks_mut(BLOCK) {
                let largest = block.iter().fold(0f32, |largest, value| largest.max(value.abs()));
                let scale = largest / LEVELS;
                bytes.extend(scale.to_le_bytes());
                for value in block {
                    let level = if scale > 0.0 { (*value / scale).round().clamp(-LEVELS, LEVELS) } else { 0.0 };
                    bytes.push((level as i8).cast_unsigned());
                    *value = level * scale;
                }
            }
        }
    }
}

/// Reads as many values; none if these are not their bytes.
pub(super) fn read(codec: MixCodec, bytes: &[u8], values: &mut [f32]) -> Option<()> {
    match codec {
        MixCodec::F32 => {
            let (words, []) = bytes.as_chunks::<4>() else { return None };
            let is_whole = words.len() == values.len();
            values.iter_mut().zip(words).for_each(|(value, word)| *value = f32::from_le_bytes(*word));
            is_whole.then_some(())
        }
        MixCodec::Int8 => {
            let blocks = values.len().div_ceil(BLOCK);
            if bytes.len() != values.len() + blocks * SCALE_BYTES {
                return None;
            }
            for (block, bytes) in values.chunks_mut(BLOCK).zip(bytes.chunks(BLOCK + SCALE_BYTES)) {
                let (scale, levels) = bytes.split_first_chunk()?;
                let scale = f32::from_le_bytes(*scale);
                block.iter_mut().zip(levels).for_each(|(v, level)| *v = f32::from(level.cast_signed()) * scale);
            }
            Some(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_the_writer_keeps() {
        for codec in [MixCodec::F32, MixCodec::Int8] {
            for count in [0, 1, 64, 65, 1000] {
                let mut values: Vec<f32> = (0..count).map(|at| ((at * 37) % 101) as f32 * 0.01 - 0.3).collect();
                let (own, mut bytes) = (values.clone(), Vec::new());
                write(codec, &mut values, &mut bytes);
                let mut came = vec![7.0; count];
                read(codec, &bytes, &mut came).unwrap();
                assert_eq!(came, values);
                let near = own.iter().zip(&came).all(|(own, came)| (own - came).abs() <= 0.71 / 127.0 / 2.0 + 1e-6);
                assert!(near, "{codec:?}");
                assert!(read(codec, &bytes, &mut vec![0.0; count + 1]).is_none());
            }
        }
    }

    #[test]
    fn a_frame_has_whole_blocks() {
        assert_eq!((values_of(MixCodec::F32, 2050), values_of(MixCodec::Int8, 2050)), (512, 1920));
        assert_eq!(values_of(MixCodec::F32, 1), 64);
    }
}
