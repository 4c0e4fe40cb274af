//! Numbers as text for people: bytes, durations, times, percentages.

use tributary_protocol::operator::MeasuredOn;

/// An interval that is narrower has decimals.
const NARROW: f64 = 0.02;
/// Keeps 0.83 from becoming 82.99999 %.
const TINY: f64 = 1e-9;

/// Bytes with three digits at most and a decimal unit: `999 B`, `1.2 kB`, `34 MB`.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// A count, with a decimal unit from 1000 on: `64`, `5.1 k`, `1.7 M`.
pub fn count(count: u64) -> String {
    scaled(count as f64, &["", "k", "M", "G", "T", "P", "E"]).trim_end().to_owned()
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // Without decimals, 999.5 rounds to 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 9.95);
    format!("{value:.decimals$} {}", units[unit])
}

/// A duration in its two largest units: `350 ms`, `2.5 s`, `3 min 20 s`, `2 h 5 min`, `12 d 3 h`.
pub fn duration_ms(duration_ms: u64) -> String {
    let seconds = duration_ms / 1000;
    let pair = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        small => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        0 => format!("{duration_ms} ms"),
        1..60 => format!("{}.{} s", seconds, duration_ms % 1000 / 100).replace(".0 s", " s"),
        60..3600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// A time relative to now, in the largest unit: `12 s ago`, `in 30 d`, `now`. Both in milliseconds since 1970.
pub fn relative(at_ms: i64, now_ms: i64) -> String {
    let distance_s = at_ms.abs_diff(now_ms) / 1000;
    let distance = match distance_s {
        0 => return "now".into(),
        1..60 => format!("{distance_s} s"),
        60..3600 => format!("{} min", distance_s / 60),
        3600..86_400 => format!("{} h", distance_s / 3600),
        _ => format!("{} d", distance_s / 86_400),
    };
    if at_ms > now_ms { format!("in {distance}") } else { format!("{distance} ago") }
}

/// A time in UTC, to the second: `2026-11-20 21:54:11Z`; the number itself outside the calendar's range.
pub fn timestamp(at_ms: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(at_ms) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%SZ").to_string(),
        None => format!("{at_ms} ms"),
    }
}

/// A fraction in percent: 0.9431 as `94.31 %`.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// An accuracy with what it was measured on: `97.22 % (36 examples, 86 to 100 %)`, the 95 % interval in whole percent
/// that contain it, or in tenths where it is narrow.
pub fn measured(accuracy: f64, on: Option<MeasuredOn>) -> String {
    let Some(MeasuredOn { examples, low, high, .. }) = on else { return percent(accuracy) };
    let (step, decimals) = if high - low < NARROW { (0.1, 1) } else { (1.0, 0) };
    let low = (low * 100.0 / step + TINY).floor() * step;
    let high = (high * 100.0 / step - TINY).ceil() * step;
    let s = if examples == 1 { "" } else { "s" };
    format!("{} ({examples} example{s}, {low:.decimals$} to {high:.decimals$} %)", percent(accuracy))
}

/// How the accuracies of an evaluation's clients spread: `worst client 52.00 %, a tenth at most 71.00 %, of 14`. None
/// with fewer than two.
pub fn spread(on: Option<MeasuredOn>) -> Option<String> {
    let MeasuredOn { clients, worst, p10, .. } = on?;
    Some(format!("worst client {}, a tenth at most {}, of {clients}", percent(worst?), percent(p10?)))
}

/// The value as text, or a dash.
pub fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accuracy_says_on_what_it_was_measured_and_how_sure_it_is() {
        let on = |examples, low, high| {
            Some(MeasuredOn { examples, clients: 2, low, high, worst: Some(0.5), p10: Some(0.75) })
        };
        assert_eq!(measured(1.0, on(19, 0.8318, 1.0)), "100.00 % (19 examples, 83 to 100 %)");
        assert_eq!(measured(0.95, on(50_000, 0.948_05, 0.951_87)), "95.00 % (50000 examples, 94.8 to 95.2 %)");
        assert_eq!(measured(0.9431, None), "94.31 %");
        assert_eq!(spread(on(19, 0.8, 1.0)).unwrap(), "worst client 50.00 %, a tenth at most 75.00 %, of 2");
        assert_eq!(spread(None), None);
    }

    #[test]
    fn bytes_have_three_digits_at_most() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1234, "1.2 kB"),
            (9_960, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (6_653_480, "6.7 MB"),
            (u64::MAX, "18 EB"),
        ];
        for (given, text) in cases {
            assert_eq!(bytes(given), text);
        }
        assert_eq!((count(64), count(199_210)), ("64".into(), "199 k".into()));
    }

    #[test]
    fn durations_show_their_two_largest_units() {
        let cases = [
            (0, "0 ms"),
            (350, "350 ms"),
            (2_000, "2 s"),
            (2_550, "2.5 s"),
            (10_000, "10 s"),
            (200_000, "3 min 20 s"),
            (3_600_000, "1 h"),
            (7_500_000, "2 h 5 min"),
            (1_047_600_000, "12 d 3 h"),
        ];
        for (given, text) in cases {
            assert_eq!(duration_ms(given), text);
        }
    }

    #[test]
    fn times_are_relative_to_now() {
        let now = 1_000_000_000;
        assert_eq!(relative(now - 400, now), "now");
        assert_eq!(relative(now - 90_000, now), "1 min ago");
        assert_eq!(relative(now + 30 * 86_400_000, now), "in 30 d");
        assert_eq!(relative(i64::MIN, i64::MAX), "213503982334 d ago");
        assert_eq!(timestamp(1_795_211_651_999), "2026-11-20 21:54:11Z");
        assert_eq!(timestamp(i64::MAX), format!("{} ms", i64::MAX));
    }
}
