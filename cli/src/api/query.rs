//! Queries of the operator API as pairs of a URL.

use tributary_protocol::operator::{AuditQuery, PageQuery};

pub(super) fn page_pairs(page: &PageQuery) -> Vec<(&'static str, String)> {
    let limit = page.limit.map(|limit| ("limit", limit.to_string()));
    let after = page.after.clone().map(|after| ("after", after));
    limit.into_iter().chain(after).collect()
}

pub(super) fn audit_pairs(query: &AuditQuery) -> Vec<(&'static str, String)> {
    let AuditQuery { limit, after, action, person, subject, since_at_ms, until_at_ms, fold } = query;
    let mut pairs = page_pairs(&PageQuery { limit: *limit, after: after.clone() });
    pairs.extend(action.map(|action| ("action", action.to_string())));
    pairs.extend(person.clone().map(|person| ("person", person)));
    pairs.extend(subject.clone().map(|subject| ("subject", subject)));
    pairs.extend(since_at_ms.map(|at_ms| ("since_at_ms", at_ms.to_string())));
    pairs.extend(until_at_ms.map(|at_ms| ("until_at_ms", at_ms.to_string())));
    pairs.extend(fold.then(|| ("fold", "true".to_owned())));
    pairs
}
