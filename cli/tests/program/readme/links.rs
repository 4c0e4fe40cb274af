//! Links between the pages of the repository resolve.

use std::path::Path;

use super::pages::{pages, prose, repository};

#[test]
fn every_relative_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 5, "{pages:?}");
    let mut broken = Vec::new();
    for page in &pages {
        let text = prose(&std::fs::read_to_string(page).unwrap());
        for target in targets(&text).filter(|target| !target.contains("://")) {
            if !resolves(page, &text, target) {
                broken.push(format!("{}: {target}", page.strip_prefix(repository()).unwrap().display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_found() {
    let (page, text) = (repository().join("README.md"), "## What is `it`?\n");
    for good in ["Cargo.toml", "docs", "#what-is-it"] {
        assert!(resolves(&page, text, good), "{good}");
    }
    for bad in ["docs/missing.md", "#what-was-it", "CHANGELOG.md#missing"] {
        assert!(!resolves(&page, text, bad), "{bad}");
    }
}

/// What stands in the round brackets of the links and images of a page.
fn targets(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn resolves(page: &Path, prose_of_page: &str, target: &str) -> bool {
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = page.parent().unwrap().join(file);
    let Some(heading) = heading else { return path.exists() };
    match file {
        "" => has_heading(prose_of_page, heading),
        _ => std::fs::read_to_string(path).is_ok_and(|text| has_heading(&prose(&text), heading)),
    }
}

/// Whether a page has a heading with this anchor, as GitHub makes anchors: small letters, hyphens for spaces, no other
/// punctuation.
fn has_heading(prose: &str, anchor: &str) -> bool {
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor_of = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.into_iter().any(|heading| anchor_of(heading) == anchor)
}
