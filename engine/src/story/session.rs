//! Sessions: the course of each client's work, and statistics of device classes.

use std::collections::{BTreeMap, HashMap};

use tributary_protocol::device::Attributes;
use tributary_protocol::operator::{ClassStats, ShapeCount};
use tributary_protocol::state::{AssignmentState, ClassVerdict, FailureReason};

use super::bias::{Share, verdicts};

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
    /// Whether the client finished after the round had closed.
    pub late: bool,
    /// Whether the client stopped unfinished because the round had closed.
    pub stopped: bool,
    /// Whether the round did not need the client, which came back.
    pub spare: bool,
    /// Time worked for the report, in milliseconds.
    pub work_ms: Option<u64>,
    /// Time from the draw to the end of the assignment, in milliseconds. Unfinished work takes longer than this.
    pub open_ms: Option<u64>,
}

impl Session {
    /// The shape: one letter per event, in order. `c` checked in, `a` assigned, `d` downloaded, `t` trained, `u`
    /// uploaded, then `+` reported, `!` rejected, `x` failed, `i` interrupted or `.` expired, and `~` finished late or
    /// `s` stopped unfinished.
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
        } else if self.stopped {
            shape.push('s');
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

/// Statistics of the clients with each value of an attribute, those that never report first. `clients` has the number
/// of clients with each set of attributes.
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
    let mut stats: Vec<ClassStats> =
        classes.into_iter().map(|(value, Class { clients, sessions })| stats(value, clients, &sessions)).collect();
    let shares: Vec<Share> = stats.iter().map(share).collect();
    for (class, verdict) in stats.iter_mut().zip(verdicts(&shares)) {
        class.verdict = verdict;
    }
    // By value within a rank, because the sort is stable.
    stats.sort_by_key(|class| match class.verdict {
        ClassVerdict::ShutOut => 0,
        _ if class.reported == 0 && share(class).ended > 0 => 1,
        ClassVerdict::Under => 2,
        ClassVerdict::Fair | ClassVerdict::Unknown => 3,
    });
    stats
}

fn share(class: &ClassStats) -> Share {
    let lost = class.rejected + class.failed + class.expired;
    Share { counted: class.reported, ended: class.reported + lost }
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
    let spare = sessions.iter().filter(|(_, session)| session.spare).count() as u64;
    let dropped = (rejected + failed + expired).saturating_sub(spare);
    let counted = Share { counted: reported, ended: reported + rejected + failed + expired };
    let (counted_rate_low, counted_rate_high) = counted.bounds();
    let sorted = |mut values: Vec<u64>| {
        values.sort_unstable();
        values
    };
    let work_ms = sorted(sessions.iter().filter_map(|(_, session)| session.work_ms).collect());
    let unfinished = sessions.iter().filter(|(_, session)| session.state == Some(AssignmentState::Expired));
    let unfinished_ms = sorted(unfinished.filter_map(|(_, session)| session.open_ms).collect());
    // Unfinished work took longer than any time that is known of it: it stands behind all finished work.
    let all = work_ms.len() + unfinished_ms.len();
    let finished = |percent| work_ms.get(rank(all, percent) - 1).copied();
    ClassStats {
        value: value.to_owned(),
        clients,
        assigned: sessions.len() as u64,
        reported,
        rejected,
        failed,
        expired,
        spare,
        counted_rate: counted.rate(),
        counted_rate_low,
        counted_rate_high,
        verdict: ClassVerdict::Unknown,
        drop_rate: if dropped == 0 { 0.0 } else { dropped as f64 / (dropped + reported) as f64 },
        work_ms_p50: finished(50),
        work_ms_p90: finished(90),
        work_ms_over: percentile(&unfinished_ms, 50),
        shapes: funnel(sessions.iter().copied(), None),
    }
}

/// The smallest value that at least `percent` of the sorted values do not exceed (nearest rank).
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    sorted.get(rank(sorted.len(), percent) - 1).copied()
}

/// The place, from 1, of a percentile among this many sorted values.
fn rank(values: usize, percent: usize) -> usize {
    (values * percent).div_ceil(100).max(1)
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
            (Session { fetched: true, stopped: true, ..session(Expired) }, "cad.s"),
            (Session { stopped: true, ..session(Expired) }, "ca.s"),
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
    fn a_class_that_never_reports_comes_first_with_its_times_cut_off_at_the_close() {
        let (fast, slow, rare) = (attributes("8"), attributes("2"), attributes("4"));
        let reported = Session { work_ms: Some(700), ..session(AssignmentState::Reported) };
        let spare = Session { spare: true, stopped: true, open_ms: Some(900), ..session(AssignmentState::Expired) };
        let mut sessions = vec![(&rare, &reported), (&rare, &spare)];
        sessions.extend([(&fast, &reported); 50]);
        sessions.extend([(&fast, &spare); 2]);
        sessions.extend([(&slow, &spare); 12]);
        let stats = class_stats("ram", [(&fast, 10), (&slow, 2), (&rare, 1)], sessions);
        let verdicts: Vec<_> = stats.iter().map(|class| (class.value.as_str(), class.verdict)).collect();
        assert_eq!(verdicts, [("2", ClassVerdict::ShutOut), ("4", ClassVerdict::Unknown), ("8", ClassVerdict::Fair)]);
        let shut_out = &stats[0];
        assert_eq!((shut_out.spare, shut_out.drop_rate, shut_out.counted_rate), (12, 0.0, 0.0));
        assert_eq!((shut_out.work_ms_p50, shut_out.work_ms_over), (None, Some(900)), "longer than until the close");
        assert_eq!((stats[2].work_ms_p50, stats[2].work_ms_p90), (Some(700), Some(700)));
        assert_eq!((stats[1].work_ms_p50, stats[1].work_ms_p90), (Some(700), None));
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
