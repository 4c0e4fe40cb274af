//! The rules of the sources. Each function returns what breaks one: where it is, what it is, and why it is forbidden.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::sources::Sources;
use super::tokens::{Kind, Token, tokens};

const SERVER: &str = "server/src/";
const ENGINE: &str = "engine/src/";

/// A part of a package.
pub(super) struct Room {
    /// Files and folders; folders end in `/`. The longest path that fits a file decides which room it is in.
    pub(super) paths: &'static [&'static str],
    /// Why it imports nothing above it.
    reason: &'static str,
}

const fn room(paths: &'static [&'static str], reason: &'static str) -> Room {
    Room { paths, reason }
}

/// Rooms by folder, lowest first. A file imports from its own room and from lower ones.
pub(super) const ROOMS: [(&str, &[Room]); 2] = [
    (
        ENGINE,
        &[
            room(&["coded/"], "a code depends on numbers of parts and of stragglers, not on rounds"),
            room(&["privacy/"], "what a release spends depends on its noise, not on its round"),
            room(&["round/"], "a decision about a round depends on counts and times, not on the contents of updates"),
            room(&["aggregate/"], "sums and rules know numbers, no jobs"),
            room(&["analysis/"], "an estimate depends on numbers and their noise, not on how they came together"),
            room(&["inputs.rs"], "means and deviations follow from sums alone"),
            room(&["release.rs"], "whom a release is for follows from ids and attributes"),
            room(&["job.rs"], "what follows from a job file is the same, whatever happened in its rounds"),
            room(&["story/", "lib.rs"], "stories are for people; no rule reads them"),
        ],
    ),
    (
        SERVER,
        &[
            room(&["runtime/"], "clock and entropy serve every room and know none"),
            room(&["metrics/"], "a metric is given its values and asks nobody for them"),
            room(&["guard/"], "a limit counts callers and does not know what they ask for"),
            room(&["net/"], "a listener hands requests on and understands none of them"),
            room(&["db/"], "queries know rows, not what the rows are for"),
            room(&["blob/"], "a store keeps bodies and does not know what they mean"),
            room(&["backup/"], "a backup is a copy of the database with its bodies, and needs no coordinator"),
            room(&["evaluator.rs"], "the program that serves brings the networks; the coordinator asks for a result"),
            room(
                &["relay/upstream.rs", "relay/mod.rs"],
                "the program that serves brings the way to a parent; a relay asks and tells",
            ),
            room(&["specs.rs"], "a spec follows from a stored job file alone"),
            room(&["services.rs"], "every room above is given the services"),
            room(&["notify/"], "a notification is stored with what it is about, whatever that is"),
            room(&["cluster/"], "coordinators share leases and notifications, not rounds"),
            room(&["fleet/"], "the fleet is who is connected, not what they work on"),
            room(
                &["models/version.rs", "models/file.rs", "models/first.rs"],
                "every version is written in the same way",
            ),
            room(&["lifecycle/"], "a change of phase or state is one transaction, whatever caused it"),
            room(&["masking/roster.rs"], "what members agree on follows from rows"),
            room(&["updates/"], "an update is received and folded in the same way, whatever its round becomes"),
            room(&["models/"], "a model is made from a closed round, whatever closed it"),
            room(&["releases/"], "a release is a file and whom it is for, whoever asks for it"),
            room(&["masking/"], "a group ends as an update of its round, whatever becomes of that"),
            room(&["ring/"], "members add up among themselves, and bring what is received as any sum is"),
            room(&["relay/"], "a relay's rounds end at its parent, whatever made it look"),
            room(&["central/"], "an evaluation here needs a version and a test set, and no client"),
            room(&["scheduled/"], "retention and upkeep need neither driver nor API"),
            room(&["driver/"], "a driver derives its steps from stored state, not from requests"),
            room(&["first.rs"], "what a first start creates depends on no request"),
            room(&["people/"], "who may sign in depends on no job"),
            room(&["devices/"], "what a client proves to be depends on no job"),
            room(&["app.rs"], "the state that all calls of the API share depends on no single call"),
            room(&["load.rs"], "a sample of the load is taken of the state, whatever asks for it"),
            room(&["api/"], "the coordinator gives the API its connections"),
            room(&["watch.rs"], "changes of health are told of what the API tells"),
            room(&["coordinator.rs", "lib.rs"], "nothing is above it"),
        ],
    ),
];

/// Index of the room of a file.
fn room_of(rooms: &[Room], folder: &str, file: &str) -> Option<usize> {
    let file = file.strip_prefix(folder)?;
    let fits = |path: &&&str| file == **path || path.ends_with('/') && file.starts_with(**path);
    let longest = |room: &Room| room.paths.iter().filter(fits).map(|path| path.len()).max();
    let fitting = rooms.iter().enumerate().filter_map(|(index, room)| Some((longest(room)?, index)));
    fitting.max().map(|(_, index)| index)
}

/// A room imports from lower rooms only.
pub(super) fn rooms_import_downwards(graph: &Graph) -> Vec<String> {
    let mut broken = Vec::new();
    let of_graph = |folder: &str| graph.files.iter().any(|file| file.starts_with(folder));
    let Some((folder, rooms)) = ROOMS.iter().find(|(folder, _)| of_graph(folder)) else { return broken };
    let room_of = |file: &str| room_of(rooms, folder, file);
    for file in graph.files.iter().filter(|file| room_of(file).is_none()) {
        broken.push(format!("{file}: it is in no room of ROOMS"));
    }
    for path in rooms.iter().flat_map(|room| room.paths) {
        if !graph.files.iter().any(|file| file.starts_with(&format!("{folder}{path}"))) {
            broken.push(format!("{folder}{path}: a room of ROOMS that does not exist"));
        }
    }
    let mut known = BTreeSet::new();
    for arrow in &graph.arrows {
        if let (Some(from), Some(to)) = (room_of(&arrow.from), room_of(&arrow.to))
            && from < to
            && known.insert((&arrow.from, &arrow.to))
        {
            let [below, above] = [from, to].map(|room| rooms[room].paths.join(", "));
            broken.push(format!("{arrow}: {below} is below {above}: {}", rooms[from].reason));
        }
    }
    broken
}

/// The graph is complete: every path that begins in a crate was followed to its end.
pub(super) fn every_import_is_followed(graph: &Graph) -> Vec<String> {
    graph.lost.iter().map(|path| format!("{path}: the graph does not find it")).collect()
}

/// No file imports itself by way of others.
pub(super) fn no_circle_of_files(graph: &Graph) -> Vec<String> {
    let described = graph.circles().into_iter().map(|(knot, circle)| {
        let arrows: String = circle.iter().map(|arrow| format!("\n    {arrow}")).collect();
        format!("a circle in a knot of {knot} files; what both sides use belongs into a file below them{arrows}")
    });
    described.collect()
}

/// Paths into other crates that only some files may take.
struct Reserved {
    package: &'static str,
    paths: &'static [&'static str],
    /// Files and folders of the package's sources.
    files: &'static [&'static str],
    reason: &'static str,
}

const NO_IO: &[&str] =
    &["std::env", "std::fs", "std::net", "std::process", "std::time::Instant", "std::time::SystemTime"];

const RESERVED: &[Reserved] = &[
    Reserved {
        package: "server",
        paths: &["sqlx"],
        // The bell listens on a separate connection; metrics distinguish the errors of queries.
        files: &["db/", "cluster/bell.rs", "metrics/", "backup/"],
        reason: "every query is a method of db/",
    },
    Reserved {
        package: "server",
        paths: &["axum"],
        files: &["api/", "coordinator.rs", "net/", "metrics/"],
        reason: "only the API speaks HTTP",
    },
    Reserved {
        package: "server",
        paths: &["object_store"],
        files: &["blob/"],
        reason: "every call of the object store goes through blob/",
    },
    Reserved {
        package: "server",
        paths: &["tributary_engine::round::decide", "tributary_engine::round::opening"],
        files: &["driver/"],
        reason: "the driver asks the rules what happens next, and nobody else",
    },
    Reserved {
        package: "server",
        paths: &["tributary_engine::round::admit"],
        files: &["fleet/"],
        reason: "one place decides who may take part",
    },
    Reserved {
        package: "server",
        paths: &["tributary_engine::aggregate"],
        files: &["updates/", "models/"],
        reason: "updates become sums in updates/, and sums become models in models/",
    },
    Reserved {
        package: "server",
        paths: &["tributary_engine::story"],
        // The log, the audit log and notifications are read by people too; the state keeps findings for the API.
        files: &["api/", "app.rs", "db/", "metrics/", "driver/tell.rs", "cluster/takeover.rs", "watch.rs"],
        reason: "stories are for people; no rule reads them",
    },
    Reserved { package: "engine", paths: NO_IO, files: &[], reason: "no I/O here; time is an argument" },
    Reserved { package: "protocol", paths: NO_IO, files: &[], reason: "no I/O here; time is an argument" },
];

/// Some paths into other crates are taken in few places.
pub(super) fn reserved_paths_stay_where_they_belong(graph: &Graph) -> Vec<String> {
    let mut broken = BTreeSet::new();
    for outward in &graph.outward {
        for Reserved { package, paths, files, reason } in RESERVED {
            let Some(file) = outward.from.strip_prefix(&format!("{package}/src/")) else { continue };
            let is_in = |path: &&str| outward.path == **path || outward.path.starts_with(&format!("{path}::"));
            if paths.iter().any(is_in) && !files.iter().any(|allowed| file.starts_with(allowed)) {
                broken.insert(format!("{}:{} -> {}: {reason}", outward.from, outward.line, outward.path));
            }
        }
    }
    broken.into_iter().collect()
}

/// Names of the functions in `db/` whose SQL opens a job, round or assignment, or changes the phase or state of one.
pub(super) fn transitions(sources: &Sources) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources.rust("server/src/db/") {
        let tokens = tokens(text);
        for at in 0..tokens.len().saturating_sub(1) {
            if tokens[at].is("fn")
                && let Some(body) = (at..tokens.len()).find(|at| tokens[*at].is("{") || tokens[*at].is(";"))
            {
                let strings = tokens[body..tokens[body].next].iter().filter(|token| token.kind == Kind::Text);
                let sql: Vec<&str> = strings.flat_map(|token| token.text.split([' ', '\n', '\\'])).collect();
                if changes_state(&sql) {
                    names.insert(tokens[at + 1].text.to_owned());
                }
            }
        }
    }
    names
}

fn changes_state(sql: &[&str]) -> bool {
    let words: Vec<&str> = sql.iter().copied().filter(|word| !word.is_empty()).collect();
    let is_table = |at: usize| words.get(at).is_some_and(|word| ["jobs", "rounds", "assignments"].contains(word));
    let has_standing = |at: usize| words.get(at) == Some(&"clients");
    (0..words.len()).any(|at| {
        let rest = &words[at..];
        match rest {
            ["insert", "into", ..] => is_table(at + 2),
            ["update", _, "set", ..] if is_table(at + 1) || has_standing(at + 1) => {
                let assigned =
                    rest.iter().take_while(|word| !["where", "returning"].contains(word)).collect::<Vec<_>>();
                assigned
                    .windows(2)
                    .any(|pair| ["phase", "state", "standing", "late_at_ms"].contains(pair[0]) && *pair[1] == "=")
            }
            _ => false,
        }
    })
}

/// Only `lifecycle/` changes the phase or state of a job, round or assignment, or the standing of a client.
pub(super) fn only_lifecycle_changes_state(sources: &Sources) -> Vec<String> {
    let transitions = transitions(sources);
    let mut broken = Vec::new();
    for (file, text) in sources.rust(SERVER).filter(|(file, _)| !in_any(file, &["db/", "lifecycle/"])) {
        // Tokens only where a transition may be among them.
        if transitions.iter().any(|name| text.contains(name)) {
            for (line, name) in calls(&tokens(text)).filter(|(_, name)| transitions.contains(*name)) {
                let reason = "a phase or state changes only in lifecycle/, in one transaction with its checks";
                broken.push(format!("{file}:{line} -> Tx::{name}: {reason}"));
            }
        }
    }
    broken
}

/// Only `updates/stored.rs` reads an accepted update: other files that name the key of one read no body.
pub(super) fn only_stored_reads_updates(sources: &Sources) -> Vec<String> {
    let mut broken = Vec::new();
    for (file, text) in sources.rust(SERVER).filter(|(file, _)| !in_any(file, &["blob/", "updates/stored.rs"])) {
        let tokens = if text.contains("update_key") { tokens(text) } else { Vec::new() };
        if tokens.iter().any(|token| token.is("update_key")) {
            for (line, _) in calls(&tokens).filter(|(_, name)| *name == "reader") {
                let reason = "an accepted update is decoded, checked and counted by updates/stored.rs only";
                broken.push(format!("{file}:{line} -> Blobs::reader, beside update_key: {reason}"));
            }
        }
    }
    broken
}

/// Method calls, and calls by `Tx::`, with their lines.
fn calls<'t>(tokens: &'t [Token<'_>]) -> impl Iterator<Item = (usize, &'t str)> {
    let by_type = |before: &[Token<'_>]| before[0].is("Tx") && before[1].is("::");
    let windows = tokens.windows(3).filter(move |window| (window[1].is(".") || by_type(window)) && window[2].is_name());
    windows.map(|window| (window[2].line, window[2].text))
}

fn in_any(file: &str, places: &[&str]) -> bool {
    let file = file.strip_prefix(SERVER).unwrap_or(file);
    places.iter().any(|place| file.starts_with(place))
}

/// Modules with children are `x/mod.rs`, and a newcomer finds few files beside the folders of the server.
pub(super) fn folders_draw_the_system(sources: &Sources) -> Vec<String> {
    let files: BTreeSet<&str> = sources.rust("").map(|(file, _)| file).collect();
    let mut broken = Vec::new();
    for file in &files {
        let folder = format!("{}/", file.trim_end_matches(".rs"));
        if files.range(folder.as_str()..).next().is_some_and(|next| next.starts_with(&folder)) {
            broken.push(format!("{file}: beside the folder {folder}, into which it belongs as mod.rs"));
        }
    }
    let beside: Vec<&str> =
        files.iter().filter_map(|file| file.strip_prefix(SERVER)).filter(|file| !file.contains('/')).collect();
    if beside.len() > FILES_BESIDE_ROOMS_MAX {
        let files = beside.join(", ");
        broken.push(format!("{SERVER}: more than {FILES_BESIDE_ROOMS_MAX} files are in no room: {files}"));
    }
    broken
}

const FILES_BESIDE_ROOMS_MAX: usize = 10;

/// Files and folders that may say `unsafe`, each block of them with a reason. Folders end in `/`.
const UNSAFE: [&str; 4] =
    ["cli/src/allocator.rs", "client-sdk/ffi/src/c/", "client-sdk/tests/allocations.rs", "protocol/src/cpu.rs"];
/// rustfmt leaves comments as they are. (It leaves strings too, where a line break would be read.)
const COLUMNS_MAX: usize = 120;

/// Comments are short lines, `unsafe` is rare, nothing is left to do.
pub(super) fn texts_are_finished(sources: &Sources) -> Vec<String> {
    let mut broken = Vec::new();
    for (file, text) in sources.rust("") {
        for (line, text) in text.lines().enumerate() {
            let columns = text.chars().count();
            let comment = text.trim_start().strip_prefix("//");
            // A row of a table is one line, however long.
            let is_prose = comment.is_some_and(|comment| !comment.trim_start_matches(['/', '!', ' ']).starts_with('|'));
            if columns > COLUMNS_MAX && is_prose {
                broken.push(format!("{file}:{}: {columns} columns, more than {COLUMNS_MAX}", line + 1));
            }
        }
        let words = ["unsafe", "todo", "unimplemented"];
        let tokens = if words.iter().any(|word| text.contains(word)) { tokens(text) } else { Vec::new() };
        for pair in tokens.windows(2).filter(|pair| pair[0].is_name() && words.contains(&pair[0].text)) {
            let (line, word) = (pair[0].line, pair[0].text);
            if word == "unsafe"
                && !UNSAFE.iter().any(|place| file == *place || place.ends_with('/') && file.starts_with(place))
            {
                broken.push(format!("{file}:{line}: unsafe is only in {}", UNSAFE.join(" and ")));
            } else if word != "unsafe" && pair[1].is("!") {
                broken.push(format!("{file}:{line}: {word}! is no code yet"));
            }
        }
    }
    broken
}
