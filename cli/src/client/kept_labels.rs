//! The labels of a client in its state folder, so that a class means the same in all its runs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tributary_protocol::id::Name;

use crate::error::CliError;
use crate::files::replace;
use crate::table::LabelMap;

/// The labels that an earlier run kept of an example set.
pub(super) fn read(state_dir: &Path, data: Option<&Name>) -> Result<Option<LabelMap>, CliError> {
    let path = path(state_dir, data);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CliError::file("read", path)(error)),
    };
    let labels = serde_json::from_str(&text);
    labels.map(Some).map_err(|error| CliError::BadSetting(format!("{}: {error}", path.display())))
}

pub(super) fn write(state_dir: &Path, data: Option<&Name>, labels: &LabelMap) -> Result<(), CliError> {
    if read(state_dir, data)?.as_ref() == Some(labels) {
        return Ok(());
    }
    let path = path(state_dir, data);
    std::fs::create_dir_all(state_dir).map_err(CliError::file("create", state_dir))?;
    let text = serde_json::to_vec(labels).map_err(|error| CliError::Internal(error.to_string()))?;
    replace(&path, &text).map_err(CliError::file("write", &path))
}

fn path(state_dir: &Path, data: Option<&Name>) -> PathBuf {
    match data {
        Some(name) => state_dir.join(format!("labels-{name}.json")),
        None => state_dir.join("labels.json"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_kept_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        let name = "photos".parse().unwrap();
        for data in [None, Some(&name)] {
            assert_eq!(read(&state_dir, data).unwrap(), None);
            for labels in [["cat", "dog"], ["dog", "cat"]] {
                let labels = LabelMap::new(labels.map(str::to_owned).to_vec());
                write(&state_dir, data, &labels).unwrap();
                assert_eq!(read(&state_dir, data).unwrap(), Some(labels));
            }
        }
    }
}
