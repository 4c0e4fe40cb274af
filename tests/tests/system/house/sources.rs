//! The texts that the rules are about, by path from the root of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Texts by path. A value, so that a test can change a copy of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    texts: BTreeMap<String, String>,
}

impl Sources {
    /// Every Rust source and manifest of these packages, and the workspace's own manifest and lock file.
    pub(super) fn of_repository(packages: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Self::default();
        for file in ["Cargo.toml", "Cargo.lock"] {
            sources.put(file, &fs::read_to_string(root.join(file)).unwrap());
        }
        for package in packages {
            sources.read_folder(&root, package);
        }
        sources
    }

    fn read_folder(&mut self, root: &Path, folder: &str) {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{folder}/{name}");
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && name != "target" && name != "node_modules" {
                    self.read_folder(root, &path);
                }
            } else if name.ends_with(".rs") || name == "Cargo.toml" {
                self.put(&path, &fs::read_to_string(entry.path()).unwrap());
            }
        }
    }

    pub(super) fn put(&mut self, path: &str, text: &str) {
        self.texts.insert(path.to_owned(), text.to_owned());
    }

    pub(super) fn get(&self, path: &str) -> Option<(&str, &str)> {
        self.texts.get_key_value(path).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust sources whose path begins like this.
    pub(super) fn rust(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.texts.iter().filter(move |(path, _)| path.starts_with(prefix) && path.ends_with(".rs"));
        all.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Puts a line before the first one of a file.
    pub(super) fn put_line(&mut self, path: &str, line: &str) {
        let text = self.texts.get_mut(path).unwrap_or_else(|| panic!("there is no {path}"));
        text.insert_str(0, &format!("{line}\n"));
    }

    /// Replaces the only place of a file that says this.
    pub(super) fn replace(&mut self, path: &str, old: &str, new: &str) {
        let text = self.texts.get_mut(path).unwrap_or_else(|| panic!("there is no {path}"));
        assert_eq!(text.matches(old).count(), 1, "{path} does not say {old} once");
        *text = text.replace(old, new);
    }
}
