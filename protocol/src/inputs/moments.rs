//! Exact sums of a column.
//!
//! A number counts as the integer nearest to `2^64 x`. Numbers of up to 2^47 have 111 bits, their squares 222, and 2^32
//! of these still fit into 256 bits. So the sums of any number of clients are exact whatever their order, a mean is
//! rounded once, and a variance loses nothing by cancellation: no public centre is needed. Integers are also what
//! masked sums add.

use std::fmt;

use ethnum::I256;
use serde::{Deserialize, Serialize};

/// Largest magnitude of a number in a sum: 2^47, or 1.4e14.
pub const MAGNITUDE_MAX: f64 = (1u64 << 47) as f64;
/// Binary places of a number in a sum.
const PLACES: i32 = 64;
/// Most numbers of a sum.
pub(super) const COUNT_MAX: u64 = 1 << 32;

/// A number is not finite, or its magnitude is above 2^47.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} cannot be summed: the magnitude of a number is at most 2^47")]
pub struct OutOfRange(pub f64);

/// An integer of 256 bits with sign. In JSON: its decimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Wide(I256);

/// Count, sum and sum of squares of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Moments {
    /// Number of values that are not missing.
    pub count: u64,
    /// Sum of the integers.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub sum: Wide,
    /// Sum of their squares.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub squares: Wide,
}

/// The sums of one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Described {
    /// Of numbers and dates.
    Numbers(Moments),
    /// Rows in each category, in the order of the codes.
    Categories(Vec<u64>),
}

impl Moments {
    /// Takes a number in.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not finite or its magnitude is above 2^47.
    pub fn include(&mut self, number: f64) -> Result<(), OutOfRange> {
        if number.is_nan() || number.abs() > MAGNITUDE_MAX {
            return Err(OutOfRange(number));
        }
        // A power of two changes only the exponent, and numbers from 2^-11 on are whole then.
        let whole = I256::from((number * 2f64.powi(PLACES)).round_ties_even() as i128);
        self.count += 1;
        self.sum.0 = self.sum.0.wrapping_add(whole);
        self.squares.0 = self.squares.0.wrapping_add(whole.wrapping_mul(whole));
        Ok(())
    }

    /// Adds the sums of other values.
    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.0 = self.sum.0.wrapping_add(other.sum.0);
        self.squares.0 = self.squares.0.wrapping_add(other.squares.0);
    }

    /// Whether so many numbers could have these sums, as far as the magnitudes say it.
    pub(super) fn is_possible(&self, examples: u64) -> bool {
        let each = I256::ONE << 111u32;
        let count = I256::from(self.count.min(COUNT_MAX));
        let most = each * count;
        let squares_most = (I256::ONE << 222u32).saturating_mul(count);
        self.count <= examples.min(COUNT_MAX)
            && (-most..=most).contains(&self.sum.0)
            && (I256::ZERO..=squares_most).contains(&self.squares.0)
    }

    /// The mean, rounded once; `None` of no numbers.
    pub fn mean(&self) -> Option<f64> {
        let count = I256::from(self.count);
        (self.count > 0).then(|| {
            // The quotient is exact to the last place, and the rest is below one unit of 2^-64.
            let (whole, rest) = (self.sum.0.div_euclid(count), self.sum.0.rem_euclid(count));
            (whole.as_f64() + rest.as_f64() / self.count as f64) * 2f64.powi(-PLACES)
        })
    }

    /// The deviation over all numbers, the square root of their mean squared distance from the mean; `None` of no
    /// numbers.
    pub fn deviation(&self) -> Option<f64> {
        let count = I256::from(self.count);
        (self.count > 0).then(|| {
            let centre = self.sum.0.div_euclid(count);
            let rest = self.sum.0.rem_euclid(count).as_f64() / self.count as f64;
            // sum (q - c)^2 = sum q^2 - 2 c sum q + n c^2. The parts may pass 2^255; the result does not, and
            // arithmetic modulo 2^256 gives it all the same.
            let about_centre = (self.squares.0)
                .wrapping_sub(centre.wrapping_mul(self.sum.0).wrapping_mul(I256::from(2u8)))
                .wrapping_add(count.wrapping_mul(centre).wrapping_mul(centre));
            let variance = (about_centre.as_f64() / self.count as f64 - rest * rest).max(0.0);
            variance.sqrt() * 2f64.powi(-PLACES)
        })
    }
}

impl fmt::Debug for Wide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl From<Wide> for String {
    fn from(Wide(number): Wide) -> Self {
        number.to_string()
    }
}

impl TryFrom<String> for Wide {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse().map(Wide).map_err(|_| "a sum is an integer of at most 256 bits, as decimal digits")
    }
}
