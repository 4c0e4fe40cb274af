//! Markdown pages of the repository, and their fenced blocks.

use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Number of its first line in the page, from 1.
    pub(super) line: usize,
    /// The word after the opening fence.
    pub(super) language: String,
    /// Its lines, each with its end.
    pub(super) text: String,
}

/// The root of the repository.
pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All pages that readers find: those of the root, and those of folders with documentation.
pub(super) fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "deploy", "cli/data"].map(|folder| repository().join(folder));
    let files = folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let pages = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.collect()
}

/// The fenced blocks of a page, in order.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (text, line) in page.lines().zip(1..) {
        match (text.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block { line: line + 1, language: language.to_owned(), text: String::new() });
            }
            (None, Some(block)) => block.text += &format!("{text}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// The page without its fenced blocks.
pub(super) fn prose(page: &str) -> String {
    let mut inside = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            prose += &format!("{line}\n");
        }
    }
    prose
}
