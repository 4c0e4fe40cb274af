//! A setting of a job file with its demands on the others.

use super::need::Need;
use crate::job_file::JobFileError;

/// What a setting needs or takes away. The reason continues with a sentence that begins with the setting's name.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) of: &'static [Need],
    pub(super) why: &'static str,
}

/// A setting with a value other than its default, or one value of it.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Section and key, such as `[aggregation] combine`.
    pub(super) key: &'static str,
    /// The last word of the key, or the value, such as `median`.
    pub(super) name: String,
    pub(super) needs: Vec<Demand>,
    pub(super) denies: Vec<Demand>,
}

impl Setting {
    /// A setting of which every value means the same to others.
    pub(super) fn of(key: &'static str) -> Self {
        Self::with(key, key.rsplit(' ').next().unwrap_or(key))
    }

    /// One value of a setting.
    pub(super) fn with(key: &'static str, value: impl ToString) -> Self {
        Self { key, name: value.to_string(), needs: Vec::new(), denies: Vec::new() }
    }

    pub(super) fn needs(mut self, of: &'static [Need], why: &'static str) -> Self {
        self.needs.push(Demand { of, why });
        self
    }

    pub(super) fn denies(mut self, of: &'static [Need], why: &'static str) -> Self {
        self.denies.push(Demand { of, why });
        self
    }

    /// A setting that the job file does not have needs nothing and takes nothing away.
    pub(super) fn when(self, is_set: bool) -> Self {
        if is_set { self } else { Self { needs: Vec::new(), denies: Vec::new(), ..self } }
    }

    /// The error of a job file with both, if the other setting takes away what this one needs.
    pub(super) fn clash(&self, other: &Self) -> Option<JobFileError> {
        let pairs = self.needs.iter().flat_map(|needs| other.denies.iter().map(move |denies| (needs, denies)));
        for (needs, denies) in pairs {
            if let Some(need) = needs.of.iter().find(|need| denies.of.contains(need)) {
                let (one, another, remedy) = (&self.name, &other.name, need.remedy());
                let why = format!("{one} {}, but {another} {}; {remedy}", needs.why, denies.why);
                return Some(JobFileError::Senseless { first: self.key, second: other.key, why });
            }
        }
        None
    }
}
