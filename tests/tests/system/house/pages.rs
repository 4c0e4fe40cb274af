//! Pages about the code say what the code says: the arrows between packages, the words and their types.

use std::collections::BTreeMap;

use super::packages::{PACKAGES, manifest};
use super::sources::Sources;

/// A page of the repository.
pub(super) fn page(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// `ARCHITECTURE.md` has a row for each package, with the folders of the packages that it may depend on.
pub(super) fn the_arrows_are_those_of_packages(sources: &Sources, architecture: &str) -> Vec<String> {
    let named = PACKAGES.iter().map(|(folder, _)| {
        let (_, text) = sources.get(&format!("{folder}/Cargo.toml")).expect("a package has a manifest");
        (manifest(text).0, *folder)
    });
    let folders: BTreeMap<String, &str> = named.collect();
    let rows = PACKAGES.iter().map(|(folder, allowed)| {
        let to: Vec<String> = allowed.iter().map(|package| format!("`{}`", folders[*package])).collect();
        format!("| `{folder}` | {} |", if to.is_empty() { "none".to_owned() } else { to.join(", ") })
    });
    let missing = rows.filter(|row| !architecture.lines().any(|line| line == row));
    missing.map(|row| format!("ARCHITECTURE.md: there is no row {row}, which PACKAGES has")).collect()
}

/// A type that a word names.
struct Word<'a> {
    name: &'a str,
    /// Files, and folders that end in `/`, which may define a public type of this name.
    places: Vec<&'a str>,
}

/// The types of the tables of `docs/words.md`: in the third column, the name and then its places in backticks.
fn words(page: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let third = row.trim_matches('|').split('|').nth(2).unwrap_or_default();
        let mut quoted = third.split('`').skip(1).step_by(2);
        if let Some(name) = quoted.next() {
            words.push(Word { name, places: quoted.collect() });
        }
    }
    words
}

/// Every word has one meaning: a public type with its name is where `docs/words.md` says, and nowhere else.
pub(super) fn types_are_where_their_word_says(sources: &Sources, page: &str) -> Vec<String> {
    let words = words(page);
    assert!(words.len() > 40, "docs/words.md names {} types", words.len());
    let mut broken = Vec::new();
    for (file, text) in sources.rust("").filter(|(file, _)| file.contains("/src/")) {
        for (line, name) in public_types(text) {
            if let Some(Word { places, .. }) = words.iter().find(|word| word.name == name)
                && !places.iter().any(|place| file.starts_with(place))
            {
                let places = places.join(" and ");
                broken.push(format!("{file}:{line}: {name} is a word of docs/words.md, and its type is in {places}"));
            }
        }
    }
    for Word { name, places } in &words {
        // Some types are made by a macro, so any mention of the name will do.
        let says = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *name);
        let missing = places.iter().filter(|place| !sources.rust(place).any(|(_, text)| says(text)));
        broken.extend(missing.map(|place| format!("docs/words.md: there is no {name} in {place}")));
        if places.is_empty() {
            broken.push(format!("docs/words.md: {name} has no place"));
        }
    }
    broken
}

/// The public types that a source defines, with their lines.
fn public_types(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).filter_map(|(text, line)| {
        let (kind, rest) = text.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
        ["struct", "enum", "trait", "type"].contains(&kind).then_some((line, name))
    })
}
