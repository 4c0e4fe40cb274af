//! Files that appear complete or not at all.

use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

/// An empty file in the folder of `target`. `persist` renames it to `target`: readers see the old file or the new one.
pub(crate) fn temporary_beside(target: &Path) -> io::Result<NamedTempFile> {
    // The umask decides, as for any new file. The default of temporary files, 0600, would survive the rename.
    beside(target, 0o666)
}

/// As [`temporary_beside`], readable for its owner alone: a backup holds updates and hashes of secrets.
pub(crate) fn private_beside(target: &Path) -> io::Result<NamedTempFile> {
    beside(target, 0o600)
}

fn beside(target: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tributary-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(folder)
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

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = temporary_beside(&folder.path().join("missing/model")).expect_err("no such folder");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
