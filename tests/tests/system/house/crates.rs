//! Made-up crates: the graph has the arrows that the compiler would follow, and no others.

use super::graph::Graph;
use super::rules::no_circle_of_files;
use super::sources::Sources;

/// The graph of a crate of these files.
fn graph(files: &[(&str, &str)]) -> Graph {
    let mut sources = Sources::default();
    for (path, text) in files {
        sources.put(&format!("made/src/{path}"), text);
    }
    Graph::of(&sources, "made")
}

/// Its arrows as `from -> to`, each once.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let graph = graph(files);
    assert_eq!(graph.lost, [""; 0]);
    let short = |path: &str| path.trim_start_matches("made/src/").to_owned();
    let mut arrows: Vec<_> =
        graph.arrows.iter().map(|arrow| format!("{} -> {}", short(&arrow.from), short(&arrow.to))).collect();
    arrows.sort();
    arrows.dedup();
    arrows
}

/// The arrows of a crate whose file `a.rs` is this text, beside a file `b.rs` and a file `c.rs`.
fn arrows_of(text: &str) -> Vec<String> {
    let b = "pub struct B; pub fn f() {} pub mod inner { pub struct D; pub fn g() {} }";
    arrows(&[("lib.rs", "mod a; mod b; mod c;"), ("a.rs", text), ("b.rs", b), ("c.rs", "pub struct C;")])
}

#[test]
fn an_import_leads_to_the_file_of_what_it_names() {
    for text in [
        "use crate::b::B;",
        "use crate::{b::{B, f}};",
        "use crate::{self as root, b::{inner::{D, g}, B}};",
        "use super::b::B as Renamed;",
        "use crate::b::B as _;",
        "use self::super::b::B;",
        "pub(crate) use crate::b::B;",
        "use crate::b::*;",
        "fn x() { use crate::b::f; f() }",
        "mod inline { mod again { use super::super::super::b::B; } }",
    ] {
        assert_eq!(arrows_of(text), ["a.rs -> b.rs"], "{text}");
    }
}

#[test]
fn a_path_in_a_body_is_an_import() {
    for text in [
        "use crate::b;\nfn x() { b::f() }",
        "use crate::b::{self};\nfn x() { b::f() }",
        "use crate::b as other;\nfn x() { other::f() }",
        "use super::*;\nfn x() { b::f() }",
        "fn x() -> crate::b::B { todo() }",
        "fn x() { let x = Vec::<crate::b::B>::new(); }",
        "fn x() { println!(\"{}\", crate::b::f()) }",
        "fn x<'b>(b: &'b str) -> char { super::b::f(); 'b' }",
        "type T = <crate::b::B as Iterator>::Item;",
        "impl crate::b::B { const X: u8 = 1; }",
        "macro_rules! m { () => { $crate::b::f() } }",
        "#[derive(Clone)] struct S { #[serde(with = \"crate::b::inner\")] d: u8 }",
        "use crate::b::inner;\nstruct S { #[serde(with = \"inner\")] d: u8 }",
        "#[cfg(not(test))] use crate::b::B;",
        "#[cfg(any(test, feature = \"testing\"))] use crate::b::B;",
    ] {
        assert_eq!(arrows_of(text), ["a.rs -> b.rs"], "{text}");
    }
}

#[test]
fn what_is_not_compiled_imports_nothing() {
    for text in [
        "// use crate::b::B;",
        "//! [`crate::b::B`]\n/* use crate::b::B; /* nested */ use crate::b::B; */",
        "const X: &str = \"crate::b::B \\\" crate::b::B\";",
        "const X: &str = r#\"\" crate::b::B\"#; const Y: &[u8] = b\"crate::b::B\"; const Z: char = '\\'';",
        "pub(in crate::b) fn x() {}",
        "fn x() -> impl Iterator<Item = u8> + use<'_> { if !b { c != d } }",
        "use crate::b;",
        "use std::fmt; fn x() { fmt::Error; tokio::spawn(async {}) }",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(all(test, unix))] #[allow(dead_code)] pub(crate) fn x() -> crate::b::B { { } }",
        "#[cfg(test)] const X: [crate::b::B; 1] = [crate::b::B {}]; fn x() {}",
        "#![cfg(test)] use crate::b::B;",
    ] {
        assert_eq!(arrows_of(text), [""; 0], "{text}");
    }
}

#[test]
fn what_follows_a_part_for_tests_is_compiled() {
    for text in [
        "struct S { #[cfg(test)] b: crate::b::B, c: crate::c::C }",
        "#[cfg(test)] mod tests { use crate::b::B; } use crate::c::C;",
        "#[cfg(test)] impl<T, U> S<T, U> { fn x() -> crate::b::B {} } use crate::c::C;",
        "fn x() { #[cfg(test)] let b = crate::b::B {}; crate::c::C }",
        "enum E { #[cfg(test)] B(crate::b::B), C(crate::c::C) }",
        "fn x() { match y { #[cfg(test)] 1 => crate::b::f(), _ => crate::c::C } }",
    ] {
        assert_eq!(arrows_of(text), ["a.rs -> c.rs"], "{text}");
    }
    let crate_ = [("lib.rs", "#[cfg(test)] mod tests; mod b;"), ("tests.rs", "use crate::b::B;"), ("b.rs", "")];
    assert_eq!(graph(&crate_).files.len(), 2, "a file of tests is no file of the crate");
}

#[test]
fn a_reexport_is_followed_to_the_definition() {
    for parent in [
        "mod error; mod child; pub use error::DbError;",
        "mod error; mod child; pub(super) use self::error::{DbError};",
        "mod error; mod child; pub use error::*;",
        "mod error; mod child; pub use child::DbError;",
        "mod error; mod child; pub mod facade { pub use super::error::DbError; } pub use facade::DbError;",
    ] {
        let child = "use super::DbError; pub fn f() {}";
        let mut crate_ = vec![
            ("lib.rs", "mod db; mod user; pub use db::DbError;"),
            ("db/mod.rs", parent),
            ("db/error.rs", "pub struct DbError;"),
            ("db/child.rs", if parent.contains("child::D") { "pub use super::error::DbError;" } else { child }),
            ("user.rs", "use crate::db::DbError;"),
        ];
        let expected = ["db/child.rs -> db/error.rs", "db/mod.rs -> db/error.rs", "lib.rs -> db/error.rs"];
        assert_eq!(arrows(&crate_), [&expected[..], &["user.rs -> db/error.rs"]].concat(), "{parent}");
        crate_[4].1 = "use crate::DbError as Error; fn f() -> Error { Error::new() }";
        assert_eq!(arrows(&crate_), [&expected[..], &["user.rs -> db/error.rs"]].concat(), "{parent}");
    }
}

#[test]
fn a_child_that_uses_a_sibling_by_their_parent_is_in_no_circle_and_one_that_uses_the_parent_is() {
    let by_parent = [
        ("lib.rs", "mod db;"),
        ("db/mod.rs", "mod error; mod rounds; pub use error::DbError; pub use rounds::rounds;"),
        ("db/error.rs", "pub struct DbError;"),
        ("db/rounds.rs", "use super::DbError; pub fn rounds() -> Result<(), DbError> {}"),
    ];
    assert_eq!(no_circle_of_files(&graph(&by_parent)), [""; 0]);
    let of_parent = [
        ("lib.rs", "mod db;"),
        ("db/mod.rs", "mod rounds;\npub struct DbError;\nfn x() { rounds::rounds() }"),
        ("db/rounds.rs", "use super::DbError; pub fn rounds() -> Result<(), DbError> {}"),
    ];
    let circle = no_circle_of_files(&graph(&of_parent)).join("\n");
    for arrow in [
        "made/src/db/mod.rs:3 -> made/src/db/rounds.rs (rounds::rounds)",
        "made/src/db/rounds.rs:1 -> made/src/db/mod.rs (super::DbError)",
    ] {
        assert!(circle.contains(arrow), "{circle}");
    }
}

#[test]
fn of_a_knot_the_shortest_circle_is_named() {
    let files = [
        ("main.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::c::C; pub struct D;"),
    ];
    let graph = graph(&files);
    let [(4, circle)] = &graph.circles()[..] else { panic!("{:?}", graph.circles()) };
    let files: Vec<_> = circle.iter().map(|arrow| (arrow.from.as_str(), arrow.to.as_str())).collect();
    assert_eq!(files, [("made/src/c.rs", "made/src/d.rs"), ("made/src/d.rs", "made/src/c.rs")]);
}

#[test]
fn macros_lead_to_the_file_that_defines_them() {
    let tx = ("db/tx.rs", "macro_rules! fetch { () => { $crate::db::tx::Tx } } pub(super) use fetch; pub struct Tx;");
    let imported =
        [("lib.rs", "mod db;"), ("db/mod.rs", "mod tx; mod rounds;"), tx, ("db/rounds.rs", "use super::tx::fetch;")];
    assert_eq!(arrows(&imported), ["db/rounds.rs -> db/tx.rs"]);
    let around = [("lib.rs", "macro_rules! m { () => {} } mod a;"), ("a.rs", "fn x() { m!(); println!() }")];
    assert_eq!(arrows(&around), ["a.rs -> lib.rs"]);
    let exported = [
        ("lib.rs", "mod cpu; mod user;"),
        ("cpu.rs", "#[macro_export]\nmacro_rules! each { () => {} }"),
        ("user.rs", "fn x() { crate::each!() }"),
    ];
    assert_eq!(arrows(&exported), ["user.rs -> cpu.rs"]);
}

#[test]
fn names_that_macros_make_are_found() {
    let ids = "macro_rules! id { ($name:ident) => { pub struct $name; pub enum IdError {} } } id!(JobId);";
    let crate_ =
        [("lib.rs", "mod id; mod a; pub use id::JobId;"), ("id.rs", ids), ("a.rs", "use crate::id::{JobId, IdError};")];
    assert_eq!(arrows(&crate_), ["a.rs -> id.rs", "lib.rs -> id.rs"]);
}

#[test]
fn a_crate_and_a_module_of_one_name_are_distinguished() {
    let text = "use metrics::Counter; use tokio::sync as waiting; fn x() { waiting::Notify::new() }";
    let crate_ = [("lib.rs", "mod metrics;"), ("metrics/mod.rs", "mod registry;"), ("metrics/registry.rs", text)];
    let graph = graph(&crate_);
    let outward: Vec<_> = graph.outward.iter().map(|outward| outward.path.as_str()).collect();
    assert_eq!(outward, ["metrics::Counter", "tokio::sync", "tokio::sync::Notify::new"]);
    assert!(graph.arrows.is_empty() && graph.lost.is_empty());
    let inward = [("lib.rs", "mod metrics; use metrics::Counter;"), ("metrics/mod.rs", "pub struct Counter;")];
    assert_eq!(arrows(&inward), ["lib.rs -> metrics/mod.rs"]);
}

#[test]
fn a_module_and_a_function_of_one_name_are_distinguished() {
    let lib = ("lib.rs", "mod round; mod a; pub fn round() {}");
    let round = ("round.rs", "pub fn open() {}");
    assert_eq!(arrows(&[lib, round, ("a.rs", "fn x() { crate::round::open() }")]), ["a.rs -> round.rs"]);
    assert_eq!(arrows(&[lib, round, ("a.rs", "use crate::round; fn x() { round() }")]), ["a.rs -> lib.rs"]);
}

#[test]
fn items_of_foreign_code_are_items() {
    let foreign = ("b.rs", "#[bound]\nextern \"C\" { pub type B; pub(crate) fn f(this: &B) -> u8; }");
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::{B, f};"), foreign];
    assert_eq!(arrows(&files), ["a.rs -> b.rs"]);
}

#[test]
fn a_path_that_leads_nowhere_is_named() {
    let lib = ("lib.rs", "mod a; mod b;\nmod without_file;");
    let crate_ = [lib, ("a.rs", "\nuse crate::b::Gone;\nuse super::c::C;"), ("b.rs", "")];
    let lost = ["lib.rs:2: mod without_file", "a.rs:2: crate::b::Gone", "a.rs:3: super::c::C"];
    assert_eq!(graph(&crate_).lost, lost.map(|path| format!("made/src/{path}")));
}
