//! What packages depend on: by their manifests, and by the lock file what follows from it.
//!
//! The lock file has the features of all packages of the workspace together, so it may know of a dependency that a
//! package built alone does not have. It never lacks one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::sources::Sources;

/// Packages by folder, each with those of the workspace that it may depend on. Everything speaks the protocol.
pub(super) const PACKAGES: [(&str, &[&str]); 13] = [
    ("protocol", &[]),
    ("collective", &["tributary-protocol"]),
    ("tls", &[]),
    ("dashboard", &[]),
    ("engine", &["tributary-protocol"]),
    ("server", &["tributary-engine", "tributary-protocol", "tributary-tls", "tributary-dashboard"]),
    ("client-sdk", &["tributary-collective", "tributary-protocol", "tributary-tls"]),
    ("client-sdk/browser", &["tributary-client", "tributary-protocol"]),
    ("client-sdk/python", &["tributary-client", "tributary-protocol"]),
    ("client-sdk/ffi", &["tributary-client", "tributary-protocol"]),
    ("cli", &["tributary-server", "tributary-client", "tributary-engine", "tributary-protocol", "tributary-tls"]),
    ("simulation", &["tributary-client", "tributary-engine", "tributary-protocol"]),
    (
        "bench",
        &[
            "tributary",
            "tributary-client",
            "tributary-collective",
            "tributary-engine",
            "tributary-protocol",
            "tributary-server",
            "tributary-simulation",
        ],
    ),
];

/// Packages of pure functions.
const PURE: [&str; 2] = ["engine", "protocol"];
const RUNTIMES: [&str; 10] =
    ["tokio", "mio", "async-std", "sqlx", "sqlx-postgres", "sqlx-sqlite", "axum", "hyper", "reqwest", "object_store"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) line: usize,
    /// Only tests, benchmarks and examples have it.
    pub(super) dev: bool,
}

/// Name and dependencies of a package, from its manifest.
pub(super) fn manifest(text: &str) -> (String, Vec<Dependency>) {
    let (mut section, mut name, mut dependencies) = ("", None, Vec::new());
    for (line, text) in text.lines().enumerate().map(|(line, text)| (line + 1, text.trim())) {
        if let Some(header) = text.strip_prefix('[') {
            section = header.trim_end_matches(']');
            if let Some((table, dependency)) = section.rsplit_once("dependencies.") {
                let dev = table.ends_with("dev-");
                dependencies.push(Dependency { name: dependency.to_owned(), line, dev });
            }
        } else if let Some((key, value)) = text.split_once('=').filter(|_| !text.starts_with('#')) {
            let key = key.trim().split('.').next().unwrap_or_default();
            if section == "package" && key == "name" {
                name = Some(value.trim().trim_matches('"').to_owned());
            } else if section.ends_with("dependencies") {
                let renamed = value.split_once("package = \"").and_then(|(_, after)| after.split('"').next());
                let name = renamed.unwrap_or(key).to_owned();
                dependencies.push(Dependency { name, line, dev: section.ends_with("dev-dependencies") });
            }
        }
    }
    (name.expect("a package has a name"), dependencies)
}

/// The packages of a lock file as `name version`, each with what it depends on.
struct Lock<'a>(BTreeMap<String, Vec<&'a str>>);

impl<'a> Lock<'a> {
    fn read(text: &'a str) -> Self {
        let mut packages = BTreeMap::new();
        for package in text.split("[[package]]").skip(1) {
            let value = |key: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
                line.expect("a locked package has a name and a version").trim_matches('"')
            };
            let listed = package.split_once("dependencies = [").and_then(|(_, after)| after.split(']').next());
            let listed = listed.unwrap_or_default().split(',').map(|name| name.trim().trim_matches('"'));
            let key = format!("{} {}", value("name"), value("version"));
            packages.insert(key, listed.filter(|name| !name.is_empty()).collect());
        }
        Self(packages)
    }

    /// The key of a dependency. It is listed by its name alone where one version is locked.
    fn key(&self, dependency: &str) -> &str {
        let words: Vec<&str> = dependency.split(' ').take(2).collect();
        let first = if words.len() == 2 { words.join(" ") } else { format!("{dependency} ") };
        let (key, _) = self.0.range(first.clone()..).next().expect("what is listed is locked");
        assert!(key.starts_with(&first), "{dependency} is not in Cargo.lock");
        key
    }

    /// What a package is built with, without its tests: the keys of these dependencies.
    fn built_with(&self, package: &str, dependencies: &[Dependency]) -> Vec<&str> {
        let listed: Vec<&str> = self.0[self.key(package)].iter().map(|dependency| self.key(dependency)).collect();
        let key = |dependency: &Dependency| listed.iter().copied().find(|key| name_of(key) == dependency.name);
        let missing = |dependency: &Dependency| panic!("Cargo.lock: {package} does not list {}", dependency.name);
        let built_with = dependencies.iter().filter(|dependency| !dependency.dev);
        built_with.map(|dependency| key(dependency).unwrap_or_else(|| missing(dependency))).collect()
    }

    /// A shortest way, by names, from one of these keys to one of these names.
    fn way_to(&self, start: Vec<&str>, wanted: &[&str]) -> Option<Vec<String>> {
        let mut queue: VecDeque<_> = start.into_iter().map(|key| (key, vec![name_of(key).to_owned()])).collect();
        let mut seen = BTreeSet::new();
        while let Some((key, way)) = queue.pop_front() {
            if wanted.contains(&name_of(key)) {
                return Some(way);
            }
            for next in self.0[key].iter().map(|dependency| self.key(dependency)) {
                if seen.insert(next) {
                    queue.push_back((next, [way.as_slice(), &[name_of(next).to_owned()]].concat()));
                }
            }
        }
        None
    }
}

fn name_of(key: &str) -> &str {
    key.split(' ').next().unwrap_or_default()
}

/// What decides is a function of its arguments, so it reaches no runtime, by no way.
pub(super) fn pure_packages_reach_no_runtime(sources: &Sources) -> Vec<String> {
    let (_, lock) = sources.get("Cargo.lock").expect("the workspace has a lock file");
    let lock = Lock::read(lock);
    let reason = "a package of pure functions has no I/O";
    let mut broken = Vec::new();
    for folder in PURE {
        let (path, text) = manifest_of(sources, folder);
        let (name, dependencies) = manifest(text);
        let is_runtime = |found: &&Dependency| !found.dev && RUNTIMES.contains(&found.name.as_str());
        let direct: Vec<_> = dependencies.iter().filter(is_runtime).collect();
        for Dependency { name: found, line, .. } in &direct {
            broken.push(format!("{path}:{line}: {name} -> {found}: {reason}"));
        }
        // The lock file is older than a line that was just added.
        if direct.is_empty()
            && let Some(way) = lock.way_to(lock.built_with(&name, &dependencies), &RUNTIMES)
        {
            broken.push(format!("{path}: {name} -> {}: {reason}", way.join(" -> ")));
        }
    }
    broken
}

/// Arrows between packages, those of their tests included.
pub(super) fn packages_keep_their_order(sources: &Sources) -> Vec<String> {
    let (_, workspace) = sources.get("Cargo.toml").expect("the workspace has a manifest");
    let members = workspace.split_once("\nmembers = [").and_then(|(_, after)| after.split(']').next());
    let members = members.expect("it has members").split(',').map(|member| member.trim().trim_matches('"'));
    let mut broken = Vec::new();
    for folder in members.filter(|member| !member.is_empty() && *member != "tests") {
        let Some((_, allowed)) = PACKAGES.iter().find(|(known, _)| *known == folder) else {
            broken.push(format!("Cargo.toml: {folder} has no row in PACKAGES, which says what it may depend on"));
            continue;
        };
        let (path, text) = manifest_of(sources, folder);
        let (name, dependencies) = manifest(text);
        for dependency in dependencies.iter().filter(|found| found.name.starts_with("tributary")) {
            if !allowed.contains(&dependency.name.as_str()) {
                let Dependency { name: found, line, .. } = dependency;
                let reason = "no arrow of ARCHITECTURE.md goes there";
                broken.push(format!("{path}:{line}: {name} -> {found}: {reason}"));
            }
        }
        let is_used = |allowed: &&&str| dependencies.iter().any(|found| found.name == **allowed);
        let unused = allowed.iter().filter(|allowed| !is_used(allowed));
        broken.extend(unused.map(|unused| format!("{path}: PACKAGES has {name} -> {unused}, which is not used")));
    }
    broken
}

fn manifest_of<'a>(sources: &'a Sources, folder: &str) -> (&'a str, &'a str) {
    sources.get(&format!("{folder}/Cargo.toml")).unwrap_or_else(|| panic!("{folder} has no manifest"))
}
