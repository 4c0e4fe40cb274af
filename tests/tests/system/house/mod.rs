//! The rules of the source tree: which file may import which, and what every file looks like. The message of a broken
//! rule names the arrow, from file to file with its line, and the reason.
//!
//! | file | content |
//! |---|---|
//! | [`sources`], [`tokens`], [`modules`], [`graph`] | from the texts of a crate to its import graph |
//! | [`rules`] | rules of the sources: rooms, circles, reserved paths, texts |
//! | [`packages`] | rules of the manifests and the lock file |
//! | [`pages`] | pages about the code: arrows between packages, words and their types |
//! | [`supply`] | licences, origins and names of dependencies |
//! | [`markdown`] | rules of the Markdown files |
//! | [`crates`] | tests of the graph on small made-up crates |
//! | [`broken`] | tests of the rules: each one names what was added on purpose to break it |
//!
//! The rules are tables with a reason in each row. A change of the layout changes a row.

mod broken;
mod crates;
mod graph;
mod markdown;
mod modules;
mod packages;
mod pages;
mod rules;
mod sources;
mod supply;
mod tokens;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use graph::Graph;
use packages::PACKAGES;
use pages::page;
use sources::Sources;

static SOURCES: LazyLock<Sources> = LazyLock::new(|| {
    let packages: Vec<&str> = PACKAGES.iter().map(|(folder, _)| *folder).chain(["tests"]).collect();
    Sources::of_repository(&packages)
});

/// The graph of each package, by its folder.
static GRAPHS: LazyLock<BTreeMap<&str, Graph>> =
    LazyLock::new(|| PACKAGES.iter().map(|(folder, _)| (*folder, Graph::of(&SOURCES, folder))).collect());

/// Packages whose files form no circle. In `protocol`, types in different files refer to each other.
const WITHOUT_CIRCLES: [&str; 11] = [
    "collective",
    "engine",
    "server",
    "client-sdk",
    "client-sdk/browser",
    "client-sdk/python",
    "client-sdk/ffi",
    "cli",
    "bench",
    "simulation",
    "dashboard",
];

fn holds(broken: Vec<String>) {
    assert!(broken.is_empty(), "broken {} times:\n\n{}\n", broken.len(), broken.join("\n"));
}

#[test]
fn the_graph_follows_every_import() {
    holds(GRAPHS.values().flat_map(rules::every_import_is_followed).collect());
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    holds(WITHOUT_CIRCLES.iter().flat_map(|folder| rules::no_circle_of_files(&GRAPHS[folder])).collect());
}

#[test]
fn rooms_import_downwards() {
    holds(GRAPHS.values().flat_map(rules::rooms_import_downwards).collect());
}

#[test]
fn reserved_paths_stay_where_they_belong() {
    holds(GRAPHS.values().flat_map(rules::reserved_paths_stay_where_they_belong).collect());
}

#[test]
fn only_lifecycle_changes_a_phase_or_state() {
    holds(rules::only_lifecycle_changes_state(&SOURCES));
}

#[test]
fn only_one_file_reads_accepted_updates() {
    holds(rules::only_stored_reads_updates(&SOURCES));
}

#[test]
fn engine_and_protocol_reach_no_runtime() {
    holds(packages::pure_packages_reach_no_runtime(&SOURCES));
}

#[test]
fn packages_keep_their_order() {
    holds(packages::packages_keep_their_order(&SOURCES));
}

#[test]
fn modules_with_children_are_folders() {
    holds(rules::folders_draw_the_system(&SOURCES));
}

#[test]
fn texts_are_finished() {
    holds(rules::texts_are_finished(&SOURCES));
}

#[test]
fn the_architecture_page_has_the_arrows_between_packages() {
    holds(pages::the_arrows_are_those_of_packages(&SOURCES, &page("ARCHITECTURE.md")));
}

#[test]
fn a_type_with_the_name_of_a_word_is_where_the_page_of_words_says() {
    holds(pages::types_are_where_their_word_says(&SOURCES, &page("docs/words.md")));
}

#[test]
fn tables_of_the_pages_are_whole() {
    let pages = markdown::pages_of_repository();
    assert!(pages.iter().any(|(path, _)| path == "docs/rules.md"), "{pages:?}");
    holds(markdown::tables_are_whole(&pages));
}

/// The tables of limits and attacks in `docs/security.md` name the tests that prove them.
#[test]
fn the_security_page_names_tests_that_exist() {
    let page = page("docs/security.md");
    let is_test = |name: &&str| {
        let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        name.len() > 20 && !name.starts_with("tributary_") && name.chars().all(is_word)
    };
    let names = page.split('`').skip(1).step_by(2).map(|name| name.rsplit("::").next().unwrap_or(name));
    let named: Vec<&str> = names.filter(is_test).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        let begin = format!("fn {name}(");
        assert!(SOURCES.rust("").any(|(_, text)| text.contains(&begin)), "there is no test {name}");
    }
}
