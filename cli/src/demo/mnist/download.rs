//! Downloads of single files. Each is checked before it gets its name, so that an existing file is complete.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reqwest::{Url, redirect};

use super::error::MnistError;
use super::file::{MnistFile, gzipped_path, read_checked};
use crate::files::temporary_beside;
use crate::http::{self, causes};

/// Downloads `NAME.gz` into the folder. Of the folder's path only the last part is created.
pub(super) async fn download(
    folder: &Path,
    base_url: &Url,
    file: &MnistFile,
    note: impl Fn(&str),
) -> Result<PathBuf, MnistError> {
    make_folder(folder)?;
    let path = gzipped_path(folder, file);
    let failed = |source| MnistError::File { path: path.clone(), source };
    let mut temporary = temporary_beside(&path).map_err(failed)?;
    let name = format!("{}.gz", file.name);
    let url = base_url.join(&name).map_err(|error| MnistError::Download { url: name, cause: error.to_string() })?;
    note(&format!("downloading {url}"));
    fetch(&url, file, temporary.as_file_mut()).await?.map_err(failed)?;
    read_checked(temporary.path(), file).map_err(|error| with_url(error, &url))?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(&path).map_err(|error| failed(error.error))?;
    Ok(path)
}

fn make_folder(folder: &Path) -> Result<(), MnistError> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(MnistError::Folder { path: folder.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Copies the body into `target`; the inner error is the file's.
async fn fetch(url: &Url, file: &MnistFile, target: &mut impl Write) -> Result<io::Result<()>, MnistError> {
    // A gzip file is at most a little larger than its content.
    let mut bytes_left = file.bytes + 4096;
    let failed = |cause| MnistError::Download { url: url.to_string(), cause };
    let client = http::client(url, redirect::Policy::limited(5)).map_err(|error| failed(error.to_string()))?;
    let mut response = client.get(url.clone()).send().await.map_err(|error| failed(causes(&error)))?;
    if !response.status().is_success() {
        return Err(failed(format!("the server answers {}", response.status())));
    }
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(causes(&error)))? {
        let too_long = || failed("the answer is longer than the file can be".into());
        bytes_left = bytes_left.checked_sub(chunk.len() as u64).ok_or_else(too_long)?;
        if let Err(error) = target.write_all(&chunk) {
            return Ok(Err(error));
        }
    }
    Ok(target.flush())
}

/// Names the URL instead of the temporary file.
fn with_url(error: MnistError, url: &Url) -> MnistError {
    let cause = match error {
        MnistError::WrongContent { name, expected, got, .. } => {
            format!("it is not MNIST's {name}: its unpacked content has the SHA-256 {got} instead of {expected}")
        }
        MnistError::File { source, .. } => format!("it cannot be unpacked: {source}"),
        error => error.to_string(),
    };
    MnistError::Download { url: url.to_string(), cause }
}
