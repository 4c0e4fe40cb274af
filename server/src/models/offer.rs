//! What a drawn client is offered: its assignment, with the files that it fetches and how long it has.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::Term;
use tributary_protocol::coded::{CodedPart, CodedShare, CodedTerms, PartTerms, SumTerms};
use tributary_protocol::device::{ASK_EVERY_MS_MIN, Assignment, Plan};
use tributary_protocol::download::{CompanionFile, DELTA_CHAIN_MAX, FormFile, ModelDeltaFile, ModelForm};
use tributary_protocol::fixed::Weight;
use tributary_protocol::model::Companion;
use tributary_protocol::relay::RelayTerms;
use tributary_protocol::state::Task;

use crate::db::{AssignmentRow, ClientRow, DbError, MadeFor, ModelFileRow, RoundRow, Tx};
use crate::fleet::lobby::Work;
use crate::services::Services;

/// The work of a client that has just come, if it was drawn before.
pub(crate) async fn look(services: &Services, client: &ClientRow) -> Result<Option<Assignment>, DbError> {
    open(services, &mut services.db.look().await?, client).await
}

/// The client's open assignment: a new one, or one whose answer was lost.
pub(crate) async fn open(services: &Services, tx: &mut Tx, client: &ClientRow) -> Result<Option<Assignment>, DbError> {
    let Some(assignment) = tx.open_assignment(client.id).await? else { return Ok(None) };
    let (key, id) = (assignment.round(), assignment.id);
    let missing = |what: &str| DbError::Corrupt(format!("{id} has no {what}"));
    let spec = services.spec(tx, key.job).await?.ok_or_else(|| missing("job"))?;
    // Its masked update is here: it has nothing to do until the sum of its group is open.
    if spec.plan.masking.is_some() && tx.secure_member(id).await?.is_some_and(|member| member.body().is_some()) {
        return Ok(None);
    }
    let round = Arc::new(tx.round(key).await?.ok_or_else(|| missing("round"))?);
    let model = tx.model(key.job, assignment.base_version).await?.ok_or_else(|| missing("model"))?;
    let work = Work { assignment, round, model: Arc::new(model) };
    let files = files_of(tx, client, &work, &spec).await?;
    Ok(described(services, client, &work, &spec, files))
}

/// The work that a client was drawn for.
pub(crate) async fn given(services: &Services, client: &ClientRow, work: &Work) -> Result<Option<Assignment>, DbError> {
    let Some(spec) = services.specs.known(work.round.job) else {
        return open(services, &mut services.db.look().await?, client).await;
    };
    let files = match needs_files(&spec) {
        true => files_of(&mut services.db.look().await?, client, work, &spec).await?,
        false => Files::default(),
    };
    Ok(described(services, client, work, &spec, files))
}

/// What a client fetches beside the model's plain file, or instead of it.
#[derive(Default)]
struct Files {
    form: Option<FormFile>,
    deltas: Vec<ModelDeltaFile>,
    control: Option<CompanionFile>,
    dropped_round: Option<u32>,
    /// Where the parts of its update are added up.
    owners: Vec<Option<String>>,
}

/// Whether the database has more to say about a client's work than assignment, round and model.
fn needs_files(spec: &JobSpec) -> bool {
    let download = spec.plan.download;
    download.codec != ModelForm::F32 || download.delta || spec.plan.goes_back() || !spec.shards.is_empty()
}

async fn files_of(tx: &mut Tx, client: &ClientRow, work: &Work, spec: &JobSpec) -> Result<Files, DbError> {
    let (key, model, download) = (work.round.key(), &work.model, spec.plan.download);
    let form = match download.codec {
        ModelForm::F32 => None,
        form => {
            let file = tx.model_file(key.job, model.version, MadeFor::Form(form)).await?;
            let corrupt = || DbError::Corrupt(format!("{} has no model in its form", work.assignment.id));
            let ModelFileRow { sha256, bytes, .. } = file.ok_or_else(corrupt)?;
            Some(FormFile { form, sha256, bytes })
        }
    };
    let deltas = match download.delta {
        true => tx.steps(key.job, model.version.saturating_sub(DELTA_CHAIN_MAX), model.version).await?,
        false => Vec::new(),
    };
    let (control, dropped_round) = carried_on(tx, client, &work.assignment, spec).await?;
    let owners = match work.round.task == Task::Train && !spec.shards.is_empty() {
        true => tx.shard_urls(key.job).await?,
        false => Vec::new(),
    };
    Ok(Files { form, deltas: unbroken(deltas), control, dropped_round, owners })
}

/// The work as its client sees it. An assignment past its deadline is left out, because the driver is about to
/// expire it.
fn described(
    services: &Services,
    client: &ClientRow,
    work: &Work,
    spec: &Arc<JobSpec>,
    files: Files,
) -> Option<Assignment> {
    let Work { assignment: row, round, model } = work;
    let left_ms = row.until_ms(round).unwrap_or(0).saturating_sub(services.clock.now_ms());
    let deadline_in_ms = u64::try_from(left_ms).ok().filter(|left_ms| *left_ms > 0)?;
    let key = row.round();
    let branch = row.share().and_then(|share| share.tree.as_ref()?.branch);
    let seed = match round.policy().is_private {
        true => Term::private_seed(row.id),
        // The seeds of parts follow from that of the whole tree's round.
        false if branch.is_some() => round.seed(),
        false => row.term().seed(round.seed(), client.number),
    };
    // An update with a larger weight than the client told is refused, so the client learns what it told.
    let weight_max = row.weight_max(&spec.file);
    let plan = spec.plan_of_round(round.goal, round.policy().clip_norm);
    let training = round.policy().training(&plan.training);
    Some(Assignment {
        id: row.id,
        task: key.task,
        job: key.job,
        job_name: Some(spec.file.name.clone()),
        data: spec.file.data.clone(),
        round: key.number,
        model_version: row.base_version,
        model_sha256: model.sha256,
        form: files.form,
        model_deltas: files.deltas,
        control: files.control,
        dropped_round: files.dropped_round,
        plan: Plan { weight_max, training, ..plan },
        seed,
        deadline_in_ms,
        ask_every_ms: match &spec.file.coded {
            Some(coded) if key.task == Task::Train => ask_every_ms(coded.clients(), CODED_ASK_EVERY_MS),
            _ => ask_every_ms(round.cohort, ASK_EVERY_MS_MIN),
        },
        owners: files.owners,
        coded: row.share().filter(|_| branch.is_none()).map(|share| Box::new(coded_terms(share, round, spec))),
        relay: (branch.is_some() || row.is_sum() && row.share().is_none())
            .then(|| Box::new(RelayTerms { branch, ..relay_terms(row, round, spec) })),
    })
}

/// What the holder of parts does in a coded round. Whoever trains on a part does it with the same seed.
fn coded_terms(share: &CodedShare, round: &RoundRow, spec: &Arc<JobSpec>) -> CodedTerms {
    let terms = |part: &CodedPart| PartTerms {
        data: part.name.clone(),
        seed: round.seed().derive("part", part.place.into()),
        factor: part.coefficient * part.weight,
    };
    let caps = spec.with_cohort(round.policy().sum_size()).caps;
    // A job whose caps have no binary point is not created.
    let sum = caps
        .binary_point()
        .ok()
        .filter(|_| share.is_sum())
        .map(|binary_point| SumTerms { binary_point, uniform: caps.weight_max == Weight::examples(1) });
    CodedTerms { parts: share.parts.iter().map(terms).collect(), sum }
}

/// The part of a relay in a round.
fn relay_terms(row: &AssignmentRow, round: &RoundRow, spec: &JobSpec) -> RelayTerms {
    RelayTerms {
        places: row.updates_max(),
        branch: None,
        cohort: round.policy().sum_size(),
        norm_max: round.norm_max,
        job: spec.file.clone(),
    }
}

/// What a client needs to go on from its last update: the control variate, and whether that update did not count.
async fn carried_on(
    tx: &mut Tx,
    client: &ClientRow,
    row: &AssignmentRow,
    spec: &JobSpec,
) -> Result<(Option<CompanionFile>, Option<u32>), DbError> {
    let (key, algorithm) = (row.round(), spec.plan.training.algorithm);
    if key.task != Task::Train || !spec.plan.goes_back() {
        return Ok((None, None));
    }
    let control = match algorithm.sends_control() {
        true => tx.model_file(key.job, row.base_version, MadeFor::Companion(Companion::Control)).await?,
        false => None,
    };
    let control = control.map(|ModelFileRow { sha256, bytes, .. }| CompanionFile { sha256, bytes });
    Ok((control, tx.dropped_round(key.job, client.id).await?))
}

/// The last of these model deltas that follow each other without a gap.
fn unbroken(mut steps: Vec<ModelDeltaFile>) -> Vec<ModelDeltaFile> {
    let gap = steps.windows(2).rposition(|pair| pair[0].version + 1 != pair[1].version);
    steps.split_off(gap.map_or(0, |gap| gap + 1))
}

/// Questions of working clients that a cohort may ask per second. Each is a read of two rows.
const QUESTIONS_PER_S: u64 = 100;

/// Shortest time between two questions in a coded round: it is done without those that hold a covered block, and the
/// next one needs them.
pub(crate) const CODED_ASK_EVERY_MS: u64 = 500;

/// How often each of so many clients asks whether its round is still open, and at most every `least_ms`.
fn ask_every_ms(clients: u32, least_ms: u64) -> u64 {
    least_ms.max(u64::from(clients) * 1_000 / QUESTIONS_PER_S)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;

    use super::*;

    #[test]
    fn steps_after_the_last_gap_are_left() {
        let hash = Sha256Hash::of(b"");
        let left = |versions: &[u32]| {
            let step = |version: &u32| ModelDeltaFile { version: *version, base_sha256: hash, sha256: hash, bytes: 1 };
            let left = unbroken(versions.iter().map(step).collect());
            left.iter().map(|step| step.version).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), [0; 0]);
        assert_eq!(left(&[4, 5, 6]), [4, 5, 6]);
        assert_eq!(left(&[4, 6, 7]), [6, 7]);
        assert_eq!(left(&[1, 3, 5]), [5]);
    }

    #[test]
    fn a_cohort_of_any_size_asks_at_most_a_hundred_times_a_second() {
        for (cohort, every_ms) in [(1, 3_000), (300, 3_000), (1_000, 10_000), (100_000, 1_000_000)] {
            assert_eq!(ask_every_ms(cohort, ASK_EVERY_MS_MIN), every_ms);
            assert!(u64::from(cohort) * 1_000 <= QUESTIONS_PER_S * every_ms);
        }
        assert_eq!([12, 64].map(|clients| ask_every_ms(clients, CODED_ASK_EVERY_MS)), [500, 640]);
    }
}
