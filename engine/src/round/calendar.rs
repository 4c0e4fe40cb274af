//! Minutes of the calendar: a cron expression on the wall clocks of a time zone.

use chrono::{DateTime, LocalResult, NaiveDateTime, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// Where [`Calendar::parse`] searches a first match. Any date would do, since the calendar repeats itself.
const REFERENCE_MS: i64 = 1_767_225_600_000; // 2026-01-01
/// Longest stretch of wall-clock time in minutes that a change of the clocks skips or repeats. (Zones that crossed the
/// date line skipped a day.)
const CHANGE_MINUTES_MAX: u32 = 24 * 60;

/// A set of minutes: those that match a cron expression on the wall clocks of a time zone.
///
/// The expression has five fields: minute, hour, day of month, month, day of week, as in crontab(5), with the
/// extensions of [croner](https://docs.rs/croner) (`L`, `W`, `#`). An optional sixth field in front, for seconds, has
/// no effect: a minute is in the set when any of its seconds matches.
///
/// Changes of the clocks count as wall clocks show them. A minute that is skipped in spring is not in the set on that
/// day. A minute that occurs twice in autumn is in the set twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    cron: Cron,
    zone: Tz,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    #[error(
        "a cron expression has five fields (minute, hour, day of month, month, day of week), or six with seconds in \
         front; {0:?} has another number"
    )]
    Fields(String),
    #[error("{expression:?} is not a cron expression: {cause}")]
    Expression {
        expression: String,
        /// The parser's message.
        cause: String,
    },
    #[error("{0:?} never matches: no month has such a day")]
    Never(String),
    /// The IANA database does not list the zone.
    #[error("{0:?} is not a time zone; zones are written like Europe/Berlin, America/New_York or UTC")]
    Zone(String),
}

impl Calendar {
    /// Parses an expression and an IANA time zone.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CalendarError> {
        let zone = zone.parse().map_err(|_| CalendarError::Zone(zone.to_owned()))?;
        let fields: Vec<&str> = expression.split_whitespace().collect();
        let wrong = |cause: String| CalendarError::Expression { expression: expression.to_owned(), cause };
        // Nicknames such as @daily stand for fields of their own.
        if expression.contains('@') || !(5..=6).contains(&fields.len()) {
            return Err(CalendarError::Fields(expression.to_owned()));
        }
        let parser = |seconds| CronParser::builder().seconds(seconds).year(Year::Disallowed).build();
        if fields.len() == 6 {
            let whole = parser(Seconds::Required).parse(&fields.join(" "));
            whole.map_err(|error| wrong(error.to_string()))?;
        }
        let minutes = fields[fields.len() - 5..].join(" ");
        let cron = parser(Seconds::Disallowed).parse(&minutes).map_err(|error| wrong(error.to_string()))?;
        let calendar = Self { cron, zone };
        match calendar.next_ms(REFERENCE_MS) {
            Some(_) => Ok(calendar),
            None => Err(CalendarError::Never(expression.to_owned())),
        }
    }

    /// The first moment from `from_ms` on that is in a matching minute: `from_ms` itself, or the start of a minute.
    /// Both are in milliseconds since 1970 (UTC). None when the calendar has no further match.
    #[must_use]
    pub fn next_ms(&self, from_ms: i64) -> Option<i64> {
        let (mut minute, mut wall) = self.minute(DateTime::from_timestamp_millis(from_ms)?)?;
        // In an hour that clocks will repeat, earlier wall-clock times come again, so the search goes minute by minute.
        for _ in 0..CHANGE_MINUTES_MAX {
            let comes_again = matches!(self.instants(wall), LocalResult::Ambiguous(_, second) if second > minute);
            if !comes_again || self.matches(wall) {
                break;
            }
            (minute, wall) = self.minute(minute.checked_add_signed(TimeDelta::minutes(1))?)?;
        }
        let found = self.search(minute, wall)?;
        Some(found.timestamp_millis().max(from_ms))
    }

    /// The first match from `minute` on, at which clocks show `wall` for the last time. Wall clocks therefore need only
    /// be searched forwards.
    fn search(&self, minute: DateTime<Utc>, mut wall: NaiveDateTime) -> Option<DateTime<Utc>> {
        for _ in 0..=CHANGE_MINUTES_MAX {
            wall = self.cron.find_next_occurrence(&wall.and_utc(), true).ok()?.naive_utc();
            match self.instants(wall) {
                LocalResult::Single(found) => return Some(found),
                LocalResult::Ambiguous(first, second) => return Some(if first >= minute { first } else { second }),
                LocalResult::None => wall = wall.checked_add_signed(TimeDelta::minutes(1))?,
            }
        }
        None
    }

    /// The start of the minute that contains a moment, in UTC and on wall clocks.
    fn minute(&self, at: DateTime<Utc>) -> Option<(DateTime<Utc>, NaiveDateTime)> {
        let shown = at.with_timezone(&self.zone).naive_local();
        let wall = shown.with_second(0)?.with_nanosecond(0)?;
        Some((at.checked_sub_signed(shown - wall)?, wall))
    }

    /// The moments at which wall clocks show this time: one, two (in autumn) or none (in spring).
    fn instants(&self, wall: NaiveDateTime) -> LocalResult<DateTime<Utc>> {
        self.zone.from_local_datetime(&wall).map(|at| at.with_timezone(&Utc))
    }

    fn matches(&self, wall: NaiveDateTime) -> bool {
        self.cron.is_time_matching(&wall.and_utc()).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()
    }

    fn text(at_ms: i64) -> String {
        DateTime::from_timestamp_millis(at_ms).unwrap().format("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    #[test]
    fn the_next_moment_is_now_or_the_start_of_a_minute() {
        let nights = "* 22-23,0-5 * * *";
        let cases = [
            // Winter in Berlin is an hour ahead, summer two.
            (nights, "Europe/Berlin", "2026-01-10T12:00:00Z", "2026-01-10T21:00:00Z"),
            (nights, "Europe/Berlin", "2026-07-10T12:00:00Z", "2026-07-10T20:00:00Z"),
            (nights, "Europe/Berlin", "2026-07-10T20:00:30Z", "2026-07-10T20:00:30Z"),
            (nights, "Europe/Berlin", "2026-07-10T03:59:59Z", "2026-07-10T03:59:59Z"),
            (nights, "Europe/Berlin", "2026-07-10T04:00:00Z", "2026-07-10T20:00:00Z"),
            (nights, "UTC", "2026-07-10T06:00:00Z", "2026-07-10T22:00:00Z"),
            (nights, "Asia/Kathmandu", "2026-07-10T06:00:00Z", "2026-07-10T16:15:00Z"),
            // Weekends only, by name; the end of a month; both kinds of day mean either, as in crontab.
            ("* * * * SAT,SUN", "UTC", "2026-11-20T22:40:00Z", "2026-11-21T00:00:00Z"),
            ("0 3 L * *", "UTC", "2026-02-01T00:00:00Z", "2026-02-28T03:00:00Z"),
            ("0 0 1 * MON", "UTC", "2026-11-20T00:00:00Z", "2026-11-23T00:00:00Z"),
            ("*/15 9 * * *", "UTC", "2026-11-20T09:01:00Z", "2026-11-20T09:15:00Z"),
            ("0 0 29 2 *", "UTC", "2026-11-20T00:00:00Z", "2028-02-29T00:00:00Z"),
            // Seconds in front have no effect.
            ("30 0 22 * * *", "UTC", "2026-11-20T22:00:10Z", "2026-11-20T22:00:10Z"),
            ("0 * 22-23,0-5 * * *", "UTC", "2026-07-10T06:00:00Z", "2026-07-10T22:00:00Z"),
        ];
        for (cron, zone, from, next) in cases {
            let found = Calendar::parse(cron, zone).unwrap().next_ms(ms(from)).unwrap();
            assert_eq!(text(found), next, "{cron} in {zone} from {from}");
        }
    }

    #[test]
    fn clocks_that_change_are_taken_as_they_are_seen() {
        let cases = [
            // On 29 March 2026, clocks in Berlin go from 2:00 to 3:00, so 2:30 does not occur on that day.
            ("30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"),
            ("30 2-3 * * *", "2026-03-29T00:50:00Z", "2026-03-29T01:30:00Z"),
            ("* * * * *", "2026-03-29T00:59:59Z", "2026-03-29T00:59:59Z"),
            // On 25 October they go from 3:00 (1:00 UTC) to 2:00, so 2:30 occurs twice.
            ("30 2 * * *", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"),
            ("30 2 * * *", "2026-10-25T00:31:00Z", "2026-10-25T01:30:00Z"),
            ("30 2 * * *", "2026-10-25T01:30:59Z", "2026-10-25T01:30:59Z"),
            ("30 2 * * *", "2026-10-25T01:31:00Z", "2026-10-26T01:30:00Z"),
            ("0 3 * * *", "2026-10-25T00:31:00Z", "2026-10-25T02:00:00Z"),
        ];
        for (cron, from, next) in cases {
            let found = Calendar::parse(cron, "Europe/Berlin").unwrap().next_ms(ms(from)).unwrap();
            assert_eq!(text(found), next, "{cron} from {from}");
        }
    }

    #[test]
    fn what_is_no_calendar_is_refused_with_the_reason() {
        use CalendarError::{Expression, Fields, Never, Zone};
        let refused = |cron: &str, zone: &str| Calendar::parse(cron, zone).unwrap_err();
        for cron in ["", "* * * *", "* * * * * * *", "@daily", "* * * * @daily"] {
            assert_eq!(refused(cron, "UTC"), Fields(cron.to_owned()));
        }
        for cron in ["60 * * * *", "* 24 * * *", "x * * * *", "* * 0 * *", "* * * 13 *", "61 * * * * *", "5-1 * * * *"]
        {
            assert!(matches!(refused(cron, "UTC"), Expression { .. }), "{cron}");
        }
        for cron in ["* * 30 2 *", "0 0 31 4,6,9,11 *"] {
            assert_eq!(refused(cron, "UTC"), Never(cron.to_owned()));
        }
        for zone in ["Berlin", "Europe/Atlantis", "+01:00", ""] {
            assert_eq!(refused("* * * * *", zone), Zone(zone.to_owned()));
        }
    }

    #[test]
    fn a_time_beyond_the_calendar_has_no_next() {
        let calendar = Calendar::parse("* * * * *", "Europe/Berlin").unwrap();
        for from_ms in [i64::MAX, i64::MIN, ms("2026-01-01T00:00:00Z") * 1000] {
            assert_eq!(calendar.next_ms(from_ms), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Method: compare with a search that checks every minute, in weeks in which clocks change (by half an hour on
        /// Lord Howe).
        #[test]
        fn the_next_moment_is_the_one_that_a_search_minute_by_minute_finds(
            zone in prop::sample::select(vec!["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "UTC"]),
            minute in prop::sample::select(vec!["*", "*/7", "30", "0,59"]),
            hour in prop::sample::select(vec!["*", "2", "1-3", "22-23,0-1"]),
            day in prop::sample::select(vec!["*", "1", "25,29"]),
            start in prop::sample::select(vec!["2026-03-28", "2026-10-24", "2026-03-07", "2026-10-31", "2026-04-04", "2026-10-03"]),
            offset_minutes in 0i64..3 * 24 * 60,
        ) {
            let calendar = Calendar::parse(&format!("{minute} {hour} {day} * *"), zone).unwrap();
            let from_ms = ms(&format!("{start}T00:00:00Z")) + offset_minutes * 60_000;
            let matching = |at_ms: &i64| {
                let (_, wall) = calendar.minute(DateTime::from_timestamp_millis(*at_ms).unwrap()).unwrap();
                calendar.matches(wall)
            };
            let expected = (0..40 * 24 * 60).map(|minutes| from_ms + minutes * 60_000).find(matching);
            prop_assert_eq!(calendar.next_ms(from_ms), expected);
        }
    }
}
