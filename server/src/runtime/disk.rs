//! Free space of the disk.

use std::path::Path;

/// Bytes that this process may still write to the file system of a file. None where the system does not say.
#[cfg(unix)]
pub fn free_bytes(file: &Path) -> Option<u64> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_disk_has_room() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("a.db")).unwrap() > 0);
        assert_eq!(free_bytes(Path::new("/nonexistent/a.db")), None);
    }
}
