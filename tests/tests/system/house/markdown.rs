//! Rules of the pages: every Markdown file of the repository.

use std::fs;
use std::path::Path;

/// A page: its path from the root of the repository, and its text.
pub(super) type Page = (String, String);

pub(super) fn pages_of_repository() -> Vec<Page> {
    let mut pages = Vec::new();
    read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), "", &mut pages);
    pages.sort();
    pages
}

fn read_folder(root: &Path, folder: &str, pages: &mut Vec<Page>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{folder}{name}");
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                read_folder(root, &format!("{path}/"), pages);
            }
        } else if name.ends_with(".md") {
            pages.push((path, fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

/// Rows of a table follow its header without a gap. After a blank line they would be shown as text.
pub(super) fn tables_are_whole(pages: &[Page]) -> Vec<String> {
    let mut broken = Vec::new();
    for (page, text) in pages {
        let mut is_code = false;
        let is_row: Vec<bool> = text
            .lines()
            .map(|line| {
                is_code ^= line.trim_start().starts_with("```");
                !is_code && line.trim_start().starts_with('|') && !line.starts_with("    ")
            })
            .collect();
        let lines: Vec<&str> = text.lines().collect();
        for at in (0..lines.len()).filter(|at| is_row[*at] && (*at == 0 || !is_row[at - 1])) {
            let is_line = |line: &&str| line.contains("--") && line.chars().all(|letter| "|-: ".contains(letter));
            if lines.get(at + 1).copied().filter(is_line).is_none() {
                let line = at + 1;
                broken.push(format!("{page}:{line}: a row without a header: a gap cuts it from its table"));
            }
        }
    }
    broken
}
