//! Traffic of assignments and rounds as it is stored.

use tributary_protocol::traffic::Traffic;

/// The columns of [`Traffic`].
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub(super) struct TrafficRow {
    #[sqlx(try_from = "i64")]
    bytes_up: u64,
    #[sqlx(try_from = "i64")]
    bytes_down: u64,
    #[sqlx(try_from = "i64")]
    raw_bytes_up: u64,
    #[sqlx(try_from = "i64")]
    raw_bytes_down: u64,
}

impl From<TrafficRow> for Traffic {
    fn from(row: TrafficRow) -> Self {
        let TrafficRow { bytes_up, bytes_down, raw_bytes_up, raw_bytes_down } = row;
        Self { bytes_up, bytes_down, raw_bytes_up, raw_bytes_down }
    }
}
