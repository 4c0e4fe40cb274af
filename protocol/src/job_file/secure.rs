//! Secure aggregation of a job (`[secure_aggregation]`).
//!
//! Clients that have finished training form **groups**. A member masks its update with numbers that cancel out in the
//! sum of its group, so the coordinator adds up what it cannot read. `{}` is a complete section: the sizes follow from
//! `[round]`.

use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer, Serialize};

use super::error::require;
use super::number::number_or_table;
use super::privacy::{AdaptiveNoisedClip, Clip, Mechanism, Privacy};
use super::{JobFile, JobFileError, Mode, StalenessWeight};
use crate::plan::{GroupTrust, Masking};
use crate::secure::quantise::LEVELS_MAX;
use crate::update::Codec;

/// Fewest members of a group: a sum of two tells each of them the other's update.
const GROUP_MIN: u32 = 3;
/// Most members of a group: beyond them the coordinator's work for one lost member takes minutes.
const GROUP_MAX: u32 = 1_000;
/// Most members of a group, unless the file says otherwise: masks are words of two bytes up to 256.
const GROUP_DEFAULT: u32 = 128;

/// The clip bounds what an update may add and the steps to which it is rounded. Trainings with clips of 0.1 to 1 are in
/// `docs/secure.md`.
const CLIP: AdaptiveNoisedClip = AdaptiveNoisedClip { start: 1.0, quantile: 0.9, rate: 0.2 };

/// Longest text of the CAs of members, in bytes.
const PEERS_CA_BYTES_MAX: usize = 16 << 10;

/// Secure aggregation of a job: the coordinator learns the sums of groups and no single update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SecureAggregation {
    /// Most members of a group, 3 to 1,000. Default: `updates_goal`, at most 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Fewest members of a group, 3 or more. Default: a quarter of `group`, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_min: Option<u32>,
    /// Share of the members that may work together with a dishonest coordinator, 0 to 0.33. Default: 0.1.
    pub corrupt: f64,
    /// Share of the members that may be lost after they joined, 0 to 0.5. Default: 0.3.
    pub dropouts: f64,
    /// Steps of a value on either side of zero, as the root of the mean square of a clipped update, 1 to 4,096.
    /// Default: 8.
    pub levels: u32,
    /// Share of the values that are sent, above 0 and at most 1: a random part, the same for all members of a group.
    /// Default: 1.
    pub keep: f64,
    /// L2 norm to which clients clip their updates: a number, or a table for one that follows the updates. Default:
    /// `{ start = 1.0, quantile = 0.9, rate = 0.2 }`, since a clip that no noise follows need not be small.
    #[serde(deserialize_with = "clip")]
    pub clip: Clip,
    /// Who is trusted to tell all members of a group the same: `honest` is the coordinator, `signed` is nobody, because
    /// members sign. Default: `signed` where the coordinator identifies clients by certificates or where `peers_ca` is
    /// given, else `honest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<GroupTrust>,
    /// The CAs, in PEM, that issue the certificates with which members sign. Default: that of the population, whose key
    /// the coordinator has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers_ca: Option<String>,
}

/// A clip that moves, in a job without noise. Members that are left out are those of the default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MovingClip {
    start: f64,
    quantile: f64,
    rate: f64,
}

impl Default for MovingClip {
    fn default() -> Self {
        let AdaptiveNoisedClip { start, quantile, rate } = CLIP;
        Self { start, quantile, rate }
    }
}

fn clip<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Clip, D::Error> {
    let table = |MovingClip { start, quantile, rate }| Clip::Adaptive(AdaptiveNoisedClip { start, quantile, rate });
    number_or_table(deserializer, "a number, or a table with start, quantile and rate", Clip::Fixed, table)
}

impl Default for SecureAggregation {
    fn default() -> Self {
        Self {
            group: None,
            group_min: None,
            corrupt: 0.1,
            dropouts: 0.3,
            levels: 8,
            keep: 1.0,
            clip: Clip::Adaptive(CLIP),
            trust: None,
            peers_ca: None,
        }
    }
}

impl SecureAggregation {
    /// Most members of a group in a job whose rounds have this goal.
    pub fn group(&self, goal: u32) -> u32 {
        self.group.unwrap_or_else(|| goal.clamp(GROUP_MIN, GROUP_DEFAULT))
    }

    /// Fewest members of a group in a job whose rounds have this goal.
    pub fn group_min(&self, goal: u32) -> u32 {
        self.group_min.unwrap_or_else(|| self.group(goal).div_ceil(4).max(GROUP_MIN))
    }

    /// The sizes that a group may have in a job whose rounds have this goal.
    pub fn sizes(&self, goal: u32) -> RangeInclusive<u16> {
        let size = |members: u32| u16::try_from(members).unwrap_or(u16::MAX);
        size(self.group_min(goal))..=size(self.group(goal))
    }

    /// Who is trusted to form groups.
    pub fn trust(&self) -> GroupTrust {
        self.trust.unwrap_or(GroupTrust::Honest)
    }

    /// How the clients of a round mask their updates, which they clip to this norm.
    pub fn masking(&self, goal: u32, clip: f64) -> Masking {
        let Self { corrupt, dropouts, levels, keep, .. } = *self;
        let (group_min, trust) = (self.group_min(goal), self.trust());
        Masking { group_min, corrupt, dropouts, levels, keep, clip, trust, any_version: false, noise: None }
    }

    pub(super) fn check(&self, job: &JobFile) -> Result<(), JobFileError> {
        let goal = job.round.goal();
        let (group, least) = (self.group(goal), self.group_min(goal));
        require((GROUP_MIN..=GROUP_MAX).contains(&group), "[secure_aggregation] group", "3 to 1000")?;
        let is_size = (GROUP_MIN..=group).contains(&least);
        require(is_size, "[secure_aggregation] group_min", "at least 3 and at most group")?;
        require((0.0..=0.33).contains(&self.corrupt), "[secure_aggregation] corrupt", "0 to 0.33")?;
        require((0.0..=0.5).contains(&self.dropouts), "[secure_aggregation] dropouts", "0 to 0.5")?;
        require((1..=LEVELS_MAX).contains(&self.levels), "[secure_aggregation] levels", "1 to 4096")?;
        require(self.keep > 0.0 && self.keep <= 1.0, "[secure_aggregation] keep", "above 0 and at most 1")?;
        self.clip.check("[secure_aggregation] clip")?;
        let is_used = self.peers_ca.is_none() || self.trust != Some(GroupTrust::Honest);
        require(is_used, "[secure_aggregation] peers_ca", "left out where nobody signs (trust = \"honest\")")?;
        let is_short = self.peers_ca.as_ref().is_none_or(|pem| pem.len() <= PEERS_CA_BYTES_MAX);
        require(is_short, "[secure_aggregation] peers_ca", "at most 16,384 bytes of PEM")?;
        let forms = "at least group_min of [secure_aggregation], or no group could form";
        let key = match job.round.mode {
            Mode::Synchronous => "[round] updates_goal",
            Mode::Buffered { .. } => "[round] mode buffer",
            Mode::StaleSynchronous { .. } => "[round] mode members",
        };
        require(goal >= least, key, forms)?;
        let at_work = job.round.mode.buffered().map_or(group, |buffered| buffered.concurrency);
        let fills = "at least group of [secure_aggregation], or no group would be full";
        require(at_work >= group, "[round] mode concurrency", fills)?;
        let masked = "left out with [secure_aggregation], whose masked integers are a codec of their own";
        require(job.update.codec == Codec::default(), "[update] codec", masked)?;
        let clipped = "left out with [secure_aggregation], whose clip bounds an update";
        require(job.update.norm_max.is_none(), "[update] norm_max", clipped)?;
        let noised = "\"distributed\" with [secure_aggregation]: only clients can add noise to what nobody else reads";
        let is_noised = |privacy: &Privacy| privacy.mechanism == Mechanism::Distributed;
        require(job.privacy.as_ref().is_none_or(is_noised), "[privacy] mechanism", noised)?;
        let clip = "left out with [privacy], whose clip bounds an update";
        require(job.privacy.is_none() || self.clip == Clip::Adaptive(CLIP), "[secure_aggregation] clip", clip)?;
        let is_told = job.model.inputs.as_ref().is_some_and(|inputs| inputs.standardize.is_some());
        let told = "left out with [secure_aggregation], because its sums of each table are not masked yet";
        require(!is_told, "[model.inputs] standardize", told)?;
        let asked = "left out with [secure_aggregation]: answers are not masked yet";
        require(job.analysis.is_none(), "[analysis]", asked)
    }
}

impl JobFile {
    /// The norm to which the updates of a job are clipped whose sums alone may be known; none for other jobs.
    pub fn clip(&self) -> Option<&Clip> {
        let secure = self.secure_aggregation.as_ref().map(|secure| &secure.clip);
        self.privacy.as_ref().map(|privacy| &privacy.clip).or(secure)
    }

    /// Most updates of one version: a full cohort, or a buffer, which the sum of a group or of a relay may overfill.
    pub fn updates_max(&self) -> u32 {
        let full = self.round.cohort_size();
        if let Some(coded) = &self.coded {
            return coded.drawn();
        }
        match (&self.secure_aggregation, self.round.mode) {
            (_, Mode::Synchronous) => full,
            (Some(secure), _) => full.saturating_add(secure.group(self.round.goal()).saturating_sub(1)),
            // The last sum of a relay may bring more than the buffer lacks.
            (None, Mode::Buffered { concurrency, staleness_weight: StalenessWeight::Constant, .. })
                if self.aggregation.combine.is_mean() =>
            {
                full.saturating_add(concurrency - 1)
            }
            (None, _) => full,
        }
    }

    /// Whether the coordinator may know no single update, so that what clients report of one is kept nowhere.
    pub fn hides_updates(&self) -> bool {
        self.privacy.is_some() || self.secure_aggregation.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"
        name = "masked"
        population = "demo"
        [model]
        parameters = [{ name = "w", shape = [2] }]
        [training]
        epochs = 1
        optimizer = { kind = "sgd", learning_rate = 0.1 }
        [aggregation]
        combine = "uniform_mean"
    "#;

    fn parsed(rest: &str) -> Result<JobFile, String> {
        JobFile::parse(&format!("{JOB}{rest}")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_section_is_enough() {
        let job = parsed("[secure_aggregation]").unwrap();
        let secure = job.secure_aggregation.as_ref().unwrap();
        assert_eq!((secure.group(10), secure.group_min(10)), (10, 3));
        assert_eq!((secure.group(1_000), secure.group_min(1_000)), (128, 32));
        assert_eq!((secure.group(4), secure.group_min(4)), (4, 3));
        let masking = secure.masking(10, 0.5);
        assert_eq!((masking.group_min, masking.levels, masking.clip), (3, 8, 0.5));
        assert_eq!(JobFile::parse(&job.text()).unwrap(), job);
        assert!(job.hides_updates() && job.clip().is_some());
        let moving = parsed("[secure_aggregation]\nclip = { start = 2.0 }").unwrap();
        let wanted = Clip::Adaptive(AdaptiveNoisedClip { start: 2.0, ..CLIP });
        assert_eq!(moving.clip(), Some(&wanted), "the rest is that of the default");
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (text, named) in [
            ("[secure_aggregation]\ngroup = 2", "[secure_aggregation] group"),
            ("[secure_aggregation]\ngroup = 2000", "[secure_aggregation] group"),
            ("[secure_aggregation]\ngroup = 8\ngroup_min = 9", "[secure_aggregation] group_min"),
            ("[secure_aggregation]\ncorrupt = 0.5", "[secure_aggregation] corrupt"),
            ("[secure_aggregation]\ndropouts = nan", "[secure_aggregation] dropouts"),
            ("[secure_aggregation]\nlevels = 0", "[secure_aggregation] levels"),
            ("[secure_aggregation]\nkeep = 0", "[secure_aggregation] keep"),
            ("[secure_aggregation]\nclip = 0", "[secure_aggregation] clip"),
            ("[secure_aggregation]\ngroup = 20\ngroup_min = 20", "[round] updates_goal"),
            ("[secure_aggregation]\n[update]\ncodec = 'f16'", "[update] codec"),
            ("[secure_aggregation]\n[update]\nnorm_max = 1", "[update] norm_max"),
            ("[secure_aggregation]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n[stop]\nrounds = 9", "[privacy]"),
            (
                "[secure_aggregation]\n[model.inputs]\nstandardize = 'federated'\ncolumns = [{ name = 'x' }]",
                "[model.inputs] standardize",
            ),
            ("[secure_aggregation]\n[evaluation]", "[evaluation] where does not go with [secure_aggregation]"),
            ("[secure_aggregation]\n[round]\nmode = { kind = 'buffered', buffer = 5, concurrency = 5 }", "mode"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert!(refused.contains(named), "{text}: {refused}");
        }
    }

    /// Twenty updates in groups of six are at least four sums.
    #[test]
    fn rules_that_read_sums_of_groups_are_taken_and_others_refused() {
        let with = |combine: &str, group: u32| {
            let job = JOB.replace("\"uniform_mean\"", combine);
            let round = "[round]\nupdates_goal = 24\nupdates_min = 20\n[secure_aggregation]";
            JobFile::parse(&format!("{job}{round}\ngroup = {group}")).map(drop).map_err(|error| error.to_string())
        };
        for combine in [
            "'uniform_mean'",
            "'median'",
            "{ kind = 'trimmed_mean', trim = 0.3 }",
            "{ kind = 'trimmed_mean', trim = 0 }",
            "{ kind = 'norm_clipping', norm = 0.5 }",
        ] {
            with(combine, 6).unwrap();
        }
        for (combine, why) in [
            ("'weighted_mean'", "set combine = \"uniform_mean\""),
            ("{ kind = 'q_fedavg', q = 1 }", "weighs updates by their losses"),
            ("{ kind = 'norm_clipping', norm = 0.5, adaptive = {} }", "follows the norms of updates"),
            ("{ kind = 'krum', byzantine = 1 }", "needs more updates than a round has groups"),
            ("'geometric_median'", "needs more updates than a round has groups"),
            ("{ kind = 'trimmed_mean', trim = 0.2 }", "drops nothing of 4 sums of groups"),
        ] {
            let refused = with(combine, 6).unwrap_err();
            assert!(refused.contains(why), "{combine}: {refused}");
        }
        let refused = with("'median'", 10).unwrap_err();
        assert!(refused.contains("median needs 3 sums of groups, and a round may have 2"), "{refused}");
        with("'median'", 9).unwrap();
    }
}
