//! Values with their unit, written alike in flags, variables and files: `10s`, `16MiB`, `https://HOST`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

/// A duration from 1 ms to 100 years: `30d`, `12h`, `90min` (or `90m`), `45s`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HumanDuration(Duration);

/// A number of bytes: `512B`, `64KiB`, `16MiB`, `2GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ByteSize(u64);

/// A moment: a duration before now, as `7d`; a day in UTC, as `2026-11-01`; or a time as RFC 3339 has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Ago(HumanDuration),
    /// Milliseconds since 1970.
    At(i64),
}

/// What a link carries in each direction: `100mbit`, `2.5gbit`, `64kbit`, as `tc` has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth(f64);

/// The address of an HTTP service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HttpUrl(Url);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a duration is a whole number and one of ms, s, min, h, d, at most 100 years: 30d, 12h, 90min")]
pub(crate) struct DurationError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a size is a whole number and one of B, KiB, MiB, GiB: 512KiB, 16MiB")]
pub(crate) struct SizeError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time is a duration before now (7d, 12h), a day (2026-11-01) or a time with its zone (2026-11-01T09:30:00Z)")]
pub(crate) struct MomentError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a bandwidth is a number above 0 and one of kbit, mbit, gbit: 100mbit, 2.5gbit")]
pub struct BandwidthError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address starts with http:// or https:// and a host: https://HOST, http://HOST:PORT")]
pub(crate) struct UrlError;

impl HumanDuration {
    pub(crate) fn duration(self) -> Duration {
        self.0
    }

    pub(crate) fn ms(self) -> u64 {
        // Parsing allows 100 years at most.
        self.0.as_millis() as u64
    }
}

impl Bandwidth {
    /// The units, with their bits a second.
    const UNITS: [(&str, f64); 3] = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)];

    pub fn bits_per_s(self) -> f64 {
        self.0
    }
}

impl ByteSize {
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }
}

impl Moment {
    /// Milliseconds since 1970.
    pub(crate) fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::Ago(duration) => now_ms.saturating_sub_unsigned(duration.ms()),
            Self::At(at_ms) => at_ms,
        }
    }
}

impl HttpUrl {
    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for HumanDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        const HUNDRED_YEARS_MS: u64 = 36_525 * 86_400_000;
        let (number, unit) = number_and_unit(text).ok_or(DurationError)?;
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(DurationError),
        };
        let total_ms = number.checked_mul(unit_ms).filter(|total_ms| (1..=HUNDRED_YEARS_MS).contains(total_ms));
        total_ms.map(|total_ms| Self(Duration::from_millis(total_ms))).ok_or(DurationError)
    }
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let (number, unit) = number_and_unit(text).ok_or(SizeError)?;
        let unit_bytes = match unit {
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(SizeError),
        };
        number.checked_mul(unit_bytes).map(Self).ok_or(SizeError)
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        if let Ok(duration) = text.parse() {
            return Ok(Self::Ago(duration));
        }
        if let Ok(day) = text.parse::<chrono::NaiveDate>() {
            return Ok(Self::At(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis()));
        }
        let time = chrono::DateTime::parse_from_rfc3339(text).map_err(|_| MomentError)?;
        Ok(Self::At(time.timestamp_millis()))
    }
}

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    fn from_str(text: &str) -> Result<Self, BandwidthError> {
        let number = |(unit, bits)| text.strip_suffix(unit)?.parse::<f64>().ok().map(|number| number * bits);
        let bits_per_s = Self::UNITS.into_iter().find_map(number);
        bits_per_s.filter(|bits| bits.is_finite() && *bits > 0.0).map(Self).ok_or(BandwidthError)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., smallest] = Self::UNITS;
        let (unit, bits) = Self::UNITS.into_iter().find(|(_, bits)| self.0 >= *bits).unwrap_or(smallest);
        write!(formatter, "{}{unit}", self.0 / bits)
    }
}

impl FromStr for HttpUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let url: Url = text.parse().map_err(|_| UrlError)?;
        if matches!(url.scheme(), "http" | "https") { Ok(Self(url)) } else { Err(UrlError) }
    }
}

macro_rules! from_its_text {
    ($($name:ident: $error:ident),+) => {
        $(impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        })+
    };
}

from_its_text!(HumanDuration: DurationError, ByteSize: SizeError, HttpUrl: UrlError);

/// `12 h` as 12 and `h`.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit_or_refused() {
        let cases = [("30d", 2_592_000_000), ("12 h", 43_200_000), ("90min", 5_400_000), ("5m", 300_000), ("7ms", 7)];
        for (text, duration) in cases {
            assert_eq!(text.parse().map(HumanDuration::ms), Ok(duration), "{text}");
        }
        for text in ["", "30", "d", "-1d", "1.5h", "0s", "1 week", "99999999999999999999d", "18446744073709551615d"] {
            assert_eq!(text.parse::<HumanDuration>(), Err(DurationError), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_unit_or_refused() {
        for (text, bytes) in [("0B", 0), ("512KiB", 524_288), ("16 MiB", 16_777_216), ("2GiB", 2_147_483_648)] {
            assert_eq!(text.parse().map(ByteSize::bytes), Ok(bytes), "{text}");
        }
        for text in ["", "16", "MiB", "16MB", "16mib", "1.5GiB", "-1B", "18446744073709551615GiB"] {
            assert_eq!(text.parse::<ByteSize>(), Err(SizeError), "{text}");
        }
    }

    #[test]
    fn a_moment_is_a_duration_ago_a_day_or_a_time() {
        let at = |text: &str| text.parse().map(|moment: Moment| moment.at_ms(1_795_305_600_000));
        assert_eq!(at("7d"), Ok(1_794_700_800_000));
        assert_eq!(at("2026-11-22"), Ok(1_795_305_600_000));
        assert_eq!(at("2026-11-22T01:00:00+01:00"), Ok(1_795_305_600_000));
        for text in ["", "yesterday", "2026-13-01", "2026-11-22T01:00:00", "1795305600000"] {
            assert_eq!(text.parse::<Moment>(), Err(MomentError), "{text}");
        }
    }

    #[test]
    fn a_bandwidth_is_a_number_with_a_unit() {
        let cases = [("100mbit", 1e8), ("2.5gbit", 2.5e9), ("100kbit", 1e5), ("0.5kbit", 500.0)];
        for (text, bits_per_s) in cases {
            let bandwidth: Bandwidth = text.parse().unwrap();
            assert_eq!((bandwidth.bits_per_s(), bandwidth.to_string()), (bits_per_s, text.to_owned()));
        }
        for text in ["", "100", "mbit", "-1mbit", "0kbit", "infgbit", "nanmbit", "1tbit"] {
            assert_eq!(text.parse::<Bandwidth>(), Err(BandwidthError), "{text}");
        }
    }

    #[test]
    fn an_address_is_http_or_https() {
        assert_eq!("https://h:1/a".parse::<HttpUrl>().unwrap().url().path(), "/a");
        for text in ["", "h:1", "localhost", "ftp://h", "http://"] {
            assert_eq!(text.parse::<HttpUrl>(), Err(UrlError), "{text}");
        }
    }
}
