//! Orders of the values of an image.

/// `[rows][columns]` to `[columns][rows]`.
pub(crate) fn transpose(from: &[f32], to: &mut [f32], rows: usize, columns: usize) {
    for (row, from) in from.chunks_exact(columns).enumerate() {
        for (column, value) in from.iter().enumerate() {
            to[column * rows + row] = *value;
        }
    }
}
