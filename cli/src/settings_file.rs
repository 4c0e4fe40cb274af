//! Settings files: TOML with the names and units of the flags.
//!
//! The settings of a command are one struct of options that derives `clap::Args` and `Deserialize`. clap takes each
//! from its flag, else from its variable; what both leave open comes from the file, else from the default.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::Failure;

const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Why a settings file cannot be used. It quotes no values: they may be secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: more than {FILE_BYTES_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("{}: line {line}: {}{message}", path.display(), key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    Content {
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Absent where the line has no `KEY = VALUE`.
        key: Option<String>,
        message: String,
    },
}

impl Failure for SettingsError {
    fn hint(&self) -> Option<String> {
        let is_content = matches!(self, Self::Content { .. });
        is_content.then(|| "keys are the long flags with `_` for `-`, and values are written alike: see --help".into())
    }
}

pub(crate) fn read<S: DeserializeOwned>(path: &Path) -> Result<S, SettingsError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(SettingsError::TooLong { path: path.to_owned() });
    }
    // The parser's own text shows the line, and with it a secret.
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        SettingsError::Content {
            path: path.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            key: key_of(text[line_start..].lines().next().unwrap_or_default()),
            message: error.message().to_owned(),
        }
    })
}

fn key_of(line: &str) -> Option<String> {
    let (key, _) = line.split_once('=')?;
    Some(key.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use tributary_protocol::sealed::Sealed;

    use crate::units::{ByteSize, HumanDuration};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Sample {
        lease: Option<HumanDuration>,
        memory: Option<ByteSize>,
        token: Option<Sealed<String>>,
    }

    fn error_of(text: &str) -> SettingsError {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.toml");
        std::fs::write(&path, text).unwrap();
        read::<Sample>(&path).expect_err("a mistake")
    }

    #[test]
    fn a_mistake_is_named_with_its_file_line_and_key() {
        for (text, line, key, message) in [
            ("# first\nlese = \"10s\"\n", 2, "lese", "unknown field `lese`"),
            ("lease = \"10 weeks\"", 1, "lease", "a duration is a whole number and one of ms, s,"),
            ("lease = \"10s\"\nmemory = \"16MB\"", 2, "memory", "a size is a whole number and one of B, KiB,"),
            ("lease = 10000", 1, "lease", "invalid type: integer `10000`, expected a string"),
            ("lease = \"10s\"\nlease = \"11s\"", 2, "lease", "duplicate key"),
        ] {
            let error = error_of(text);
            let shown = error.to_string();
            assert!(shown.contains(&format!("sample.toml: line {line}: {key}: {message}")), "{shown}");
            assert!(error.hint().is_some());
        }
    }

    #[test]
    fn no_error_quotes_a_secret() {
        for text in ["token = \"5ecret", "token = [\"5ecret\"]", "token = '5ecret' x", "token = 5ecret"] {
            let error = error_of(text);
            assert!(!format!("{error} {error:?}").contains("5ecret"), "{error}");
            assert!(error.to_string().contains("line 1: token: "), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_missing_or_too_long_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.toml");
        let missing = read::<Sample>(&path).expect_err("no file").to_string();
        assert!(missing.starts_with("cannot read ") && missing.contains("sample.toml"), "{missing}");
        std::fs::write(&path, "#".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
        let long = read::<Sample>(&path).expect_err("a long file").to_string();
        assert!(long.ends_with("sample.toml: more than 65536 bytes"), "{long}");
    }
}
