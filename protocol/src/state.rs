//! The states of jobs, rounds and assignments, roles, and audit actions. Each is written as one word, the same in API,
//! database and documentation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is no word of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none of {known}")]
pub struct UnknownState {
    text: String,
    /// The words, separated by commas.
    known: String,
}

macro_rules! states {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All values, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word in API, database and documentation.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownState;

            fn from_str(text: &str) -> Result<Self, UnknownState> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => {
                        let known: Vec<&str> = Self::ALL.iter().map(|word| word.as_str()).collect();
                        Err(UnknownState { text: text.chars().take(40).collect(), known: known.join(", ") })
                    }
                }
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                word_schema(&[$($text),*], concat!($($doc),*))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }

        impl TryFrom<String> for $name {
            type Error = UnknownState;

            fn try_from(text: String) -> Result<Self, UnknownState> {
                text.parse()
            }
        }
    };
}

/// The OpenAPI schema of an enum that is written as one of these words.
#[cfg(feature = "openapi")]
fn word_schema(words: &[&str], description: &str) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    let schema = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::Type::String);
    let schema = schema.enum_values(Some(words.iter().copied())).description(Some(description.trim()));
    utoipa::openapi::Schema::from(schema.build()).into()
}

states! {
    /// The state of a job.
    JobState {
        /// The operator has yet to upload model version 0.
        AwaitingModel = "awaiting_model",
        /// Rounds are opened one after the other.
        Running = "running",
        /// A relay's copy of its parent's job: its rounds are parts of the parent's rounds.
        Relaying = "relaying",
        /// The open round is finished; no other is opened until an operator resumes the job.
        Paused = "paused",
        /// Ended by an operator.
        Stopped = "stopped",
        /// Ended by the job's stop policy.
        Completed = "completed",
    }
}

states! {
    /// The work of a round's clients.
    Task {
        /// Training: each client sends an update, and the round makes the next model version.
        Train = "train",
        /// Evaluation: each client measures the model on its examples. The model does not change.
        Evaluate = "evaluate",
        /// Description: each client sends sums of its table, which fix what the network is fed.
        Describe = "describe",
    }
}

states! {
    /// The phase of a round. A round moves down this list, never up.
    Phase {
        /// The round waits until enough clients are available to draw a cohort.
        Selecting = "selecting",
        /// The cohort trains or evaluates, and reports.
        Training = "training",
        /// Reports are no longer accepted; the coordinator computes the result.
        Aggregating = "aggregating",
        /// The result is stored: a model version or an evaluation.
        Committed = "committed",
        /// The round ended without a result.
        Abandoned = "abandoned",
    }
}

states! {
    /// The stage of a group, whose members mask one sum together. A group moves down this list, never up.
    GroupStage {
        /// The members share the secrets of their masks among neighbours.
        Sharing = "sharing",
        /// The members send masked updates.
        Masking = "masking",
        /// The survivors sign who has survived. Groups that trust the coordinator skip this stage.
        Agreeing = "agreeing",
        /// The survivors send the shares that remove the masks from the sum.
        Unmasking = "unmasking",
        /// The sum is open, and its members count.
        Summed = "summed",
        /// The group ended without a sum, and its members do not count.
        Failed = "failed",
    }
}

impl GroupStage {
    /// Whether the group has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Summed | Self::Failed)
    }
}

states! {
    /// The reason why a group has no sum.
    GroupFailure {
        /// Fewer members than a group needs have shared their secrets in time.
        TooFewMembers = "too_few_members",
        /// More members were lost than the group bears, before all of their updates were whole.
        TooFewSurvivors = "too_few_survivors",
        /// Fewer survivors than the quorum have signed who has survived.
        TooFewSignatures = "too_few_signatures",
        /// A secret that must be rebuilt has fewer shares than its threshold.
        TooFewShares = "too_few_shares",
        /// The shares of a secret do not give what its owner has committed to.
        FalseShares = "false_shares",
        /// The sum is larger than honest members can make it.
        Norm = "norm",
        /// An operator stopped the job.
        Stopped = "stopped",
        /// The round ended first.
        RoundEnded = "round_ended",
        /// The coordinator could not read its stored data; its log has the details.
        Fault = "fault",
    }
}

states! {
    /// The state of a group that adds up among itself.
    RingState {
        /// Its members add up.
        Formed = "formed",
        /// They have one sum, and one of them brings it.
        Agreed = "agreed",
        /// The sum is stored, and its members count.
        Counted = "counted",
        /// It ended without a sum.
        Failed = "failed",
    }
}

states! {
    /// The reason why the members of a group send their own updates to the coordinator.
    StarReason {
        /// The time for groups was over.
        Time = "time",
        /// The round has formed as many groups as it may.
        Attempts = "attempts",
        /// Too few members were left for a group.
        TooFew = "too_few",
        /// No majority of the members has the same sum.
        Disagreement = "disagreement",
        /// Between its members, the coordinator would carry more of a group than their own updates are.
        Links = "links",
    }
}

states! {
    /// What a neighbour in a group did, so that its member could not go on.
    StallKind {
        /// No connection came about.
        Unreachable = "unreachable",
        /// It owed a frame, and sent nothing for too long.
        Silent = "silent",
        /// It closed the connection.
        Closed = "closed",
        /// It sent a frame that is none, or another one than was due.
        Wrong = "wrong",
    }
}

states! {
    /// The reason why a round was abandoned.
    AbandonReason {
        /// Too few clients were available before the selection timeout.
        SelectionTimeout = "selection_timeout",
        /// Too few clients reported before the deadline, or too few still worked to reach the minimum.
        TooFewReports = "too_few_reports",
        /// An operator stopped the job.
        JobStopped = "job_stopped",
        /// The new model has a NaN or an infinity.
        NotFinite = "not_finite",
        /// The coordinator could not read its stored data; its log has the details.
        Fault = "fault",
        /// An evaluation that found no evaluators in time gave way to that of the last version.
        Superseded = "superseded",
        /// The secret draw of a private round took more clients than a round may have. Its chance is part of delta.
        Overdrawn = "overdrawn",
        /// The parent of this relay no longer takes the sum of the round.
        Upstream = "upstream",
    }
}

states! {
    /// The state of an assignment, the work of one client in one round.
    AssignmentState {
        /// The client works.
        Assigned = "assigned",
        /// The client's update or evaluation was accepted.
        Reported = "reported",
        /// The client's update was refused; the reason says why.
        Rejected = "rejected",
        /// The client gave up; the reason says why.
        Failed = "failed",
        /// The round closed before the client reported: it is a straggler.
        Expired = "expired",
    }
}

states! {
    /// The outcome of a straggler: a client whose round closed before it reported.
    Straggler {
        /// It finished its work after the round had closed.
        FinishedLate = "finished_late",
        /// It stopped before its work was finished, because the round had closed or the deadline had passed.
        Stopped = "stopped",
        /// It has not come back since.
        NotBack = "not_back",
    }
}

states! {
    /// Whether a coordinator lives, by its lease.
    NodeState {
        /// It renews its lease in time.
        Alive = "alive",
        /// It missed a renewal; its lease has not expired.
        Late = "late",
        /// Its lease has expired: other coordinators take its jobs over.
        Dead = "dead",
    }
}

states! {
    /// Whether the updates of a device class count as often as those of the other classes.
    ClassVerdict {
        /// None of its assignments ended with an accepted report, and that is no chance.
        ShutOut = "shut_out",
        /// Its assignments end with an accepted report less often than those of the others, and that is no chance.
        Under = "under",
        /// There is no noticeable difference.
        Fair = "fair",
        /// There are too few assignments to tell.
        Unknown = "unknown",
    }
}

states! {
    /// How urgently a job needs attention.
    Severity {
        /// It needs none.
        Ok = "ok",
        /// It waits, as it should.
        Waiting = "waiting",
        /// Something needs a look.
        Warning = "warning",
        /// It does not advance until an operator acts.
        Trouble = "trouble",
    }
}

states! {
    /// What the health of a job is about.
    HealthKind {
        /// Nothing is wrong.
        Fine = "fine",
        /// The job has ended.
        Ended = "ended",
        /// An operator paused the job.
        Paused = "paused",
        /// Model version 0 is missing.
        AwaitingModel = "awaiting_model",
        /// No coordinator drives the job.
        NoDriver = "no_driver",
        /// Rounds were abandoned, one after the other.
        RoundsAbandoned = "rounds_abandoned",
        /// A round waits for clients.
        WaitingForClients = "waiting_for_clients",
        /// The evaluation waits for evaluators.
        WaitingForEvaluators = "waiting_for_evaluators",
        /// The job ended without a measurement of its model.
        NotMeasured = "not_measured",
        /// The updates of a device class do not count.
        ClassShutOut = "class_shut_out",
        /// Many clients cannot follow the plan: their SDKs lack something.
        CannotFollow = "cannot_follow",
        /// Clients that listen for other members of groups.
        Listeners = "listeners",
        /// Waiting clients have tables with other columns or classes.
        OtherTables = "other_tables",
        /// The loss rises.
        LossRises = "loss_rises",
        /// The disk of the coordinator will be full soon.
        DiskFills = "disk_fills",
    }
}

states! {
    /// The reason why a client gave up.
    FailureReason {
        /// The host app stopped the work, for example because the device is in use or no longer charging.
        Interrupted = "interrupted",
        /// The device has too little memory.
        OutOfMemory = "out_of_memory",
        /// The client has no examples.
        NoData = "no_data",
        /// The loss or a weight became NaN or infinite.
        Diverged = "diverged",
        /// The client's data or SDK does not fit the plan.
        DoesNotFit = "does_not_fit",
        /// The group for its masked update is not one that the client gives it to.
        Privacy = "privacy",
        /// Another reason, given in the report's detail.
        Other = "other",
    }
}

states! {
    /// What the holder of a token or account may do. Each role may also do what the roles before it may.
    Role {
        /// Sees everything but tokens and accounts, and changes nothing.
        Viewer = "viewer",
        /// Creates and steers jobs.
        Operator = "operator",
        /// Manages populations, tokens and accounts.
        Admin = "admin",
    }
}

states! {
    /// The holder for whom a token is made.
    TokenKind {
        /// An operator: a person or program that uses the operator API.
        Operator = "operator",
        /// An app that enrols clients.
        Enrolment = "enrolment",
    }
}

states! {
    /// Whether a client may take part.
    Standing {
        /// It may.
        Active = "active",
        /// It may check in, but gets no work until an operator releases it.
        Quarantined = "quarantined",
        /// All its requests are refused, for good.
        Revoked = "revoked",
    }
}

states! {
    /// Where a release stands.
    ReleaseState {
        /// It waits for the evaluation that its gate asks for.
        Held = "held",
        /// Clients have it.
        Out = "out",
        /// An operator took it back.
        Withdrawn = "withdrawn",
        /// Its gate was not met.
        Refused = "refused",
    }
}

states! {
    /// What was done, as the audit log records it.
    AuditAction {
        /// A population was created.
        PopulationCreate = "population.create",
        /// The budget that the jobs of a population share was set, or made stricter.
        PopulationBudget = "population.budget",
        /// An enrolment or operator token was created.
        TokenCreate = "token.create",
        /// A token was revoked.
        TokenRevoke = "token.revoke",
        /// An account was created.
        AccountCreate = "account.create",
        /// The password of an account was set.
        AccountPassword = "account.password",
        /// An account was revoked.
        AccountRevoke = "account.revoke",
        /// All sessions of an account were ended.
        SessionsEnd = "account.sessions_end",
        /// An account signed in.
        Login = "session.login",
        /// An account signed out.
        Logout = "session.logout",
        /// A client was enrolled.
        ClientEnrol = "client.enrol",
        /// A client was quarantined: it gets no work.
        ClientQuarantine = "client.quarantine",
        /// A client was released from quarantine.
        ClientRelease = "client.release",
        /// A client was revoked: its requests are refused.
        ClientRevoke = "client.revoke",
        /// An operator had what is stored of a client deleted.
        ClientErase = "client.erase",
        /// A client has left, and what was stored of it is deleted.
        ClientLeave = "client.leave",
        /// A request was refused: the first of its kind, from this actor on this day.
        Refusal = "refusal",
        /// A job was created.
        JobCreate = "job.create",
        /// A job was paused: its open round goes on, no new one opens.
        JobPause = "job.pause",
        /// A paused job was resumed.
        JobResume = "job.resume",
        /// A job was stopped for good.
        JobStop = "job.stop",
        /// The round policy of a job was changed, for the rounds after the open one.
        JobRoundPolicy = "job.round_policy",
        /// The name, tags or notes of a job were changed, or it was archived or brought back.
        JobChange = "job.change",
        /// A job that had ended was deleted, with its rounds and versions.
        JobDelete = "job.delete",
        /// A model version was released to the apps of a population.
        ReleaseCreate = "release.create",
        /// A release reaches a larger share of the clients.
        ReleaseWiden = "release.widen",
        /// A release was withdrawn: clients go back to the one before.
        ReleaseWithdraw = "release.withdraw",
        /// A model version was pinned: retention keeps it.
        ModelPin = "model.pin",
        /// A model version was unpinned.
        ModelUnpin = "model.unpin",
        /// The first model of a job was uploaded.
        ModelUpload = "model.upload",
        /// The test set of a job was uploaded or replaced.
        TestSetUpload = "test_set.upload",
        /// A coordinator took a job over from one that died.
        JobTakeOver = "job.take_over",
    }
}

impl Phase {
    /// Whether the round has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Selecting | Self::Training | Self::Aggregating)
    }
}

impl JobState {
    /// Whether the job has ended for good.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Stopped | Self::Completed)
    }

    /// Whether the job has work for clients, now or with its next round.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Running | Self::Relaying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_word() {
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse(), Ok(*phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
        assert!("training ".parse::<Phase>().is_err());
        assert_eq!("eval".parse::<Task>().unwrap_err().to_string(), "\"eval\" is none of train, evaluate, describe");
    }

    #[test]
    fn phases_are_ordered_as_a_round_moves() {
        assert!(Phase::Selecting < Phase::Training && Phase::Training < Phase::Aggregating);
        assert!(Phase::Aggregating < Phase::Committed);
    }
}
