//! Changes of health that are worth a notification: a finding that stays, and the end of one that was told.

use tributary_protocol::operator::Health;
use tributary_protocol::state::{HealthKind, Severity};

/// How long a finding lasts before it is worth a notification, and how long it is away before it has ended, in
/// milliseconds. A round may lack clients for a few seconds, and a single good round is no recovery.
pub const SETTLED_MS: i64 = 60_000;

/// A finding of earlier looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: HealthKind,
    pub since_at_ms: i64,
    pub is_told: bool,
    /// Since when it is gone.
    pub gone_at_ms: Option<i64>,
}

/// What is new of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthChange {
    /// It is there for the first time.
    Found(HealthKind),
    /// It has stayed, and is to be told.
    Began(Health),
    /// It is gone, perhaps not for long.
    Gone(HealthKind),
    /// It is there again.
    Back(HealthKind),
    /// It stayed away: it is forgotten, and its end is told if its beginning was.
    Ended { kind: HealthKind, is_told: bool },
}

/// Compares the lines of a job's health with what is known. Only lines that call for an action are findings.
pub fn health_changes(known: &[Finding], lines: &[Health], now_ms: i64) -> Vec<HealthChange> {
    let acts = |line: &&Health| matches!(line.severity, Severity::Warning | Severity::Trouble);
    let line_of = |kind: HealthKind| lines.iter().filter(acts).find(|line| line.kind == kind);
    let found = lines.iter().filter(acts).map(|line| line.kind);
    let found = found.filter(|kind| known.iter().all(|finding| finding.kind != *kind)).map(HealthChange::Found);
    let changed = known.iter().flat_map(|finding| change_of(finding, line_of(finding.kind), now_ms));
    found.chain(changed).collect()
}

fn change_of(finding: &Finding, line: Option<&Health>, now_ms: i64) -> Vec<HealthChange> {
    let Finding { kind, since_at_ms, is_told, gone_at_ms } = *finding;
    match (line, gone_at_ms) {
        (Some(_), Some(_)) => vec![HealthChange::Back(kind)],
        (Some(line), None) if !is_told && now_ms - since_at_ms >= SETTLED_MS => vec![HealthChange::Began(line.clone())],
        (Some(_), None) => Vec::new(),
        (None, _) if !is_told => vec![HealthChange::Ended { kind, is_told }],
        (None, None) => vec![HealthChange::Gone(kind)],
        (None, Some(gone_at_ms)) if now_ms - gone_at_ms >= SETTLED_MS => vec![HealthChange::Ended { kind, is_told }],
        (None, Some(_)) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: HealthKind = HealthKind::ClassShutOut;

    fn line(severity: Severity) -> Health {
        Health { severity, kind: KIND, text: "text".into(), remedy: None }
    }

    fn known(is_told: bool, gone_at_ms: Option<i64>) -> Finding {
        Finding { kind: KIND, since_at_ms: 1_000, is_told, gone_at_ms }
    }

    #[test]
    fn a_finding_is_told_once_it_stays_and_its_end_once_it_stays_away() {
        let warning = [line(Severity::Warning)];
        let ended = |is_told| HealthChange::Ended { kind: KIND, is_told };
        for (known, lines, now_ms, change) in [
            (None, &warning[..], 1_000, Some(HealthChange::Found(KIND))),
            (Some(known(false, None)), &warning, 60_999, None),
            (Some(known(false, None)), &warning, 61_000, Some(HealthChange::Began(warning[0].clone()))),
            (Some(known(true, None)), &warning, 99_000, None),
            (Some(known(false, None)), &[], 2_000, Some(ended(false))),
            (Some(known(true, None)), &[], 99_000, Some(HealthChange::Gone(KIND))),
            (Some(known(true, Some(99_000))), &[], 158_999, None),
            (Some(known(true, Some(99_000))), &warning, 158_999, Some(HealthChange::Back(KIND))),
            (Some(known(true, Some(99_000))), &[], 159_000, Some(ended(true))),
        ] {
            let changes = health_changes(known.as_slice(), lines, now_ms);
            assert_eq!(changes, Vec::from_iter(change), "{known:?} at {now_ms}");
        }
    }

    #[test]
    fn what_needs_no_action_is_no_finding() {
        for severity in [Severity::Ok, Severity::Waiting] {
            assert_eq!(health_changes(&[], &[line(severity)], 0), []);
        }
    }
}
