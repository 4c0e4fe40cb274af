//! Receiving an update: checked, hashed, stored, acknowledged, and added to its round's sum.
//!
//! A small update ([`held`]) is read into memory, checked when it is complete, and added to the sum after it was
//! acknowledged. A large update ([`streamed`]) is stored chunk by chunk and added to the sum while it arrives, which
//! saves reading it again; if it is refused or breaks off, it is taken out of the sum. What arrived of one that broke
//! off is kept, so that its sender can resume.

mod body;
mod group;
mod held;
mod incoming;
mod masked;
mod receiving;
mod refusal;
mod streamed;

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::staleness;
use tributary_protocol::device::UpdateQuery;
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::{AssignmentId, ClientId};
use tributary_protocol::relay::SumQuery;
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::traffic::Traffic;
use tributary_protocol::update::UpdateLimits;

use super::Updates;
use super::claims::{Claim, Claimed};
use super::figures::{Training, check_loss};
use super::fold::Measured;
use crate::blob::Staged;
use crate::db::{
    AssignmentRow, BLOB_CHUNK_BYTES, Below, DbError, PartRow, Report, RoundRow, masked_key, part_key, update_key,
};
use crate::lifecycle::acceptance::{Accepted, Submission};
use crate::lifecycle::assignments::{self, Comes, Received, Refusal};
use crate::lifecycle::parts::NewPart;
use crate::services::Services;
pub(crate) use body::Body;
use body::{Stops, piece};
use group::Group;
pub(crate) use refusal::{Stop, UploadRefusal};

/// Largest update that is held in memory and stored by the transaction that acknowledges it.
const HELD_BYTES_MAX: u64 = BLOB_CHUNK_BYTES as u64;

/// Bodies of one update that may be damaged, or break off early, before its assignment is rejected.
const ATTEMPTS_MAX: u64 = 32;

/// Longest time that a request waits for the next buffer, in milliseconds.
const BETWEEN_MS_MAX: i64 = 10_000;

/// Longest time in which a repeated update is read, in milliseconds.
const REPEAT_MS_MAX: i64 = 600_000;

/// What a request says of its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    /// The hash of the whole update. An update without it cannot be resumed.
    pub(crate) digest: Option<Sha256Hash>,
    /// Bytes of this request's body, if the request says so.
    pub(crate) length: Option<u64>,
    /// Where in the update this body begins, if it resumes one.
    pub(crate) offset: Option<u64>,
    /// Whether the update ends where this body does.
    pub(crate) complete: bool,
}

impl Announced {
    /// The length of an update that is held in memory while it arrives: whole, and small.
    fn held_bytes(&self) -> Option<usize> {
        let length = self.length.filter(|length| self.complete && self.offset.is_none() && *length <= HELD_BYTES_MAX);
        length.and_then(|length| usize::try_from(length).ok())
    }
}

/// A request with an update, or a part of one.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) services: Services,
    pub(crate) updates: Arc<Updates>,
    pub(crate) client: ClientId,
    pub(crate) id: AssignmentId,
    pub(crate) told: Told,
    pub(crate) announced: Announced,
}

/// What a body is, with the figures that come beside it.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Update(UpdateQuery),
    /// The part of this number, which says the figures of the whole update.
    Part(u16, UpdateQuery),
    /// A masked update has its figures in its slots.
    Masked,
    /// The sum of a relay.
    Sum(SumQuery),
}

impl Told {
    fn form(&self) -> Form {
        match self {
            Self::Update(_) => Form::Update,
            Self::Part(part, _) => Form::Part(*part),
            Self::Masked => Form::Masked,
            Self::Sum(_) => Form::Sum,
        }
    }
}

/// How a client reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Update,
    Part(u16),
    Masked,
    Sum,
}

impl Form {
    /// The number of the body among those of its update.
    fn part(self) -> u16 {
        if let Self::Part(part) = self { part } else { 0 }
    }
}

/// The result of a request that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uploaded {
    /// The update is stored and will be counted, exactly once; or a part of it is.
    Accepted,
    /// The update is not complete; this many bytes of it are stored.
    Partly { bytes: u64 },
}

/// The assignment that an upload is for, with its round and its job.
struct Target {
    assignment: AssignmentRow,
    round: RoundRow,
    spec: Arc<JobSpec>,
    /// The group of a client whose update is masked.
    group: Option<Group>,
    /// Of the sum that a group has agreed on.
    agreed: Option<Sha256Hash>,
    /// The hash of this part, if it has come.
    part: Option<Sha256Hash>,
}

impl Target {
    async fn find(services: &Services, client: ClientId, id: AssignmentId, form: Form) -> Result<Self, UploadRefusal> {
        // What has changed by the time at which the update is complete is found when it is accepted.
        let mut tx = services.db.look().await?;
        let (assignment, round) = assignments::find(&mut tx, client, id, Some(Task::Train)).await?;
        let spec = services.spec(&mut tx, round.job).await?;
        let mut spec = spec.ok_or_else(|| Refusal::NotFound(round.job.to_string()))?;
        match (assignment.is_sum(), form == Form::Sum) {
            (true, false) if assignment.is_of_group() => {
                return Err(Refusal::OtherForm("this client brings the sum of its group").into());
            }
            (true, false) if assignment.share().is_some() => {
                return Err(Refusal::OtherForm("the holder of a block sends the sum of its parts' updates").into());
            }
            (true, false) => return Err(Refusal::OtherForm("a relay sends the sum of its clients' updates").into()),
            (false, true) if spec.file.group.is_some() => {
                return Err(Refusal::OtherForm("this client is not the one that brings the sum of its group").into());
            }
            (false, true) => {
                return Err(Refusal::OtherForm("this client is no relay: it sends an update").into());
            }
            (true, true) => spec = spec.of_sums(round.policy().sum_size()),
            (false, false) if spec.file.group.is_some() && tx.ring_star(round.key()).await?.is_none() => {
                return Err(Refusal::OtherForm("the members of this round add up among themselves").into());
            }
            (false, false) => spec = of_part(spec, form)?,
        }
        let part = match form {
            Form::Part(number) => tx.parts(id).await?.into_iter().find(|part| part.part == number),
            Form::Update | Form::Masked | Form::Sum => None,
        };
        let part = part.map(|part| part.sha256);
        // A relay has opened the sums of its groups itself.
        let group = match assignment.is_sum() {
            true => None,
            false => Group::find(&mut tx, (&spec, &round), id, form == Form::Masked, services.clock.now_ms()).await?,
        };
        let agreed = match assignment.is_of_group() {
            true => tx.ring_attempt_of(id).await?.and_then(|attempt| attempt.sha256()),
            false => None,
        };
        Ok(Self { assignment, round, spec, group, agreed, part })
    }

    /// When the assignment no longer takes an update.
    fn until_ms(&self) -> i64 {
        match &self.group {
            Some(group) => group.until_ms,
            None => self.assignment.until_ms(&self.round).unwrap_or(0),
        }
    }

    /// Checks that the update is still wanted.
    async fn require_open(&self, services: &Services) -> Result<(), Refusal> {
        match &self.group {
            Some(group) => group.require_open(),
            None => assignments::require_open(services, &self.assignment, &self.round, Comes::Finished).await,
        }
    }

    /// The name of the body.
    fn key(&self) -> String {
        match &self.group {
            Some(_) => masked_key(self.assignment.id),
            None => match &self.spec.shard {
                Some(shard) => part_key(self.assignment.id, shard.number),
                None => update_key(self.assignment.id),
            },
        }
    }

    /// What an update of this round must keep to.
    fn limits(&self) -> UpdateLimits {
        UpdateLimits { norm_max: self.round.norm_max.unwrap_or(f64::INFINITY), ..self.spec.update_limits() }
    }

    /// Versions that the update is behind, if it counts in the round that is open now.
    fn staleness(&self) -> u32 {
        staleness(self.assignment.base_version, self.round.base_version)
    }

    /// Whether the update counts in whatever round of its job is open when it is complete.
    fn is_buffered(&self) -> bool {
        self.assignment.term().is_own()
    }

    fn has_reported(&self) -> bool {
        match &self.group {
            Some(group) => group.body.is_some(),
            None => self.part.is_some() || self.assignment.state == AssignmentState::Reported,
        }
    }
}

impl Upload {
    /// Receives the body. At most one request per assignment does so at a time, and the newest wins. The caller runs
    /// this in a task of its own: if the client disconnects, what it sent is still stored or taken out.
    pub(crate) async fn receive(self, body: Body) -> Result<Uploaded, UploadRefusal> {
        let target = self.target().await?;
        if target.has_reported() {
            return self.repeat(&target, body).await;
        }
        target.require_open(&self.services).await?;
        if target.agreed.is_some() && target.agreed != self.announced.digest {
            return Err(Refusal::OtherForm("its group has agreed on another sum").into());
        }
        let Announced { length, offset, .. } = self.announced;
        let bytes = length.unwrap_or(0).saturating_add(offset.unwrap_or(0));
        if bytes > target.spec.update_bytes_max {
            return Err(too_large(&target.spec));
        }
        let claim = self.claim(target.until_ms()).await?;
        if claim.replaces() && self.target().await?.has_reported() {
            // The earlier request completed it.
            drop(claim);
            return self.repeat(&target, body).await;
        }
        let bench = self.services.workbench();
        let uploaded = self.receive_on(&bench, &target, &claim, body).await;
        bench.clear().await;
        uploaded
    }

    async fn claim(&self, until_ms: i64) -> Result<Claim, UploadRefusal> {
        claim(&self.services, &self.updates, (self.id, self.told.form().part()), until_ms).await
    }

    async fn target(&self) -> Result<Target, UploadRefusal> {
        Target::find(&self.services, self.client, self.id, self.told.form()).await
    }

    /// Checks the figures that come with the update.
    fn check_figures(&self, Target { assignment, spec, .. }: &Target) -> Result<(), String> {
        match &self.told {
            Told::Update(UpdateQuery { weight, steps, loss, .. })
            | Told::Part(_, UpdateQuery { weight, steps, loss, .. }) => {
                Training { weight: *weight, steps: *steps, loss: *loss }.check(assignment, spec)
            }
            Told::Masked => Ok(()),
            Told::Sum(query) => check_loss(query.loss, spec),
        }
    }

    /// Checks what the body of a sum says against the figures beside it.
    fn check_sum(&self, Target { assignment, spec, .. }: &Target, sum: Option<Contribution>) -> Result<(), String> {
        let (Told::Sum(query), Some(sum)) = (&self.told, sum) else { return Ok(()) };
        if let Some(share) = assignment.share().filter(|share| share.updates() != sum.updates) {
            return Err(format!("{} updates, where its block has {} parts", sum.updates, share.updates()));
        }
        let examples_max = u64::from(sum.updates) * u64::from(spec.plan.weight_max);
        let (examples, updates) = (query.examples, sum.updates);
        if examples == 0 || examples > examples_max {
            return Err(format!("{examples} examples of {updates} updates, which have 1 to {examples_max}"));
        }
        let (contribution, weighing) = (self.contribution(Some(sum)), spec.weighing());
        let weighs = weighing.map(|weighing| spec.discount().share(weighing, contribution, 0).divisor);
        match weighs.is_none_or(|weight| weight == sum.weight) {
            true => Ok(()),
            false => Err(format!("a weight of {}, where {examples} examples were announced", sum.weight)),
        }
    }

    /// What the update adds to the count and weight of its round; for a sum, what its body says.
    fn contribution(&self, sum: Option<Contribution>) -> Contribution {
        let examples = match &self.told {
            Told::Update(query) | Told::Part(_, query) => Weight::examples(query.weight),
            Told::Masked => Weight::default(),
            Told::Sum(query) => Weight::of_examples(query.examples).unwrap_or_default(),
        };
        Contribution { weight: examples, updates: sum.map_or(1, |sum| sum.updates) }
    }

    fn report(&self, measured: Measured, sha256: Sha256Hash, received: Received, spec: &JobSpec) -> Report {
        let Measured { norm, sum } = measured;
        let traffic = Traffic { bytes_up: received.bytes, raw_bytes_up: spec.plain_bytes, ..Traffic::default() };
        let contribution = self.contribution(sum);
        let (work_ms, told) = match &self.told {
            Told::Update(UpdateQuery { loss, steps, metrics, train_ms, .. })
            | Told::Part(_, UpdateQuery { loss, steps, metrics, train_ms, .. })
            | Told::Sum(SumQuery { loss, steps, metrics, train_ms, .. }) => (*train_ms, Some((loss, steps, metrics))),
            Told::Masked => (0, None),
        };
        let figures = match told {
            Some((loss, steps, metrics)) if spec.privacy.is_none() => {
                Figures { contribution, loss: *loss, norm, steps: *steps, metrics: metrics.clone() }
            }
            // A unit counts as one, and what its client reports is kept nowhere.
            _ => Figures { contribution: Contribution::of_one(Weight::examples(1)), ..Figures::default() },
        };
        Report {
            figures,
            accuracy: None,
            work_ms,
            classes: None,
            description: None,
            sha256,
            traffic,
            times: received.times,
            below: match &self.told {
                &Told::Sum(SumQuery { bytes_below: bytes, round_trip_ms, .. }) => Some(Below { bytes, round_trip_ms }),
                Told::Update(_) | Told::Part(..) | Told::Masked => None,
            },
        }
    }

    /// Stores an accepted update in its round. When its buffer has just closed, it counts in the next one, which opens
    /// once the model is made: the request is held until then, if this coordinator drives the job.
    async fn accept(&self, submission: &mut Submission) -> Result<Accepted, Refusal> {
        let (services, job) = (&self.services, submission.job);
        let until_ms = services.clock.now_ms().saturating_add(BETWEEN_MS_MAX);
        let mut changes = services.signals.watch();
        loop {
            let accepted = self.accept_now(submission).await;
            if !matches!(accepted, Err(Refusal::Between(_))) || !services.signals.is_driven(job) {
                return accepted;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return accepted },
                () = services.clock.sleep_until(until_ms) => return accepted,
                () = services.stopping.cancelled() => return accepted,
            }
        }
    }

    /// Stores an accepted update in its round, if that takes updates now.
    async fn accept_now(&self, submission: &mut Submission) -> Result<Accepted, Refusal> {
        let accepted = self.updates.acceptance.accept(&self.services, submission).await;
        let Err(Refusal::Unfit(reason)) = accepted else { return accepted };
        let (row, round) =
            assignments::find(&mut self.services.db.read().await?, self.client, self.id, Some(Task::Train)).await?;
        let reason = assignments::kept_reason(&round, reason);
        let state = AssignmentState::Rejected;
        assignments::end(&self.services, &row, state, &reason, Received::default()).await?;
        Err(Refusal::Rejected(reason))
    }

    fn submission(&self, target: &Target, report: Report, body: Option<Staged>) -> Submission {
        let (client, job, assignment) = (self.client, target.round.job, self.id);
        let part = target.spec.shard.as_ref().map(|shard| NewPart {
            row: PartRow {
                part: shard.number,
                sha256: report.sha256,
                weight: report.figures.contribution.weight.whole_examples(),
                squares: report.figures.norm.unwrap_or(0.0).powi(2),
            },
            count: shard.count,
        });
        Submission { client, job, assignment, task: Task::Train, report, body, part }
    }

    /// Rejects a malformed update: its assignment ends.
    async fn reject(&self, target: &Target, reason: String, received: Received) -> Result<Uploaded, UploadRefusal> {
        let state = AssignmentState::Rejected;
        // The answer has the same text, because the audit log quotes it.
        let reason = assignments::kept_reason(&target.round, reason);
        assignments::end(&self.services, &target.assignment, state, &reason, received).await?;
        Err(UploadRefusal::Rejected(reason))
    }

    /// The refusal of a body that was not read to its end. The state of its round is read again.
    async fn stop(&self, stop: Stop) -> Result<Uploaded, UploadRefusal> {
        let target = self.target().await?;
        if !target.has_reported() && !matches!(stop, Stop::Stopping | Stop::Outpaced) {
            target.require_open(&self.services).await?;
        }
        Err(UploadRefusal::Stopped(stop))
    }

    /// Ends a request whose body was not accepted.
    async fn refuse(
        &self,
        target: &Target,
        received: Received,
        refusal: UploadRefusal,
    ) -> Result<Uploaded, UploadRefusal> {
        self.count(target, received, refusal.is_attempt(received.bytes, self.announced.offset)).await?;
        match refusal {
            UploadRefusal::Stopped(stop) => self.stop(stop).await,
            refusal => Err(refusal),
        }
    }

    /// Counts the bytes of a body that was not accepted, and when they were received. After too many attempts the
    /// assignment ends.
    async fn count(&self, target: &Target, received: Received, is_attempt: bool) -> Result<(), UploadRefusal> {
        let (Received { bytes, times }, assignment) = (received, &target.assignment);
        if bytes == 0 {
            return Ok(());
        }
        let key = assignment.round();
        let counted = async {
            let mut tx = self.services.db.begin().await?;
            tx.lock_job(key.job).await?;
            let attempts = tx.count_upload(assignment.id, key, bytes, is_attempt).await?;
            tx.store_times(assignment.id, times).await?;
            tx.commit().await?;
            Ok::<_, DbError>(attempts)
        };
        let attempts = counted.await.unwrap_or_else(|error| {
            tracing::debug!(%error, bytes, "the bytes of an upload that was not accepted are not counted");
            0
        });
        if is_attempt && attempts >= ATTEMPTS_MAX {
            let reason = format!("{attempts} bodies of this update were damaged or broke off early");
            self.reject(target, reason, Received::default()).await?;
        }
        Ok(())
    }

    /// Reads an update again that was accepted before, to tell a repetition from a conflict. Hashing needs no memory.
    async fn repeat(&self, target: &Target, mut body: Body) -> Result<Uploaded, UploadRefusal> {
        let until_ms = self.services.clock.now_ms() + REPEAT_MS_MAX;
        let claim = self.claim(until_ms).await?;
        let mut hasher = Sha256Hasher::new();
        let reading = async {
            let mut received = 0;
            while let Some(data) = piece(&mut body).await? {
                received += data.len() as u64;
                if received > target.spec.update_bytes_max {
                    return Err(too_large(&target.spec));
                }
                hasher.update(&data);
            }
            Ok(received)
        };
        let received = tokio::select! {
            received = reading => received?,
            stop = Stops { claim: Some(&claim), ..Stops::new(&self.services, until_ms) }.first() => {
                return self.stop(stop).await;
            }
        };
        let target = self.target().await?;
        self.count(&target, Received { bytes: received, ..Received::default() }, false).await?;
        // Of an update that resumes, this body is only the end: its announced hash stands for the whole.
        let announced = self.announced.digest.filter(|_| self.announced.offset.is_some());
        let sha256 = announced.unwrap_or_else(|| hasher.finish());
        if target.spec.shard.is_some() {
            // The hashes of parts are forgotten with their round.
            let is_same = target.part.is_none_or(|part| part == sha256);
            return if is_same { Ok(Uploaded::Accepted) } else { Err(Refusal::Conflict(self.id).into()) };
        }
        if let Some(group) = &target.group {
            let is_same = group.body == Some(sha256);
            return if is_same { Ok(Uploaded::Accepted) } else { Err(Refusal::Conflict(self.id).into()) };
        }
        let report = self.report(Measured::default(), sha256, Received::default(), &target.spec);
        self.accept_now(&mut self.submission(&target, report, None)).await?;
        Ok(Uploaded::Accepted)
    }
}

/// How many bytes of an update are stored, and the announced hash of the whole; none when the whole update was
/// accepted. A request that is still sending it is stopped first, so that the answer stays true.
pub(crate) async fn offset(
    services: &Services,
    updates: &Updates,
    client: ClientId,
    id: AssignmentId,
    form: Form,
) -> Result<Option<(u64, Option<Sha256Hash>)>, UploadRefusal> {
    let target = Target::find(services, client, id, form).await?;
    if target.has_reported() {
        return Ok(None);
    }
    target.require_open(services).await?;
    let _claim = claim(services, updates, (id, form.part()), target.until_ms()).await?;
    if Target::find(services, client, id, form).await?.has_reported() {
        return Ok(None);
    }
    // A power failure may undo it, since it ends the requests as well; so asking costs no sync.
    let mut tx = services.db.begin_losable().await?;
    let upload = tx.take_upload(id, form.part()).await?;
    tx.commit().await?;
    Ok(Some(upload.map_or((0, None), |upload| (upload.bytes, upload.sha256()))))
}

/// The right to send this update or to ask for its offset. The request that had it before is stopped.
async fn claim(services: &Services, updates: &Updates, id: Claimed, until_ms: i64) -> Result<Claim, UploadRefusal> {
    let claimed = tokio::select! {
        claimed = updates.claims.claim(id) => claimed,
        stop = Stops::new(services, until_ms).first() => return Err(UploadRefusal::Stopped(stop)),
    };
    claimed.ok_or(UploadRefusal::Stopped(Stop::Superseded))
}

/// The spec of the body: that of its shard, where updates come in parts.
fn of_part(spec: Arc<JobSpec>, form: Form) -> Result<Arc<JobSpec>, UploadRefusal> {
    match form {
        Form::Part(_) if spec.shards.is_empty() => Err(Refusal::OtherForm("this job takes whole updates").into()),
        Form::Part(part) => spec.of_shard(part).ok_or(Refusal::OtherForm("its update has no such part").into()),
        Form::Update if !spec.shards.is_empty() => {
            Err(Refusal::OtherForm("this job takes updates in parts, each at parts/<number>").into())
        }
        Form::Update | Form::Masked | Form::Sum => Ok(spec),
    }
}

fn too_large(spec: &JobSpec) -> UploadRefusal {
    UploadRefusal::TooLarge { bytes_max: spec.update_bytes_max }
}
