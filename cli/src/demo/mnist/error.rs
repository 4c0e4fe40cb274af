//! Why MNIST cannot be loaded.

use std::io;
use std::path::PathBuf;

use tributary_client::examples::IdxError;
use tributary_protocol::hash::Sha256Hash;

use crate::error::Failure;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MnistError {
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// A file cannot be read or written, or is no gzip file.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The hashes are of the unpacked content.
    #[error("{} is not MNIST's {name}: its unpacked content has the SHA-256 {got} instead of {expected}", path.display())]
    WrongContent { path: PathBuf, name: &'static str, expected: Sha256Hash, got: Sha256Hash },
    /// A file is missing and cannot be downloaded.
    #[error("cannot download {url}: {cause}")]
    Download { url: String, cause: String },
    /// The hash is right, but the content is no IDX file.
    #[error("MNIST {0}")]
    Idx(#[from] IdxError),
}

impl Failure for MnistError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Folder { .. } => "name a folder with --data-dir; only the last part of its path is created",
            Self::File { .. } => "--data-dir must be readable, and writable if files are missing",
            Self::WrongContent { .. } => "delete the file, and the next run downloads it again",
            Self::Download { .. } => "put the four files into --data-dir yourself, or name a mirror with --mnist-url",
            Self::Idx(_) => "this is not the original distribution",
        };
        Some(hint.into())
    }
}
