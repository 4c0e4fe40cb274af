//! Files that appear complete or not at all.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// An empty file in the folder of `target`. `persist` renames it to `target`: readers see the old file or the new one.
pub(crate) fn temporary_beside(target: &Path) -> io::Result<NamedTempFile> {
    // The umask decides, as for any new file. The default of temporary files, 0600, would survive the rename.
    beside(target, PREFIX, 0o666)
}

/// Writes a file, or replaces it.
pub(crate) fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary_beside(target)?;
    file.write_all(bytes)?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}

/// As [`temporary_beside`], readable for its owner alone: a backup holds updates and hashes of secrets.
/// It is locked while its process has it, and those of processes that were killed are removed first: each is as large
/// as the database.
pub(crate) fn private_beside(target: &Path) -> io::Result<NamedTempFile> {
    remove_left(folder_of(target))?;
    let file = beside(target, PRIVATE, 0o600)?;
    // Elsewhere a lock would keep SQLite, which opens the file by its name, from writing to it.
    #[cfg(target_os = "linux")]
    file.as_file().lock()?;
    Ok(file)
}

/// Removes files of [`private_beside`] that nobody has any more.
fn remove_left(folder: &Path) -> io::Result<()> {
    if cfg!(not(target_os = "linux")) {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(PRIVATE) || !name.ends_with(SUFFIX) {
            continue;
        }
        // Another process may have removed it meanwhile.
        let Ok(file) = std::fs::File::open(&path) else { continue };
        if file.try_lock().is_ok() {
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// How the names of unfinished files begin and end: those of anybody, and those that are locked.
const PREFIX: &str = ".tributary-";
const PRIVATE: &str = ".tributary-copy-";
const SUFFIX: &str = ".part";

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(target: &Path, prefix: &str, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(folder_of(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_is_not_persisted_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model");
        let mut file = temporary_beside(&target).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Method: a file that is no temporary file of this process is left as by one that was killed.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [".tributary-copy-killed.part", ".tributary-model.part", "other.part"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let living = private_beside(&path("a")).unwrap();
        let mut next = private_beside(&path("b")).unwrap();
        next.write_all(b"whole").unwrap();
        assert!(living.path().exists() && !path(".tributary-copy-killed.part").exists());
        assert!(path(".tributary-model.part").exists() && path("other.part").exists());
        next.persist(path("b")).unwrap();
        drop(living);
        private_beside(&path("c")).unwrap();
        assert_eq!(std::fs::read(path("b")).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = temporary_beside(&folder.path().join("missing/model")).expect_err("no such folder");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
