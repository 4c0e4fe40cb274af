//! One mix of a member: what it sends, and what flows to it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;
use tributary_protocol::plan::MixCodec;

use super::codec::{values_of, write};
use crate::average::scale;
use crate::error::RingError;
use crate::place::RingPlace;

/// A mix on its way.
pub(super) struct Mix<'a> {
    pub(super) place: &'a RingPlace,
    pub(super) codec: MixCodec,
    /// Number of the mix, from 0.
    pub(super) number: u32,
    /// What an integer counts: 2^binary_point to a unit.
    pub(super) scale: f64,
    /// The member's values as its neighbours read them.
    pub(super) values: Vec<f32>,
    /// Bodies of the frames, and how many values each has.
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) frame_values: usize,
    /// What has flowed to the member.
    pub(super) flow: Mutex<Vec<i64>>,
    /// Neighbours whose models are still to come.
    awaited: AtomicUsize,
    has_all: Notify,
}

impl<'a> Mix<'a> {
    pub(super) fn begin(
        place: &'a RingPlace,
        (binary_point, codec): (u32, MixCodec),
        (number, neighbours): (u32, usize),
        model: &[i64],
    ) -> Result<Self, RingError> {
        if let Some(at) = model.iter().position(|own| own.unsigned_abs() > place.magnitude_max) {
            return Err(RingError::Own { place: at, got: model[at], magnitude_max: place.magnitude_max });
        }
        let scale = scale(binary_point);
        let mut values: Vec<f32> = model.iter().map(|own| (*own as f64 / scale) as f32).collect();
        let frame_values = values_of(codec, place.frame_bytes);
        let written = |values: &mut [f32]| {
            let mut body = Vec::new();
            write(codec, values, &mut body);
            body
        };
        let frames = values.chunks_mut(frame_values).map(written).collect();
        let flow = Mutex::new(vec![0; values.len()]);
        let (awaited, has_all) = (AtomicUsize::new(neighbours), Notify::new());
        Ok(Self { place, codec, number, scale, values, frames, frame_values, flow, awaited, has_all })
    }

    /// The model of a neighbour is there.
    pub(super) fn has_one(&self) {
        self.awaited.fetch_sub(1, Relaxed);
        self.has_all.notify_waiters();
    }

    /// Ends when the models of all neighbours are there. One task polls all edges.
    pub(super) async fn has_all(&self) {
        while self.awaited.load(Relaxed) > 0 {
            self.has_all.notified().await;
        }
    }
}
