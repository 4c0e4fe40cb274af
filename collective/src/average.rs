//! The mean of the members' models, exact in fixed point: whoever has it has the same bits.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::addend::Addend;
use crate::error::RingError;
use crate::link::Turns;
use crate::place::RingPlace;
use crate::reduced::RingTraffic;
use crate::ring::all_reduce_in_turn;
use crate::timer::Timer;

/// Above every magnitude that a ring allows, so that the ring refuses it.
const TOO_LARGE: i64 = i64::MAX;
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// How far a model has moved from one that all members have, as integers.
struct Moved<'a> {
    anchor: &'a [f32],
    values: &'a [f32],
    /// What an integer counts: 2^binary_point to a unit.
    scale: f64,
}

impl Addend for Moved<'_> {
    fn values(&self) -> u32 {
        u32::try_from(self.values.len()).expect("a model has at most 2^32 - 1 parameters")
    }

    fn integers(&self, first: usize, integers: &mut [i64]) {
        let values = self.values[first..].iter().zip(&self.anchor[first..]);
        for (integer, (value, anchor)) in integers.iter_mut().zip(values) {
            *integer = fixed(f64::from(value - anchor) * self.scale);
        }
    }
}

/// The integer of a value, or one that no ring takes.
pub(crate) fn fixed(value: f64) -> i64 {
    if value.abs() < TWO_POW_63 { tributary_protocol::fixed::quantise(value) } else { TOO_LARGE }
}

/// 2^binary_point.
pub(crate) fn scale(binary_point: u32) -> f64 {
    f64::from(2u32).powi(binary_point.cast_signed())
}

/// Takes the mean of all members' models. `anchor` is the same for all of them, such as the mean before: each adds how
/// far its `values` are from it, so a member that is far away costs the others no precision.
///
/// # Errors
/// As [`all_reduce_in_turn`]: [`RingError::Own`] when a value is too far from the anchor, or not finite.
pub async fn average<L, R>(
    place: &RingPlace,
    binary_point: u32,
    (anchor, values): (&[f32], &[f32]),
    (left, right): (&mut Turns<L>, &mut Turns<R>),
    timer: &impl Timer,
) -> Result<(Vec<f32>, RingTraffic), RingError>
where
    L: AsyncRead + AsyncWrite + Send + Unpin,
    R: AsyncRead + AsyncWrite + Send + Unpin,
{
    assert_eq!(anchor.len(), values.len(), "both are of one model");
    let scale = scale(binary_point);
    let moved = Moved { anchor, values, scale };
    let reduced = all_reduce_in_turn(place, &moved, (left, right), timer).await?;
    let mut sum = vec![0i64; anchor.len()];
    reduced.integers(&mut sum);
    let unit = scale * f64::from(place.members);
    let mean = anchor.iter().zip(sum).map(|(anchor, sum)| (f64::from(*anchor) + sum as f64 / unit) as f32);
    Ok((mean.collect(), reduced.traffic()))
}
