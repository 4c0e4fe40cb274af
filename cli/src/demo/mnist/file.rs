//! One of MNIST's files, packed or not, checked against its hash.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tributary_protocol::hash::Sha256Hash;

use super::error::MnistError;

#[derive(Clone, Debug)]
pub(crate) struct MnistFile {
    /// Without `.gz`.
    pub(crate) name: &'static str,
    /// Size of the unpacked content.
    pub(crate) bytes: u64,
    /// Hash of the unpacked content: gzip files of equal content differ by the tool that wrote them.
    pub(crate) sha256: Sha256Hash,
}

/// The path of the file in the folder, packed or not, if it exists.
pub(super) fn find(folder: &Path, file: &MnistFile) -> Option<PathBuf> {
    [folder.join(file.name), gzipped_path(folder, file)].into_iter().find(|path| path.is_file())
}

pub(super) fn gzipped_path(folder: &Path, file: &MnistFile) -> PathBuf {
    folder.join(format!("{}.gz", file.name))
}

/// The unpacked content, if it is the original's. Reads at most one byte more than its size.
pub(super) fn read_checked(path: &Path, file: &MnistFile) -> Result<Vec<u8>, MnistError> {
    let failed = |source| MnistError::File { path: path.to_owned(), source };
    let content = unpack(path, file.bytes + 1).map_err(failed)?;
    let got = Sha256Hash::of(&content);
    if got == file.sha256 {
        return Ok(content);
    }
    Err(MnistError::WrongContent { path: path.to_owned(), name: file.name, expected: file.sha256, got })
}

/// The first bytes of a file, unpacked if it is a gzip file.
fn unpack(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
    let mut content = Vec::new();
    let mut reader = BufReader::new(std::fs::File::open(path)?);
    if io::BufRead::fill_buf(&mut reader)?.starts_with(&GZIP_MAGIC) {
        MultiGzDecoder::new(reader).take(bytes_max).read_to_end(&mut content)?;
    } else {
        reader.take(bytes_max).read_to_end(&mut content)?;
    }
    Ok(content)
}
