//! The import graph of a crate: an arrow from each file to the files that define what it mentions.
//!
//! A re-export is followed to the definition: `use crate::db::DbError` is an arrow to `db/error.rs`, although the name
//! is found in `db/mod.rs`. So a child that uses a sibling by their parent's re-export is in no circle. A child that
//! uses what the parent itself defines is in one if the parent uses the child. A call of a method needs no import and
//! is no arrow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{How, Meaning, Mention, Module, Modules};
use super::sources::Sources;

/// An arrow between two files of a crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) line: usize,
    /// The path as it is written.
    pub(super) path: String,
}

/// A path into another crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Outward {
    pub(super) from: String,
    pub(super) line: usize,
    pub(super) path: String,
}

#[derive(Debug)]
pub(super) struct Graph {
    pub(super) files: BTreeSet<String>,
    /// Sorted by file and line.
    pub(super) arrows: Vec<Arrow>,
    pub(super) outward: Vec<Outward>,
    /// Paths that begin in this crate and lead nowhere. Without them the graph would be incomplete and seem complete.
    pub(super) lost: Vec<String>,
}

impl std::fmt::Display for Arrow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{} -> {} ({})", self.from, self.line, self.to, self.path)
    }
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found<'a> {
    Item(&'a str),
    Module(usize),
    /// Into another crate, by this path.
    Outside(Vec<&'a str>),
}

impl Graph {
    /// The graph of the package in `folder`, from its library or, where it has none, from its program.
    pub(super) fn of(sources: &Sources, folder: &str) -> Self {
        let [lib, main] = ["lib", "main"].map(|root| format!("{folder}/src/{root}.rs"));
        let root = if sources.get(&lib).is_some() { lib } else { main };
        let Modules { modules, missing } = Modules::read(sources, &root);
        let files = modules.iter().map(|module| module.file.to_owned()).collect();
        let mut graph = Self { files, arrows: Vec::new(), outward: Vec::new(), lost: missing };
        let resolver = Resolver { modules };
        for (index, module) in resolver.modules.iter().enumerate() {
            for mention in &module.mentions {
                graph.add(&resolver, index, module, mention);
            }
        }
        graph.arrows.sort_by(|a, b| (&a.from, a.line, &a.to).cmp(&(&b.from, b.line, &b.to)));
        graph
    }

    fn add(&mut self, resolver: &Resolver<'_>, index: usize, module: &Module<'_>, mention: &Mention<'_>) {
        let (from, line, path) = (module.file.to_owned(), mention.line, mention.path.join("::"));
        let found = resolver.mention(index, mention);
        if found.is_empty() && !matches!(mention.how, How::Attribute | How::Macro) {
            self.lost.push(format!("{from}:{line}: {path}"));
        }
        for found in found {
            let targets = match found {
                Found::Item(file) => vec![file],
                // A module's name alone uses nothing of it: what is used by that name is a path of its own. But `*` may
                // stand for anything in it, and an attribute's path ends at the module.
                Found::Module(target) if mention.how == How::Glob => resolver.everything_in(target),
                Found::Module(target) if mention.how == How::Attribute => vec![resolver.modules[target].file],
                Found::Module(_) => Vec::new(),
                Found::Outside(path) => {
                    self.outward.push(Outward { from: from.clone(), line, path: path.join("::") });
                    Vec::new()
                }
            };
            for to in targets.into_iter().filter(|to| *to != module.file) {
                self.arrows.push(Arrow { from: from.clone(), to: to.to_owned(), line, path: path.clone() });
            }
        }
    }

    /// A shortest circle of each knot of files that import each other, with the number of files in the knot.
    pub(super) fn circles(&self) -> Vec<(usize, Vec<&Arrow>)> {
        let mut out: BTreeMap<&str, Targets<'_>> = BTreeMap::new();
        for arrow in &self.arrows {
            out.entry(&arrow.from).or_default().entry(&arrow.to).or_insert(arrow);
        }
        let reached: BTreeMap<&str, Targets<'_>> = out.keys().map(|file| (*file, reached_from(&out, file))).collect();
        let mut circles = Vec::new();
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for (file, reaches) in &reached {
            if !reaches.contains_key(file) || known.contains(file) {
                continue;
            }
            let is_in_knot = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains_key(file));
            let knot: Vec<&str> = reaches.keys().filter(is_in_knot).copied().collect();
            known.extend(&knot);
            let shortest = knot.iter().map(|file| way_back(&reached[file], file)).min_by_key(Vec::len);
            circles.extend(shortest.map(|circle| (knot.len(), circle)));
        }
        circles
    }
}

/// Files that a file leads to, each with the arrow that ends there.
type Targets<'g> = BTreeMap<&'g str, &'g Arrow>;

/// Every file that `start` leads to, by one arrow or more, with the last arrow of a shortest way there.
fn reached_from<'g>(out: &BTreeMap<&'g str, Targets<'g>>, start: &'g str) -> Targets<'g> {
    let mut reached = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for (to, arrow) in out.get(file).into_iter().flatten() {
            if !reached.contains_key(to) {
                reached.insert(*to, *arrow);
                queue.push_back(to);
            }
        }
    }
    reached
}

fn way_back<'g>(reached: &Targets<'g>, file: &str) -> Vec<&'g Arrow> {
    let mut way = vec![reached[file]];
    while way[0].from != file {
        way.insert(0, reached[way[0].from.as_str()]);
    }
    way
}

struct Resolver<'a> {
    modules: Vec<Module<'a>>,
}

/// Names that are being looked up: an import that leads back to itself finds nothing.
type Pending<'a> = Vec<(usize, &'a str)>;

impl<'a> Resolver<'a> {
    fn mention(&self, module: usize, mention: &Mention<'a>) -> Vec<Found<'a>> {
        let path = &mention.path;
        match mention.how {
            How::Macro => self.macro_named(module, path[0]),
            // A word in an attribute may be anything; it is a path only where the module knows the name.
            How::Attribute if path.len() == 1 => self.walk(module, path, &mut Vec::new()),
            How::Import | How::Glob | How::Path | How::Attribute => self.resolve(module, path, &mut Vec::new()),
        }
    }

    /// A macro by its bare name: imported, or of a module around this one.
    fn macro_named(&self, module: usize, name: &'a str) -> Vec<Found<'a>> {
        let here = &self.modules[module];
        if here.names.contains_key(name) {
            return self.walk(module, &[name], &mut Vec::new());
        }
        let around = std::iter::successors(here.parent, |module| self.modules[*module].parent);
        let mut defining = around.map(|module| &self.modules[module]).filter(|module| module.macros.contains(name));
        defining.next().map(|module| Found::Item(module.file)).into_iter().collect()
    }

    fn resolve(&self, mut module: usize, path: &[&'a str], pending: &mut Pending<'a>) -> Vec<Found<'a>> {
        let mut rest = path;
        match path[0] {
            "crate" => (module, rest) = (0, &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {}
            _ => {
                let found = self.walk(module, path, pending);
                return if found.is_empty() && !self.knows(module, path[0]) {
                    vec![Found::Outside(path.to_vec())]
                } else {
                    found
                };
            }
        }
        while rest.first() == Some(&"super") {
            let Some(parent) = self.modules[module].parent else { return Vec::new() };
            (module, rest) = (parent, &rest[1..]);
        }
        self.walk(module, rest, pending)
    }

    /// Whether a name means something of this crate in a module. `use metrics::Counter` in a file without a module of
    /// that name is about the crate `metrics`.
    fn knows(&self, module: usize, name: &str) -> bool {
        let meanings = self.modules[module].names.get(name).map(Vec::as_slice).unwrap_or_default();
        meanings.iter().any(|meaning| match meaning {
            Meaning::Item | Meaning::Module(_) => true,
            Meaning::Import(path) => path[0] != name && matches!(path[0], "crate" | "self" | "super"),
        })
    }

    /// Where a path leads that begins with a name of this module.
    fn walk(&self, module: usize, path: &[&'a str], pending: &mut Pending<'a>) -> Vec<Found<'a>> {
        let Some((name, rest)) = path.split_first() else { return vec![Found::Module(module)] };
        if pending.contains(&(module, name)) {
            return Vec::new();
        }
        pending.push((module, name));
        let here = &self.modules[module];
        let meanings = here.names.get(name).map(Vec::as_slice).unwrap_or_default();
        // A module and a function may share a name; a path that goes on is the module's.
        let goes_on = !rest.is_empty() && meanings.iter().any(|meaning| matches!(meaning, Meaning::Module(_)));
        let mut found = Vec::new();
        for meaning in meanings {
            match meaning {
                Meaning::Item if goes_on => {}
                Meaning::Item => found.push(Found::Item(here.file)),
                Meaning::Module(child) => found.extend(self.walk(*child, rest, pending)),
                Meaning::Import(import) => {
                    for target in self.resolve(module, import, pending) {
                        match target {
                            Found::Item(file) => found.push(Found::Item(file)),
                            Found::Module(target) => found.extend(self.walk(target, rest, pending)),
                            Found::Outside(path) => found.push(Found::Outside([&path, rest].concat())),
                        }
                    }
                }
            }
        }
        if found.is_empty() {
            for glob in &here.globs {
                for target in self.resolve(module, glob, pending) {
                    if let Found::Module(target) = target {
                        found.extend(self.walk(target, path, pending));
                    }
                }
            }
        }
        if found.is_empty() && here.words.contains(name) {
            found.push(Found::Item(here.file));
        }
        pending.pop();
        found.dedup();
        found
    }

    /// The files of everything that a module has a name for.
    fn everything_in(&self, module: usize) -> Vec<&'a str> {
        let here = &self.modules[module];
        let found = here.names.keys().flat_map(|name| self.walk(module, &[name], &mut Vec::new()));
        let files = found.filter_map(|found| match found {
            Found::Item(file) => Some(file),
            Found::Module(_) | Found::Outside(_) => None,
        });
        let made_by_macros = (!here.words.is_empty()).then_some(here.file);
        files.chain(made_by_macros).collect::<BTreeSet<_>>().into_iter().collect()
    }
}
