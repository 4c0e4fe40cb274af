//! Gossip: members mix their models with those of their neighbours (D-PSGD: Lian et al. 2017), and the sum of all models
//! stays the same to the last bit.
//!
//! A model is integers in fixed point. Over each edge flows a share of the difference of both models, rounded to an
//! integer: `f_ij = round(W_ij (x_j - x_i))`. What one end gains the other one loses, since both compute the flow from the
//! values that were sent, and rounding is odd.
//!
//! | file | content |
//! |---|---|
//! | [`codec`] | how values travel |
//! | [`edge`] | one neighbour: its link, and the flow from it |

mod codec;
mod edge;

use std::sync::{Mutex, PoisonError};

use futures_util::future::{join_all, try_join_all};
use tokio::io::{AsyncRead, AsyncWrite};

pub use codec::MixCodec;
use edge::Edge;

use crate::average::scale;
use crate::error::RingError;
use crate::place::RingPlace;
use crate::timer::Timer;

/// A member with the links to its neighbours.
#[derive(Debug)]
pub struct Mixer<L> {
    place: RingPlace,
    binary_point: u32,
    codec: MixCodec,
    edges: Vec<Edge<L>>,
    /// Mixes that are complete.
    mixes: u32,
}

/// A mix on its way.
struct Mix<'a> {
    place: &'a RingPlace,
    codec: MixCodec,
    /// Number of the mix, from 0.
    number: u32,
    /// What an integer counts: 2^binary_point to a unit.
    scale: f64,
    /// The member's values as its neighbours read them.
    values: Vec<f32>,
    /// Bodies of the frames, and how many values each has.
    frames: Vec<Vec<u8>>,
    frame_values: usize,
    /// What has flowed to the member.
    flow: Mutex<Vec<i64>>,
}

impl<L: AsyncRead + AsyncWrite + Send> Mixer<L> {
    /// A member at this place, whose integers have so many binary places, with its neighbours: the rank of each, the
    /// share of the difference that flows (the same at both ends), and the link.
    pub fn new(
        place: RingPlace,
        (binary_point, codec): (u32, MixCodec),
        neighbours: impl IntoIterator<Item = (u16, f64, L)>,
    ) -> Self {
        let edge = |(rank, weight, link)| Edge::new(&place, rank, weight, link);
        Self { place, binary_point, codec, edges: neighbours.into_iter().map(edge).collect(), mixes: 0 }
    }

    /// Bytes that were sent to all neighbours, and received from them.
    pub fn traffic(&self) -> (u64, u64) {
        let sent = self.edges.iter().map(Edge::sent).sum();
        (sent, self.edges.iter().map(Edge::received).sum())
    }

    /// Mixes once. All neighbours mix as often. The model is unchanged if this fails.
    ///
    /// # Errors
    /// [`RingError`]. The neighbours were told, and the links are of no use then.
    pub async fn mix(&mut self, model: &mut [i64], timer: &impl Timer) -> Result<(), RingError> {
        self.place.check()?;
        let Self { place, binary_point, codec, edges, mixes } = self;
        let mix = Mix::begin(place, (*binary_point, *codec), *mixes, model)?;
        if let Err(error) = try_join_all(edges.iter_mut().map(|edge| edge.mix(&mix, timer))).await {
            tokio::select! {
                biased;
                _ = join_all(edges.iter_mut().map(|edge| edge.give_up(place, &error))) => {}
                () = timer.sleep(place.alive_ms()) => {}
            }
            return Err(error);
        }
        *mixes += 1;
        let flow = mix.flow.into_inner().unwrap_or_else(PoisonError::into_inner);
        model.iter_mut().zip(flow).for_each(|(own, flow)| *own += flow);
        Ok(())
    }
}

impl<'a> Mix<'a> {
    fn begin(
        place: &'a RingPlace,
        (binary_point, codec): (u32, MixCodec),
        number: u32,
        model: &[i64],
    ) -> Result<Self, RingError> {
        if let Some(at) = model.iter().position(|own| own.unsigned_abs() > place.magnitude_max) {
            return Err(RingError::Own { place: at, got: model[at], magnitude_max: place.magnitude_max });
        }
        let scale = scale(binary_point);
        let mut values: Vec<f32> = model.iter().map(|own| (*own as f64 / scale) as f32).collect();
        let frame_values = codec.values_of(place.frame_bytes);
        let written = |values: &mut [f32]| {
            let mut body = Vec::new();
            codec.write(values, &mut body);
            body
        };
        let frames = values.chunks_mut(frame_values).map(written).collect();
        let flow = Mutex::new(vec![0; values.len()]);
        Ok(Self { place, codec, number, scale, values, frames, frame_values, flow })
    }
}
