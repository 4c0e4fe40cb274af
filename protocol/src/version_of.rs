//! A version of a job's model, as people write it: `digits:12`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Name};

/// A version of a job, which its name or its id names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct VersionOf {
    /// The job.
    pub job: JobRef,
    /// The version, from 0.
    pub version: u32,
}

/// What names a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRef {
    /// Its id.
    Id(JobId),
    /// Its name in its population.
    Name(Name),
}

/// A text that is no version of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version of a job, such as \"digits:12\"")]
pub struct VersionOfError(String);

impl FromStr for VersionOf {
    type Err = VersionOfError;

    fn from_str(text: &str) -> Result<Self, VersionOfError> {
        let wrong = || VersionOfError(text.chars().take(80).collect());
        let (job, version) = text.split_once(':').ok_or_else(wrong)?;
        let job = match job.parse() {
            Ok(id) => JobRef::Id(id),
            Err(_) => JobRef::Name(job.parse().map_err(|_| wrong())?),
        };
        Ok(Self { job, version: version.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for VersionOf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.job {
            JobRef::Id(id) => write!(formatter, "{id}:{}", self.version),
            JobRef::Name(name) => write!(formatter, "{}:{}", name.as_str(), self.version),
        }
    }
}

impl From<VersionOf> for String {
    fn from(version: VersionOf) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for VersionOf {
    type Error = VersionOfError;

    fn try_from(text: String) -> Result<Self, VersionOfError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_written() {
        let id = JobId::from_random([3; 16]);
        for text in ["digits:12".to_owned(), format!("{id}:0")] {
            let version: VersionOf = text.parse().unwrap();
            assert_eq!(version.to_string(), text);
            assert_eq!(matches!(version.job, JobRef::Id(found) if found == id), text.starts_with("job_"));
        }
        for wrong in ["digits", "digits:", ":1", "digits:-1", "dig its:1", "digits:1:2"] {
            assert!(wrong.parse::<VersionOf>().is_err(), "{wrong:?}");
        }
    }
}
