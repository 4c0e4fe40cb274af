//! Each rule fails when something that breaks it is added on purpose, and its message names what was added.

use super::graph::Graph;
use super::markdown::tables_are_whole;
use super::packages::{packages_keep_their_order, pure_packages_reach_no_runtime};
use super::pages::{page, the_arrows_are_those_of_packages, types_are_where_their_word_says};
use super::rules::{
    ROOMS, Room, folders_draw_the_system, no_circle_of_files, only_lifecycle_changes_state, only_stored_reads_updates,
    reserved_paths_stay_where_they_belong, rooms_import_downwards, texts_are_finished,
};
use super::sources::Sources;
use super::{GRAPHS, SOURCES};

/// What a rule says after a change and did not say before it.
fn said(before: &[String], after: Vec<String>) -> String {
    after.into_iter().filter(|broken| !before.contains(broken)).collect::<Vec<_>>().join("\n")
}

/// What a rule says of the sources after a change.
fn said_after(change: impl FnOnce(&mut Sources), rule: fn(&Sources) -> Vec<String>) -> String {
    let mut changed = SOURCES.clone();
    change(&mut changed);
    said(&rule(&SOURCES), rule(&changed))
}

fn names_all(said: &str, expected: &[&str]) {
    for expected in expected {
        assert!(said.contains(expected), "{expected} is not in\n{said}");
    }
}

/// A file of each room, and its module.
fn file_of_each_room(folder: &str, rooms: &[Room]) -> Vec<(&'static str, String)> {
    let files = rooms.iter().map(|room| {
        let path = format!("{folder}{}", room.paths[0]);
        let is_leaf = |file: &&str| !file.ends_with("/mod.rs") && !file.ends_with("/tests.rs");
        let (file, _) = SOURCES.rust(&path).find(|(file, _)| is_leaf(file)).expect("a room has a file");
        let module = file.trim_start_matches(folder).trim_end_matches(".rs").replace('/', "::");
        (file, format!("crate::{module}"))
    });
    files.collect()
}

/// A file of every room imports something from a file of every room: the rule names the arrows upwards and no others.
#[test]
fn every_arrow_upwards_between_rooms_is_named() {
    for (folder, rooms) in ROOMS {
        let files = file_of_each_room(folder, rooms);
        let mut changed = SOURCES.clone();
        let imports: String = files.iter().map(|(_, module)| format!("use {module}::Planted as _;")).collect();
        for (file, _) in &files {
            changed.put_line(file, &format!("pub struct Planted; {imports}"));
        }
        let package = folder.split('/').next().expect("a folder of a package");
        let after = rooms_import_downwards(&Graph::of(&changed, package));
        let named: Vec<_> = after.iter().filter(|broken| broken.contains("Planted")).collect();
        for (index, (from, _)) in files.iter().enumerate() {
            for (to, module) in &files[index + 1..] {
                let arrow = format!("{from}:1 -> {to} ({module}::Planted)");
                assert!(named.iter().any(|broken| broken.starts_with(&arrow)), "{arrow} is not in\n{after:#?}");
            }
        }
        assert_eq!(named.len(), files.len() * (files.len() - 1) / 2);
    }
}

#[test]
fn imports_that_are_added_on_purpose_are_named() {
    let mut changed = SOURCES.clone();
    changed.put_line("server/src/db/rounds.rs", "use crate::coordinator::Coordinator;");
    changed.put_line("server/src/scheduled/retention.rs", "fn planted() { crate::api::planted() }");
    changed.put_line("server/src/api/mod.rs", "use sqlx::Row; pub fn planted() {}");
    changed.put_line("server/src/lifecycle/rounds.rs", "fn planted() -> axum::response::Response {}");
    changed.put_line(
        "server/src/api/problem.rs",
        "use tributary_engine::{round, story}; fn planted() { round::decide() }",
    );
    changed.put("server/src/plan.rs", "");
    changed.put_line("server/src/lib.rs", "mod plan;");
    let (before, after) = (&GRAPHS["server"], Graph::of(&changed, "server"));
    names_all(
        &said(&rooms_import_downwards(before), rooms_import_downwards(&after)),
        &[
            "server/src/db/rounds.rs:1 -> server/src/coordinator.rs (crate::coordinator::Coordinator): db/ is below",
            "server/src/scheduled/retention.rs:1 -> server/src/api/mod.rs (crate::api::planted): scheduled/ is below",
            "server/src/plan.rs: it is in no room",
        ],
    );
    names_all(
        &said(&reserved_paths_stay_where_they_belong(before), reserved_paths_stay_where_they_belong(&after)),
        &[
            "server/src/api/mod.rs:1 -> sqlx::Row: every query is a method of db/",
            "server/src/lifecycle/rounds.rs:1 -> axum::response::Response: only the API speaks HTTP",
            "server/src/api/problem.rs:1 -> tributary_engine::round::decide: the driver asks the rules",
        ],
    );
}

#[test]
fn a_child_that_uses_its_parent_is_named() {
    let mut changed = SOURCES.clone();
    changed.put_line("engine/src/round/mod.rs", "pub struct Planted;");
    changed
        .put_line("engine/src/round/retention.rs", "use super::Planted; fn planted() { std::time::Instant::now(); }");
    let (before, after) = (&GRAPHS["engine"], Graph::of(&changed, "engine"));
    names_all(
        &said(&no_circle_of_files(before), no_circle_of_files(&after)),
        &[
            "a circle in a knot of 2 files",
            " -> engine/src/round/retention.rs (retention::",
            "engine/src/round/retention.rs:1 -> engine/src/round/mod.rs (super::Planted)",
        ],
    );
    names_all(
        &said(&[], reserved_paths_stay_where_they_belong(&after)),
        &["engine/src/round/retention.rs:1 -> std::time::Instant::now: no I/O here; time is an argument"],
    );
}

#[test]
fn a_runtime_below_the_engine_is_named_however_deep_it_is() {
    let direct = said_after(
        |sources| sources.replace("engine/Cargo.toml", "[dependencies]", "[dependencies]\ntokio.workspace = true"),
        pure_packages_reach_no_runtime,
    );
    names_all(&direct, &["engine/Cargo.toml:", "tributary-engine -> tokio"]);
    let indirect = said_after(
        |sources| {
            let (_, lock) = SOURCES.get("Cargo.lock").unwrap();
            let croner = lock.split("[[package]]").find(|package| package.contains("name = \"croner\"")).unwrap();
            let with_tokio = croner.replace("dependencies = [", "dependencies = [\n \"tokio\",");
            sources.replace("Cargo.lock", croner, &with_tokio);
        },
        pure_packages_reach_no_runtime,
    );
    names_all(&indirect, &["engine/Cargo.toml: tributary-engine -> croner -> tokio"]);
}

#[test]
fn a_forbidden_arrow_between_packages_is_named() {
    let said = said_after(
        |sources| {
            let sdk = "[dev-dependencies]\ntributary-client.workspace = true";
            sources.replace("server/Cargo.toml", "[dev-dependencies]", sdk);
            let server = "[dependencies]\ntributary-server = { path = \"../server\" }";
            sources.replace("engine/Cargo.toml", "[dependencies]", server);
            sources.put_line(
                "protocol/Cargo.toml",
                "[target.'cfg(unix)'.dependencies]\ntributary-engine.workspace = true",
            );
            sources.replace("Cargo.toml", "\nmembers = [", "\nmembers = [\"ffi\", ");
            sources.replace("client-sdk/Cargo.toml", "tributary-tls =", "another-tls =");
        },
        packages_keep_their_order,
    );
    names_all(
        &said,
        &[
            "tributary-server -> tributary-client",
            "tributary-engine -> tributary-server",
            "protocol/Cargo.toml:2: tributary-protocol -> tributary-engine",
            "ffi has no row",
            "PACKAGES has tributary-client -> tributary-tls, which is not used",
        ],
    );
}

#[test]
fn an_arrow_that_the_architecture_page_lacks_is_named() {
    let page = page("ARCHITECTURE.md").replace("| `engine` | `protocol` |", "");
    let said = the_arrows_are_those_of_packages(&SOURCES, &page);
    assert_eq!(said, ["ARCHITECTURE.md: there is no row | `engine` | `protocol` |, which PACKAGES has"]);
}

#[test]
fn a_second_type_with_the_name_of_a_word_is_named() {
    let mut changed = SOURCES.clone();
    changed.put_line("server/src/fleet/mod.rs", "pub enum Round {}");
    let page = page("docs/words.md") + "\n| ghost | nothing | `Ghost` in `engine/src/` |\n";
    let said = types_are_where_their_word_says(&changed, &page);
    let expected = [
        "server/src/fleet/mod.rs:1: Round is a word of docs/words.md, and its type is in protocol/src/operator/",
        "docs/words.md: there is no Ghost in engine/src/",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_change_of_state_outside_of_lifecycle_is_named() {
    let call =
        "async fn planted(tx: &mut Tx) { tx.commit_round(key, 0).await; Tx::accept_report(tx, id, report, 0).await; }";
    let said = said_after(
        |sources| {
            sources.put_line("server/src/api/mod.rs", call);
            sources.put_line("server/src/lifecycle/mod.rs", call);
            // A transition that no list has: the rule finds it by its SQL.
            let sql = "\"update rounds set \\\n   goal = $1, phase = 'training' where number = $2\"";
            sources.put_line("server/src/db/rounds.rs", &format!("impl Tx {{ fn reopened(&mut self) {{ {sql} }} }}"));
            sources.put_line("server/src/driver/mod.rs", "fn planted(tx: &mut Tx) { tx.reopened(); tx.reopened_at; }");
        },
        only_lifecycle_changes_state,
    );
    names_all(
        &said,
        &[
            "server/src/api/mod.rs:1 -> Tx::commit_round: a phase or state changes only in lifecycle/",
            "server/src/api/mod.rs:1 -> Tx::accept_report",
            "server/src/driver/mod.rs:1 -> Tx::reopened:",
        ],
    );
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn a_second_reader_of_updates_is_named() {
    let reader = "async fn planted() { let key = crate::blob::update_key(id); blobs.reader(db, key, sha256).await }";
    let said =
        said_after(|sources| sources.put_line("server/src/models/statistics.rs", reader), only_stored_reads_updates);
    names_all(&said, &["server/src/models/statistics.rs:1 -> Blobs::reader, beside update_key"]);
}

#[test]
fn a_file_beside_its_folder_is_named() {
    let said = said_after(
        |sources| {
            sources.put("server/src/db.rs", "");
            (0..10).for_each(|number| sources.put(&format!("server/src/more_{number}.rs"), ""));
        },
        folders_draw_the_system,
    );
    names_all(&said, &["server/src/db.rs: beside the folder server/src/db/", "more_0.rs, more_1.rs"]);
}

#[test]
fn a_long_line_and_unsafe_code_are_named() {
    let mut sources = Sources::default();
    let long = format!("// {}", "ä".repeat(120));
    sources.put("planted.rs", &format!("// unsafe, todo!()\nfn f() {{ unsafe {{ todo!() }} }}\n{long}"));
    let said = texts_are_finished(&sources);
    let expected = [
        "planted.rs:3: 123 columns, more than 120",
        "planted.rs:2: unsafe is only in cli/src/allocator.rs and client-sdk/ffi/src/c/ and \
         client-sdk/tests/allocations.rs and protocol/src/cpu.rs",
        "planted.rs:2: todo! is no code yet",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_table_that_is_cut_in_two_is_named() {
    let table = "# Page\n\n| a | b |\n|:--|---|\n| 1 | 2 |\n| 3 | 4 |\n\n```\n| no | table |\n```\n";
    let broken = |text: &str| tables_are_whole(&[("docs/page.md".to_owned(), text.to_owned())]).join("\n");
    assert_eq!(broken(table), "");
    names_all(&broken(&table.replace("| 3", "\n| 3")), &["docs/page.md:7: ", "a gap cuts it"]);
    names_all(&broken(&table.replace("|:--|---|\n", "")), &["docs/page.md:3: "]);
}
