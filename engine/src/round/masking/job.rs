//! What a job file asks of the groups of its rounds.

use tributary_protocol::job_file::JobFile;
use tributary_protocol::plan::GroupTrust;

use super::policy::MaskingPolicy;

impl MaskingPolicy {
    /// The policy of a round with this goal; none where updates are not masked.
    pub fn of(file: &JobFile, goal: u32) -> Option<Self> {
        let secure = file.secure_aggregation.as_ref()?;
        Some(Self {
            group: secure.group(goal),
            group_min: secure.group_min(goal),
            corrupt: secure.corrupt,
            dropouts: secure.dropouts,
            is_signed: secure.trust() == GroupTrust::Signed,
        })
    }
}
