//! The modules of a crate: which names each one gives a meaning to, and which paths it mentions.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Sources;
use super::tokens::{Kind, Token, tokens};

/// A module, in a separate file or inside another one.
#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    pub(super) file: &'a str,
    pub(super) parent: Option<usize>,
    pub(super) names: BTreeMap<&'a str, Vec<Meaning<'a>>>,
    /// Modules whose names are imported with `*`.
    pub(super) globs: Vec<Vec<&'a str>>,
    pub(super) mentions: Vec<Mention<'a>>,
    /// Names of its `macro_rules!`, which child modules see without an import.
    pub(super) macros: BTreeSet<&'a str>,
    /// Words of macros, and of what they are called with between items: `id!(JobId, "job")` may define `JobId`.
    pub(super) words: BTreeSet<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// It is defined here.
    Item,
    /// It is this module.
    Module(usize),
    /// It is imported by this path.
    Import(Vec<&'a str>),
}

/// A path that a module mentions, in an import or anywhere else.
#[derive(Debug)]
pub(super) struct Mention<'a> {
    pub(super) path: Vec<&'a str>,
    pub(super) line: usize,
    pub(super) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `use a::b;`
    Import,
    /// `use a::b::*;`
    Glob,
    /// `a::b(..)`
    Path,
    /// `name!(..)`
    Macro,
    /// `#[serde(with = "name")]`: what expands it makes a path of the string.
    Attribute,
}

/// The modules of a crate, the root first.
#[derive(Debug)]
pub(super) struct Modules<'a> {
    pub(super) modules: Vec<Module<'a>>,
    /// Declarations of modules that have no file.
    pub(super) missing: Vec<String>,
}

impl<'a> Modules<'a> {
    /// The crate whose root is the file `root`.
    pub(super) fn read(sources: &'a Sources, root: &str) -> Self {
        let (file, text) = sources.get(root).unwrap_or_else(|| panic!("there is no {root}"));
        let mut reader = Reader { sources, modules: Vec::new(), missing: Vec::new() };
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        reader.file(file, text, folder, None);
        Self { modules: reader.modules, missing: reader.missing }
    }
}

struct Reader<'a> {
    sources: &'a Sources,
    modules: Vec<Module<'a>>,
    missing: Vec<String>,
}

/// Where the reader stands: whose names these tokens are, and where the files of its child modules lie.
#[derive(Clone, Copy)]
struct Place<'p> {
    module: usize,
    folder: &'p str,
    /// Between items, not inside one.
    outside: bool,
}

impl<'a> Reader<'a> {
    fn file(&mut self, file: &'a str, text: &'a str, folder: &str, parent: Option<usize>) {
        let module = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        let tokens = tokens(text);
        self.scan(&tokens, 0, tokens.len(), Place { module, folder, outside: true });
    }

    fn scan(&mut self, tokens: &[Token<'a>], mut at: usize, end: usize, place: Place<'_>) {
        let is = |at: usize, text: &str| at < end && tokens[at].is(text);
        let is_name = |at: usize| at < end && tokens[at].is_name();
        let mut exported = false;
        while at < end {
            let token = &tokens[at];
            match token.text {
                _ if token.kind == Kind::Text => {}
                "#" if is(at + 1, "[") || is(at + 1, "!") && is(at + 2, "[") => {
                    let group = if is(at + 1, "[") { at + 1 } else { at + 2 };
                    let next = tokens[group].next;
                    exported |= tokens[group..next].iter().any(|token| token.is("macro_export"));
                    self.attribute(&tokens[group..next], place.module);
                    self.scan(tokens, group + 1, next - 1, Place { outside: false, ..place });
                    at = next;
                    continue;
                }
                // `pub(in crate::a)` imports nothing.
                "pub" if is(at + 1, "(") => {
                    at = if is(at + 2, "crate") || is(at + 2, "super") || is(at + 2, "self") || is(at + 2, "in") {
                        tokens[at + 1].next
                    } else {
                        at + 1
                    };
                    continue;
                }
                // `impl Trait + use<'a>` imports nothing either.
                "use" if !is(at + 1, "<") => {
                    let last = (at..end).find(|at| tokens[*at].is(";")).unwrap_or(end);
                    self.import(tokens, at + 1, last, &mut Vec::new(), place.module);
                    at = last;
                    continue;
                }
                "mod" if place.outside && is_name(at + 1) => {
                    at = self.child(tokens, at + 1, place);
                    continue;
                }
                // `extern "C" { .. }` has items of this module.
                "extern" if place.outside && at + 1 < end && tokens[at + 1].kind == Kind::Text && is(at + 2, "{") => {
                    self.scan(tokens, at + 3, tokens[at + 2].next - 1, place);
                    at = tokens[at + 2].next;
                    continue;
                }
                "macro_rules" if is(at + 1, "!") && is_name(at + 2) => {
                    let name = tokens[at + 2].text;
                    self.modules[place.module].macros.insert(name);
                    self.define(place.module, name, Meaning::Item);
                    if exported && place.module != 0 {
                        let mut path = self.path_of(place.module);
                        path.push(name);
                        self.define(0, name, Meaning::Import(path));
                    }
                    exported = false;
                    self.words(tokens, at + 3, place.module);
                    at += 3;
                    continue;
                }
                "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static" if place.outside => {
                    let name = at + 1 + usize::from(is(at + 1, "mut"));
                    if is_name(name) && !["fn", "unsafe", "async", "extern"].contains(&tokens[name].text) {
                        self.define(place.module, tokens[name].text, Meaning::Item);
                    }
                }
                _ if token.kind == Kind::Open => {
                    self.scan(tokens, at + 1, token.next - 1, Place { outside: false, ..place });
                }
                _ if token.is_name() => {
                    at = self.mention(tokens, at, end, place);
                    continue;
                }
                _ => {}
            }
            at = token.next;
        }
    }

    fn define(&mut self, module: usize, name: &'a str, meaning: Meaning<'a>) {
        self.modules[module].names.entry(name).or_default().push(meaning);
    }

    fn path_of(&self, module: usize) -> Vec<&'a str> {
        let Some(parent) = self.modules[module].parent else { return vec!["crate"] };
        let is_this = |meanings: &[Meaning<'_>]| meanings.contains(&Meaning::Module(module));
        let name = self.modules[parent].names.iter().find(|(_, meanings)| is_this(meanings));
        let mut path = self.path_of(parent);
        path.extend(name.map(|(name, _)| *name));
        path
    }

    /// `mod name;` or `mod name { .. }`, where `at` is the name. Returns the index after it.
    fn child(&mut self, tokens: &[Token<'a>], at: usize, place: Place<'_>) -> usize {
        let (sources, this) = (self.sources, self.modules[place.module].file);
        let (name, child, parent) = (tokens[at].text, self.modules.len(), Some(place.module));
        let folder = format!("{}/{name}", place.folder);
        if let Some(group) = tokens.get(at + 1).filter(|token| token.is("{")) {
            self.define(place.module, name, Meaning::Module(child));
            self.modules.push(Module { file: this, parent, ..Module::default() });
            self.scan(tokens, at + 2, group.next - 1, Place { module: child, folder: &folder, outside: true });
            return group.next;
        }
        let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
        if let Some((file, text)) = files.iter().find_map(|file| sources.get(file)) {
            self.define(place.module, name, Meaning::Module(child));
            self.file(file, text, &folder, parent);
        } else {
            self.missing.push(format!("{this}:{}: mod {name}", tokens[at].line));
        }
        at + 1
    }

    /// The tree of a `use` from `at` to `end`. `path` is what stands before it.
    fn import(&mut self, tokens: &[Token<'a>], mut at: usize, end: usize, path: &mut Vec<&'a str>, module: usize) {
        let depth = path.len();
        while at < end {
            let (token, after) = (&tokens[at], tokens[at + 1..end].first());
            if token.is("{") {
                let mut start = at + 1;
                while start < token.next - 1 {
                    let mut comma = start;
                    while comma < token.next - 1 && !tokens[comma].is(",") {
                        comma = tokens[comma].next;
                    }
                    self.import(tokens, start, comma, path, module);
                    start = comma + 1;
                }
            } else if token.is("*") {
                self.modules[module].globs.push(path.clone());
                let mention = Mention { path: path.clone(), line: token.line, how: How::Glob };
                self.modules[module].mentions.push(mention);
            } else if token.is_name() {
                if !token.is("self") || path.is_empty() {
                    path.push(token.text);
                }
                if !after.is_some_and(|token| token.is("::")) {
                    let renamed = after.is_some_and(|token| token.is("as"));
                    let name = if renamed { tokens[at + 2].text } else { path[path.len() - 1] };
                    if name != "_" {
                        self.define(module, name, Meaning::Import(path.clone()));
                    }
                    let mention = Mention { path: path.clone(), line: token.line, how: How::Import };
                    self.modules[module].mentions.push(mention);
                    break;
                }
            }
            at = token.next;
        }
        path.truncate(depth);
    }

    /// A path or a macro's name at `at`, if it is one. Returns the index after it.
    fn mention(&mut self, tokens: &[Token<'a>], at: usize, end: usize, place: Place<'_>) -> usize {
        let before = |back: usize| at.checked_sub(back).map(|at| &tokens[at]);
        let continues = before(1).is_some_and(|token| token.is("::"))
            && before(2).is_some_and(|token| token.is_name() || token.is(">"));
        let is_fragment = before(1).is_some_and(|token| token.is("$")) && !tokens[at].is("crate");
        let mut path = vec![tokens[at].text];
        let mut next = at + 1;
        while next + 1 < end && tokens[next].is("::") && tokens[next + 1].is_name() {
            path.push(tokens[next + 1].text);
            next += 2;
        }
        let is_macro = next + 1 < end && tokens[next].is("!") && !tokens[next + 1].is("=");
        if is_macro && place.outside {
            let group = (next + 1..end).find(|at| tokens[*at].kind == Kind::Open);
            group.into_iter().for_each(|group| self.words(tokens, group, place.module));
        }
        let how = if path.len() > 1 { How::Path } else { How::Macro };
        if !continues && !is_fragment && path[0] != "Self" && (path.len() > 1 || is_macro) {
            self.modules[place.module].mentions.push(Mention { path, line: tokens[at].line, how });
        }
        next
    }

    /// Keeps the words of the group at `at`.
    fn words(&mut self, tokens: &[Token<'a>], at: usize, module: usize) {
        let names = tokens[at..tokens[at].next].iter().filter(|token| token.is_name());
        self.modules[module].words.extend(names.map(|token| token.text));
    }

    fn attribute(&mut self, attribute: &[Token<'a>], module: usize) {
        for token in attribute.iter().filter(|token| token.kind == Kind::Text) {
            let path: Vec<&str> = token.text.split("::").collect();
            let is_word = |word: &&str| !word.is_empty() && word.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
            if path.iter().all(is_word) {
                self.modules[module].mentions.push(Mention { path, line: token.line, how: How::Attribute });
            }
        }
    }
}
