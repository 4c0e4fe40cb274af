//! Sessions: the course of each client's work, and statistics of device classes.

use std::collections::{BTreeMap, HashMap};

use tributary_protocol::device::Attributes;
use tributary_protocol::operator::{ClassStats, ShapeCount};
use tributary_protocol::state::{AssignmentState, FailureReason};

/// One client's work in one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// The state of the assignment; none counts as assigned.
    pub state: Option<AssignmentState>,
    /// Why the assignment was rejected or failed.
    pub reason: Option<String>,
    pub fetched: bool,
    /// Whether bytes of an update arrived.
    pub uploaded: bool,
    /// Whether the client reported after the deadline.
    pub late: bool,
    /// Time worked for the report, in milliseconds.
    pub work_ms: Option<u64>,
}

impl Session {
    /// The shape: one letter per event, in order. `c` checked in, `a` assigned, `d` downloaded, `t` trained, `u`
    /// uploaded, then `+` reported, `!` rejected, `x` failed, `i` interrupted or `.` expired, and `~` came late.
    #[must_use]
    pub fn shape(&self) -> String {
        let state = self.state.unwrap_or(AssignmentState::Assigned);
        let came = self.uploaded || matches!(state, AssignmentState::Reported | AssignmentState::Rejected);
        // A client that sends an update has trained, and training needs a model, even if the client had stored it
        // before.
        let trained = came || self.late;
        let mut shape = String::from("ca");
        for (happened, letter) in [(self.fetched || trained, 'd'), (trained, 't'), (came, 'u')] {
            if happened {
                shape.push(letter);
            }
        }
        match state {
            AssignmentState::Assigned => {}
            AssignmentState::Reported => shape.push('+'),
            AssignmentState::Rejected => shape.push('!'),
            AssignmentState::Failed => shape.push(if self.was_interrupted() { 'i' } else { 'x' }),
            AssignmentState::Expired => shape.push('.'),
        }
        if self.late {
            shape.push('~');
        }
        shape
    }

    fn was_interrupted(&self) -> bool {
        let word = FailureReason::Interrupted.as_str();
        let rest = self.reason.as_deref().and_then(|reason| reason.strip_prefix(word));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}

/// How often each shape occurs, most frequent first; with `attribute` also by its value (empty where a client has
/// none).
#[must_use]
pub fn funnel<'a>(
    sessions: impl IntoIterator<Item = (&'a Attributes, &'a Session)>,
    attribute: Option<&str>,
) -> Vec<ShapeCount> {
    let mut counts: HashMap<String, ShapeCount> = HashMap::new();
    for (attributes, session) in sessions {
        let shape = session.shape();
        let count =
            counts.entry(shape.clone()).or_insert_with(|| ShapeCount { shape, count: 0, by_class: BTreeMap::new() });
        count.count += 1;
        if let Some(attribute) = attribute {
            *count.by_class.entry(value_of(attributes, attribute).to_owned()).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.shape.cmp(&b.shape)));
    counts
}

/// Statistics of the clients with each value of an attribute. `clients` has the number of clients with each set of
/// attributes.
#[must_use]
pub fn class_stats<'a>(
    attribute: &str,
    clients: impl IntoIterator<Item = (&'a Attributes, u64)>,
    sessions: impl IntoIterator<Item = (&'a Attributes, &'a Session)>,
) -> Vec<ClassStats> {
    let mut classes: BTreeMap<&str, Class<'a>> = BTreeMap::new();
    for (attributes, count) in clients {
        classes.entry(value_of(attributes, attribute)).or_default().clients += count;
    }
    for session in sessions {
        classes.entry(value_of(session.0, attribute)).or_default().sessions.push(session);
    }
    classes.into_iter().map(|(value, Class { clients, sessions })| stats(value, clients, &sessions)).collect()
}

/// The clients with one value, and their sessions.
#[derive(Default)]
struct Class<'a> {
    clients: u64,
    sessions: Vec<(&'a Attributes, &'a Session)>,
}

fn value_of<'a>(attributes: &'a Attributes, name: &str) -> &'a str {
    attributes.as_map().get(name).map_or("", String::as_str)
}

fn stats(value: &str, clients: u64, sessions: &[(&Attributes, &Session)]) -> ClassStats {
    let count = |state| sessions.iter().filter(|(_, session)| session.state == Some(state)).count() as u64;
    let reported = count(AssignmentState::Reported);
    let (rejected, failed) = (count(AssignmentState::Rejected), count(AssignmentState::Failed));
    let expired = count(AssignmentState::Expired);
    let dropped = rejected + failed + expired;
    let mut work_ms: Vec<u64> = sessions.iter().filter_map(|(_, session)| session.work_ms).collect();
    work_ms.sort_unstable();
    ClassStats {
        value: value.to_owned(),
        clients,
        assigned: sessions.len() as u64,
        reported,
        rejected,
        failed,
        expired,
        drop_rate: if dropped == 0 { 0.0 } else { dropped as f64 / (dropped + reported) as f64 },
        work_ms_p50: percentile(&work_ms, 50),
        work_ms_p90: percentile(&work_ms, 90),
        shapes: funnel(sessions.iter().copied(), None),
    }
}

/// The smallest value that at least `percent` of the sorted values do not exceed (nearest rank).
#[must_use]
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(state: AssignmentState) -> Session {
        Session { state: Some(state), ..Session::default() }
    }

    fn attributes(value: &str) -> Attributes {
        BTreeMap::from([("ram".to_owned(), value.to_owned())]).try_into().unwrap()
    }

    #[test]
    fn a_shape_tells_the_course_of_a_session() {
        use AssignmentState::{Assigned, Expired, Failed, Rejected, Reported};
        let failed = |reason: &str| Session { reason: Some(reason.into()), fetched: true, ..session(Failed) };
        let cases = [
            (session(Assigned), "ca"),
            (Session { fetched: true, ..session(Assigned) }, "cad"),
            (Session { fetched: true, uploaded: true, ..session(Assigned) }, "cadtu"),
            (Session { fetched: true, ..session(Reported) }, "cadtu+"),
            (session(Reported), "cadtu+"),
            (Session { fetched: true, ..session(Rejected) }, "cadtu!"),
            (failed("diverged: NaN"), "cadx"),
            (failed("interrupted"), "cadi"),
            (failed("interrupted: the user came"), "cadi"),
            (failed("interruptedness"), "cadx"),
            (Session { reason: Some("no_data".into()), ..session(Failed) }, "cax"),
            (session(Expired), "ca."),
            (Session { fetched: true, ..session(Expired) }, "cad."),
            (Session { fetched: true, late: true, ..session(Expired) }, "cadt.~"),
            (Session { fetched: true, uploaded: true, late: true, ..session(Expired) }, "cadtu.~"),
        ];
        for (session, shape) in cases {
            assert_eq!(session.shape(), shape, "{session:?}");
        }
    }

    #[test]
    fn classes_tell_whom_the_deadline_drops() {
        let (small, large, none) = (attributes("2"), attributes("8"), Attributes::default());
        let reported = |work_ms| Session { work_ms: Some(work_ms), ..session(AssignmentState::Reported) };
        let (slow, dropped, open) =
            (reported(90), session(AssignmentState::Expired), session(AssignmentState::Assigned));
        let quick: Vec<_> = (1..=10).map(reported).collect();
        let mut sessions = vec![(&small, &slow), (&small, &dropped), (&small, &dropped), (&small, &open)];
        sessions.extend(quick.iter().map(|session| (&large, session)));
        let stats = class_stats("ram", [(&small, 5), (&large, 6), (&none, 1)], sessions);
        let figures: Vec<_> = stats.iter().map(|class| (class.value.as_str(), class.clients, class.assigned)).collect();
        assert_eq!(figures, [("", 1, 0), ("2", 5, 4), ("8", 6, 10)]);
        assert_eq!((stats[0].drop_rate, stats[0].work_ms_p50), (0.0, None));
        assert!((stats[1].drop_rate - 2.0 / 3.0).abs() < 1e-12, "what is open is not dropped: {:?}", stats[1]);
        assert_eq!((stats[2].work_ms_p50, stats[2].work_ms_p90), (Some(5), Some(9)));
        assert_eq!((stats[1].shapes[0].shape.as_str(), stats[1].shapes[0].count), ("ca.", 2));
    }

    #[test]
    fn a_funnel_counts_shapes_and_splits_them_by_class() {
        let (small, large) = (attributes("2"), attributes("8"));
        let (good, bad) = (session(AssignmentState::Reported), session(AssignmentState::Expired));
        let sessions = [(&small, &good), (&large, &good), (&large, &good), (&small, &bad)];
        let counts = funnel(sessions, Some("ram"));
        assert_eq!((counts[0].shape.as_str(), counts[0].count), ("cadtu+", 3));
        assert_eq!(counts[0].by_class, BTreeMap::from([("2".to_owned(), 1), ("8".to_owned(), 2)]));
        assert!(funnel(sessions, None)[0].by_class.is_empty());
        assert!(funnel([], None).is_empty());
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(percentile::<u64>(&[], 50), None);
        assert_eq!(percentile(&[7], 99), Some(7));
        assert_eq!(percentile(&[1, 2, 3, 4], 50), Some(2));
        assert_eq!(percentile(&[1, 2, 3, 4], 99), Some(4));
        assert_eq!(percentile(&[1, 2, 3, 4], 0), Some(1));
    }
}
