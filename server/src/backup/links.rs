//! Second names of the bodies beside a database, so that none is gone before it is copied.

use std::path::{Path, PathBuf};

/// A folder of hard links to the files of another folder, which cost no memory; removed when dropped. Where the file
/// system has none, it stays empty.
#[derive(Debug)]
pub(super) struct Links {
    of: PathBuf,
    links: PathBuf,
}

impl Links {
    /// The links of this process to the files of a folder. What a killed process left is removed.
    pub(super) fn to(folder: &Path) -> Self {
        let name = |process: &str| {
            let mut name = folder.as_os_str().to_owned();
            name.push(format!(".copy-{process}"));
            PathBuf::from(name)
        };
        let begin = name("");
        for entry in folder.parent().and_then(|parent| parent.read_dir().ok()).into_iter().flatten().flatten() {
            let path = entry.path();
            let process = path.to_str().zip(begin.to_str()).and_then(|(path, begin)| path.strip_prefix(begin));
            let has_ended = |process: &str| cfg!(target_os = "linux") && !Path::new("/proc").join(process).exists();
            if process.is_some_and(|process| process.parse::<u32>().is_ok() && has_ended(process)) {
                let _ = std::fs::remove_dir_all(path);
            }
        }
        Self { of: folder.to_owned(), links: name(&std::process::id().to_string()) }
    }

    /// The folder with the links.
    pub(super) fn folder(&self) -> &Path {
        &self.links
    }

    /// Links what is there now. What cannot be linked is copied from its folder, or the copy begins again.
    pub(super) fn take(&self) {
        link_all(&self.of, &self.links);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.links);
    }
}

fn link_all(from: &Path, to: &Path) {
    let Ok(entries) = from.read_dir() else { return };
    for entry in entries.flatten() {
        let (path, link) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => link_all(&path, &link),
            Ok(kind) if kind.is_file() && std::fs::create_dir_all(to).is_ok() => drop(std::fs::hard_link(path, link)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_linked_stays_until_the_copy_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = folder.path().join("a.db.bodies");
        std::fs::create_dir_all(bodies.join("d/staged")).unwrap();
        let left = folder.path().join(format!("a.db.bodies.copy-{}", u32::MAX));
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(bodies.join("d/staged/1"), "update").unwrap();
        let links = Links::to(&bodies);
        links.take();
        std::fs::remove_file(bodies.join("d/staged/1")).unwrap();
        std::fs::write(bodies.join("d/2"), "model").unwrap();
        links.take();
        let read = |name: &str| std::fs::read(links.folder().join(name)).unwrap();
        assert_eq!((read("d/staged/1"), read("d/2")), (b"update".to_vec(), b"model".to_vec()));
        drop(links);
        let names: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.db.bodies"], "nothing is left, not even of a killed process");
    }
}
