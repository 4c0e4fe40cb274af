//! What is drawn from a seed: how a device's work ends, and which fault its connection has.

use std::time::Duration;

use tributary_protocol::seed::Stream;

/// How the work of a device for a round goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) trains: Duration,
    pub(super) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It sends its update.
    Reports,
    /// It gives up and says so.
    GivesUp,
    /// It is never heard of again in this round.
    Silent,
}

/// A fault of a connection, in one of its directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) upwards: bool,
    /// Bytes of that direction before it happens.
    pub(super) after_bytes: u64,
    pub(super) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The connection breaks in the middle of a piece.
    Cut,
    /// No byte passes for so long.
    Stall(Duration),
}

/// A connection of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// From one end to the other.
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
}

impl Work {
    /// Most devices train for 1 to 6 s; one in ten is slow and takes up to 30 s, which is longer than a round lasts.
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let slow = stream.unit() < 0.1;
        let seconds = if slow { 6.0 + 24.0 * stream.unit() } else { 1.0 + 5.0 * stream.unit() };
        let end = match stream.unit() {
            ..0.02 => End::GivesUp,
            0.02..0.06 => End::Silent,
            _ => End::Reports,
        };
        Self { trains: Duration::from_secs_f64(seconds), end }
    }
}

impl Path {
    /// One connection in eight is cut and one in sixteen stalls, within the bytes of a round of this model.
    pub(super) fn draw(stream: &mut Stream, model_bytes: u64) -> Self {
        let delay = Duration::from_millis(5 + stream.below(56));
        let chance = stream.unit();
        let upwards = stream.below(2) == 0;
        let after_bytes = stream.below(2 * model_bytes);
        let stall = Duration::from_millis(2_000 + stream.below(8_000));
        let kind = match chance {
            ..0.125 => Some(FaultKind::Cut),
            0.125..0.1875 => Some(FaultKind::Stall(stall)),
            _ => None,
        };
        Self { delay, fault: kind.map(|kind| Fault { upwards, after_bytes, kind }) }
    }
}

/// A pause before the next try, after so many failed ones: 1 s, 2 s, .. 16 s, each up to half as long again.
pub(super) fn pause(failed: u32, stream: &mut Stream) -> Duration {
    let seconds = f64::from(1u32 << failed.min(4));
    Duration::from_secs_f64(seconds * (1.0 + stream.unit() / 2.0))
}

#[cfg(test)]
mod tests {
    use tributary_protocol::seed::Seed;

    use super::*;

    #[test]
    fn equal_seeds_have_equal_fates() {
        let draw = |seed| {
            let mut stream = Seed(seed).stream();
            (Work::draw(&mut stream), Path::draw(&mut stream, 40_000), pause(3, &mut stream))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn every_end_and_every_fault_comes_up() {
        let mut stream = Seed(1).stream();
        let works: Vec<Work> = (0..1_000).map(|_| Work::draw(&mut stream)).collect();
        for end in [End::Reports, End::GivesUp, End::Silent] {
            assert!(works.iter().any(|work| work.end == end), "{end:?}");
        }
        assert!(works.iter().all(|work| (1.0..30.0).contains(&work.trains.as_secs_f64())));
        let paths: Vec<Path> = (0..1_000).map(|_| Path::draw(&mut stream, 40_000)).collect();
        let cuts = paths.iter().filter(|path| path.fault.is_some_and(|fault| fault.kind == FaultKind::Cut)).count();
        let faults = paths.iter().filter(|path| path.fault.is_some()).count();
        assert!((100..150).contains(&cuts) && (150..230).contains(&faults), "{cuts} cuts of {faults} faults");
    }

    #[test]
    fn pauses_grow_up_to_24_s() {
        let mut stream = Seed(1).stream();
        assert!((1.0..1.5).contains(&pause(0, &mut stream).as_secs_f64()));
        assert!((16.0..24.0).contains(&pause(40, &mut stream).as_secs_f64()));
    }
}
