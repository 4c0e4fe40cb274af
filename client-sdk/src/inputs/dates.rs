//! Dates as numbers.

use chrono::{DateTime, NaiveDate};

const SECONDS_OF_A_DAY: f64 = 86_400.0;
const YEAR_MAX: i32 = 9_999;

/// Days since 1970-01-01 of a date, `2026-11-25` or with a time `2026-11-25T14:30:00`, in UTC; the time of the day is a
/// fraction. `None` if the text is neither.
pub fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time.trim_end_matches('Z'))),
        None => (text, None),
    };
    let mut parts = date.splitn(3, '-').map(whole);
    let date = days_of(parts.next()??, parts.next()??, parts.next()??)?;
    Some(date as f64 + time.map_or(Some(0.0), seconds)? / SECONDS_OF_A_DAY)
}

/// Digits alone: no sign and no space.
fn whole(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn seconds(time: &str) -> Option<f64> {
    let mut parts = time.splitn(3, ':');
    let (hour, minute, second) = (whole(parts.next()?)?, whole(parts.next()?)?, parts.next()?);
    let (whole_seconds, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let (second, fraction) = (whole(whole_seconds)?, whole(fraction).and(format!("0.{fraction}").parse::<f64>().ok())?);
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then(|| (hour * 3_600 + minute * 60 + second) as f64 + fraction)
}

/// Days since 1970-01-01 of a day of the Gregorian calendar, in years of at most four digits.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = i32::try_from(year).ok().filter(|year| *year <= YEAR_MAX)?;
    let date = NaiveDate::from_ymd_opt(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
    Some((date - DateTime::UNIX_EPOCH.date_naive()).num_days())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days() {
        assert_eq!(
            (days("1970-01-01"), days("1969-12-31"), days("2000-03-01")),
            (Some(0.0), Some(-1.0), Some(11_017.0))
        );
        assert_eq!((days("2026-11-25"), days("0000-03-01")), (Some(20_782.0), Some(-719_468.0)));
        assert_eq!(days("2026-11-25 12:00:00"), Some(20_782.5));
        assert_eq!(days("2026-11-25T12:00:00.500Z"), Some(20_782.0 + 43_200.5 / 86_400.0));
    }

    #[test]
    fn each_day_of_400_years_follows_the_day_before() {
        let mut expected = days_of(1800, 1, 1).unwrap();
        for year in 1800..2200 {
            for (month, day) in (1..=12).flat_map(|month| (1..=31).map(move |day| (month, day))) {
                if let Some(days) = days_of(year, month, day) {
                    assert_eq!(days, expected, "{year}-{month}-{day}");
                    expected += 1;
                }
            }
        }
        assert_eq!(expected - days_of(1800, 1, 1).unwrap(), 146_097);
    }

    #[test]
    fn what_is_no_date_is_none() {
        let texts =
            ["", "2026", "2026-13-01", "2026-02-29", "2026-00-10", "25.11.2026", "2026-11-25T24:00:00", "-1-2-3"];
        for text in
            texts.into_iter().chain(["2026-11-25T12", "2026-11-25T12:00:0x", "12026-01-01", "2026-11-25T1:2:3.-4"])
        {
            assert_eq!(days(text), None, "{text}");
        }
    }
}
