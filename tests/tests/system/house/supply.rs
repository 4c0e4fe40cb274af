//! What the dependencies may be, as `deny.toml` says: their licences, origins and names.
//!
//! cargo-deny reads the same file and checks more. It takes minutes to build, so here is what cargo alone can check.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// `deny.toml`, as far as it is checked here. Its other keys are cargo-deny's.
#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

fn deny() -> Deny {
    toml::from_str(&read("deny.toml")).unwrap()
}

/// Every package of every platform and feature, with its licence; `None` where cargo lacks some of them.
fn packages() -> Option<Vec<(String, String)>> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--workspace", "--all-features", "--target", "all", "--edges", "normal,build,dev"]);
    tree.args(["--prefix", "none", "--format", "{p}\t{l}", "--locked", "--offline"]);
    let output = tree.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).output().unwrap();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{error}");
        eprintln!("licences are not checked; cargo fetch --locked brings what is missing: {error}");
        return None;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    // A package that was listed before is marked.
    let lines = text.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('\t'));
    let mut packages: Vec<_> =
        lines.map(|(package, licence)| (package.split(' ').next().unwrap().to_owned(), licence.to_owned())).collect();
    packages.sort();
    packages.dedup();
    Some(packages)
}

/// Whether an SPDX expression is met by licences of which `allowed` says yes. `/` is an old way to write `OR`.
fn is_met(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any_of(&words, &mut at, allowed);
    met && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at, allowed);
    }
    met
}

fn all_of(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let Some(first) = words.get(*at) else { return false };
    *at += 1;
    if *first == "(" {
        let met = any_of(words, at, allowed);
        let is_closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && is_closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return allowed(&format!("{first} WITH {exception}"));
    }
    allowed(first)
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let Licences { allow, exceptions } = deny().licenses;
    let Some(packages) = packages() else { return };
    assert!(packages.len() > 300, "cargo tree lists {} packages", packages.len());
    let mut refused = Vec::new();
    for (package, licence) in &packages {
        let excepted = exceptions.iter().find(|exception| exception.package == *package);
        let known = allow.iter().chain(excepted.into_iter().flat_map(|exception| &exception.allow));
        let known: Vec<&String> = known.collect();
        if !is_met(licence, &|wanted| known.iter().any(|known| *known == wanted)) {
            refused.push(format!("{package}: {licence:?}"));
        }
    }
    assert_eq!(refused, [""; 0], "licences that deny.toml does not allow");
    for exception in exceptions {
        let is_there = packages.iter().any(|(package, _)| *package == exception.package);
        assert!(is_there, "deny.toml has an exception for {}, which nothing needs", exception.package);
    }
}

#[test]
fn every_dependency_comes_from_an_allowed_registry_and_none_is_banned() {
    let Deny { bans, sources, .. } = deny();
    let allowed: Vec<_> = sources.allow_registry.iter().map(|url| format!("registry+{url}")).collect();
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let text = read(lock);
        let values = |key: &'static str| {
            let lines = text.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix(" = "));
            lines.map(|value| value.trim_matches('"'))
        };
        let foreign: Vec<_> = values("source").filter(|source| !allowed.iter().any(|known| known == source)).collect();
        assert_eq!(foreign, [""; 0], "sources in {lock} that deny.toml does not allow");
        let banned: Vec<_> = values("name").filter(|name| bans.deny.iter().any(|banned| banned == name)).collect();
        assert_eq!(banned, [""; 0], "packages in {lock} that deny.toml bans");
    }
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = |licence: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&licence);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("GPL-3.0 OR (MIT AND GPL-2.0)", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH LLVM-exception", false),
        ("(MIT", false),
        ("MIT ISC", false),
    ] {
        assert_eq!(is_met(expression, &allowed), expected, "{expression}");
    }
}
