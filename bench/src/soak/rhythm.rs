//! When a device is awake: one window in each simulated day, with most windows around the middle of the day.

use tributary_protocol::seed::Stream;

/// Shortest window, as a share of the day.
const LENGTH_MIN: f64 = 0.15;
const LENGTH_MAX: f64 = 0.45;

/// The window of a device, as shares of a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rhythm {
    /// 0 to 1.
    begins: f64,
    length: f64,
}

impl Rhythm {
    /// The middles of windows are means of three uniform numbers: most devices are awake at noon, a few at midnight.
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let length = LENGTH_MIN + (LENGTH_MAX - LENGTH_MIN) * stream.unit();
        let middle = (stream.unit() + stream.unit() + stream.unit()) / 3.0;
        Self { begins: (middle - length / 2.0).rem_euclid(1.0), length }
    }

    /// For a time in days: how long the device stays awake, in days; `Err` has the time until it wakes.
    pub(super) fn at(&self, day: f64) -> Result<f64, f64> {
        let since = (day - self.begins).rem_euclid(1.0);
        if since < self.length { Ok(self.length - since) } else { Err(1.0 - since) }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::*;

    #[test]
    fn a_device_is_awake_in_its_window_of_each_day() {
        let rhythm = Rhythm { begins: 0.75, length: 0.5 };
        let near = |found: Result<f64, f64>, expected: Result<f64, f64>| match (found, expected) {
            (Ok(a), Ok(b)) | (Err(a), Err(b)) => (a - b).abs() < 1e-9,
            _ => false,
        };
        for day in [0.0, 1.0, 41.0] {
            assert!(near(rhythm.at(day + 0.75), Ok(0.5)));
            assert!(near(rhythm.at(day + 0.1), Ok(0.15)), "over midnight");
            assert!(near(rhythm.at(day + 0.3), Err(0.45)));
        }
    }

    #[test]
    fn three_times_as_many_are_awake_at_noon_as_at_midnight() {
        let mut stream = Seed(1).stream();
        let fleet: Vec<Rhythm> = (0..10_000).map(|_| Rhythm::draw(&mut stream)).collect();
        let awake = |day: f64| fleet.iter().filter(|rhythm| rhythm.at(day).is_ok()).count();
        assert!(awake(0.5) > 3 * awake(0.0), "{} and {}", awake(0.5), awake(0.0));
        assert!(awake(0.0) > 0);
    }
}
