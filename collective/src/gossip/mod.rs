//! Gossip: members mix their models with those of their neighbours (D-PSGD: Lian et al. 2017), and the sum of all
//! models stays the same to the last bit.
//!
//! A model is integers in fixed point. Over each edge flows a share of the difference of both models, rounded to an
//! integer: `f_ij = round(W_ij (x_j - x_i))`. What one end gains the other one loses, since both compute the flow from
//! the values that were sent, and rounding is odd.
//!
//! | file | content |
//! |---|---|
//! | [`codec`] | how values travel |
//! | [`mix`] | one mix: what the member sends, and what flows to it |
//! | [`edge`] | one neighbour: its link, and the flow from it |

mod codec;
mod edge;
mod mix;

use std::sync::PoisonError;

use futures_util::future::{join_all, try_join_all};
use tokio::io::{AsyncRead, AsyncWrite};
use tributary_protocol::plan::MixCodec;

use edge::Edge;
use mix::Mix;

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

    /// Tells all neighbours again and again that the member lives.
    pub async fn keep_alive(&mut self, timer: &impl Timer) {
        let Self { place, edges, .. } = self;
        join_all(edges.iter_mut().map(|edge| edge.keep_alive(place, timer))).await;
    }

    /// Mixes once. All neighbours mix as often. The model is unchanged if this fails.
    ///
    /// # Errors
    /// [`RingError`]. The neighbours were told, and the links are of no use then.
    pub async fn mix(&mut self, model: &mut [i64], timer: &impl Timer) -> Result<(), RingError> {
        self.place.check()?;
        let Self { place, binary_point, codec, edges, mixes } = self;
        let mix = Mix::begin(place, (*binary_point, *codec), (*mixes, edges.len()), model)?;
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
