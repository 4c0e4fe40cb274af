//! Numbers and durations in words.

use tributary_protocol::state::Task;

pub(super) fn report_word(task: Task) -> &'static str {
    match task {
        Task::Train => "update",
        Task::Evaluate => "report",
        Task::Describe => "description",
    }
}

pub(super) fn count(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A duration for people: `340 ms`, `7.5 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`.
pub fn duration(ms: i64) -> String {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let two = |large: i64, large_name: &str, small: i64, small_name: &str| match ms % large / small {
        0 => format!("{} {large_name}", ms / large),
        rest => format!("{} {large_name} {rest} {small_name}", ms / large),
    };
    match ms {
        ..SECOND => format!("{} ms", ms.max(0)),
        SECOND..MINUTE => match ms % SECOND / 100 {
            0 => format!("{} s", ms / SECOND),
            tenths => format!("{}.{tenths} s", ms / SECOND),
        },
        MINUTE..HOUR => two(MINUTE, "min", SECOND, "s"),
        HOUR..DAY => two(HOUR, "h", MINUTE, "min"),
        DAY.. => two(DAY, "d", HOUR, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let cases = [
            (-5, "0 ms"),
            (340, "340 ms"),
            (7_000, "7 s"),
            (7_590, "7.5 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (356_400_000, "4 d 3 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration(ms), text);
        }
    }
}
