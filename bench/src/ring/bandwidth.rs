//! The bandwidth of a link, as an option.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::line::Shape;

/// Lowest bandwidth in bits a second.
const BITS_MIN: f64 = 1e5;

/// A bandwidth, with the text that it was parsed from: a number and `kbit`, `mbit` or `gbit`, as `tc` has them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bandwidth {
    text: String,
    bits_per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a bandwidth is a number of kbit, mbit or gbit a second, such as 100mbit, and at least 100kbit")]
pub(super) struct BandwidthError;

impl Bandwidth {
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.bits_per_s / 8.0
    }

    /// A line with this bandwidth and no delay of its own.
    pub(super) fn shape(&self) -> Shape {
        Shape { bytes_per_s: self.bytes_per_s(), delay: Duration::ZERO }
    }
}

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    fn from_str(text: &str) -> Result<Self, BandwidthError> {
        let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        let number = |(unit, bits)| text.strip_suffix(unit)?.parse::<f64>().ok().map(|number| number * bits);
        let bits_per_s = units.into_iter().find_map(number).filter(|bits| bits.is_finite() && *bits >= BITS_MIN);
        Ok(Self { text: text.to_owned(), bits_per_s: bits_per_s.ok_or(BandwidthError)? })
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_is_a_number_with_a_unit() {
        for (text, bytes_per_s) in [("100mbit", 12.5e6), ("2.5gbit", 312.5e6), ("100kbit", 12_500.0)] {
            let bandwidth: Bandwidth = text.parse().unwrap();
            assert_eq!((bandwidth.bytes_per_s(), bandwidth.to_string()), (bytes_per_s, text.to_owned()));
        }
        for text in ["", "100", "mbit", "99kbit", "-1mbit", "infgbit", "nanmbit", "1tbit"] {
            assert_eq!(text.parse::<Bandwidth>(), Err(BandwidthError), "{text}");
        }
    }
}
