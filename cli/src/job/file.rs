//! Job files from a path or a text, with errors that name the file and the key.

use std::io::Read;
use std::path::Path;

use tributary_protocol::job_file::{JOB_FILE_BYTES_MAX, JobFile, JobFileError};

use crate::error::{CliError, Failure};

/// A file that describes no job.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {source}")]
pub struct WrongJobFile {
    /// The file's name, or `standard input`.
    name: String,
    source: JobFileError,
}

impl Failure for WrongJobFile {
    fn hint(&self) -> Option<String> {
        Some("nothing was sent; correct the file and try again".into())
    }
}

/// Reads and checks a job file; `-` is standard input.
pub fn read(path: &Path) -> Result<JobFile, CliError> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let mut text = String::new();
    // With one byte more than allowed, the parser says that the file is too long.
    let bytes_max = JOB_FILE_BYTES_MAX as u64 + 1;
    let read = if is_stdin {
        std::io::stdin().lock().take(bytes_max).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(bytes_max).read_to_string(&mut text))
    };
    read.map_err(CliError::file("read", &name))?;
    Ok(parse(&name, &text)?)
}

/// Checks the text of a job file; `name` stands in its error.
pub fn parse(name: &str, text: &str) -> Result<JobFile, WrongJobFile> {
    JobFile::parse(text).map_err(|source| WrongJobFile { name: name.to_owned(), source })
}
