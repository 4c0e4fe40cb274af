//! The delivery of a masked update: the client joins, shares secrets, sends, and opens the sum with its group.
//!
//! What it has decided is stored before the request that follows from it leaves. So a session that ends anywhere is
//! continued by the next one, which sends the same bytes.

use bytes::Bytes;
use http::Method;
use tributary_protocol::device::{Assignment, ReportAccepted, UpdateQuery};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;
use tributary_protocol::plan::{GroupTrust, Masking};
use tributary_protocol::secure::messages::{Agreement, Formed, Inbox};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::Told;
use tributary_protocol::secure::{NO_MODEL, Survivors, Words};
use tributary_protocol::seed::SecretStream;
use zeroize::Zeroizing;

use super::context::Context;
use super::held::held;
use crate::error::ClientError;
use crate::host::Host;
use crate::secure::{Member, MemberError, Next, Signers, Terms, system_entropy};
use crate::store::state::{Finished, Identity, Pending};
use crate::tasks::sent;
use crate::transport::upload::{Figures, Upload};

/// Fewest neighbours of a member, unless all others are neighbours.
const DEGREE_MIN: u16 = 10;

/// Delivers a finished update under masks.
pub(super) async fn exchange(
    context: &Context,
    identity: &Identity,
    (finished, query): (&Finished, &UpdateQuery),
    host: &dyn Host,
) -> Result<ReportAccepted, ClientError> {
    let assignment = &finished.pending.assignment;
    let masking = assignment.plan.masking.ok_or_else(|| ClientError::BadAnswer("the plan masks nothing".into()))?;
    let values = sent(&finished.body, assignment).map_err(|error| ClientError::BadAnswer(error.to_string()))?;
    let quantiser = Quantiser::new(values.len(), masking.clip, masking.levels, masking.keep);
    let quantiser = quantiser.map_err(|error| ClientError::BadAnswer(error.to_string()))?;
    let signing = match masking.trust {
        GroupTrust::Honest => None,
        GroupTrust::Signed => Some(context.signing(identity)?),
    };
    let signers =
        signing.as_ref().map(|signing| Signers { keys: context.keys.as_ref(), peers: signing.peers.as_ref() });
    let exchange = Exchange { context, secret: &identity.secret, assignment, signers, host };
    let mut member = match context.state.member(assignment.id)? {
        Some(member) => member,
        None => {
            let terms = terms(&finished.pending, &masking, &quantiser, context.floor.survivors_min);
            let certificate = signing.as_ref().map_or(&[][..], |signing| &signing.certificate);
            let member = Member::join(terms, certificate, &mut system_entropy).map_err(refused)?;
            context.state.save_member(assignment.id, &member)?;
            member
        }
    };
    // What follows the update needs no more of what precedes it.
    if let Some(shares) = exchange.share(&mut member).await? {
        // One that comes back after its masked update may find the sum open, and the shares deleted.
        if member.body().is_none() {
            let inbox = exchange.held(Method::PUT, "group/shares", shares).await?;
            let inbox = Inbox::from_bytes(&inbox).map_err(unreadable)?;
            let taken = member.inbox(&inbox, signers).map_err(refused);
            exchange.save(&member, taken)?;
        }
        let told = Told { is_whole: true, examples: query.weight, loss: query.loss };
        exchange.send(&mut member, (&values, &quantiser, &masking), told).await?;
    }
    let survivors = exchange.held(Method::GET, "group/survivors", Bytes::new()).await?;
    let survivors = Survivors::from_bytes(&survivors).map_err(unreadable)?;
    let next = member.survivors(&survivors, signers).map_err(refused);
    let unmask = match exchange.save(&member, next)? {
        Next::Unmask(unmask) => unmask,
        Next::Agreement(signature) => {
            let agreement = exchange.held(Method::PUT, "group/agreement", signature.to_vec().into()).await?;
            let agreement = Agreement::from_bytes(&agreement).map_err(unreadable)?;
            let unmask = member.agreement(&agreement, signers).map_err(refused);
            exchange.save(&member, unmask)?
        }
    };
    let body = unmask.to_bytes().into();
    context.coordinator.put_bytes(&identity.secret, &exchange.path("group/unmask"), &body).await
}

/// The exchange of one assignment.
struct Exchange<'a> {
    context: &'a Context,
    secret: &'a Secret,
    assignment: &'a Assignment,
    /// Where members sign.
    signers: Option<Signers<'a>>,
    host: &'a dyn Host,
}

impl Exchange<'_> {
    /// Joins. The result are the sealed shares for the neighbours; none when the update was sent before and the
    /// survivors are known.
    async fn share(&self, member: &mut Member) -> Result<Option<Bytes>, ClientError> {
        let formed = self.held(Method::PUT, "group", member.request().into()).await?;
        let formed = Formed::from_bytes(&formed).map_err(unreadable)?;
        let shares = match member.formed(&formed, self.signers, &mut system_entropy) {
            Err(MemberError::Stage) => return Ok(None),
            shares => shares.map_err(refused),
        };
        self.save(member, shares).map(|shares| Some(shares.into()))
    }

    /// Masks the update and sends it. One that was masked before is sent as it was.
    async fn send(
        &self,
        member: &mut Member,
        (values, quantiser, masking): (&[f32], &Quantiser, &Masking),
        told: Told,
    ) -> Result<(), ClientError> {
        let (state, id) = (&self.context.state, self.assignment.id);
        let (body, begun) = match state.masked(member.body())? {
            Some(body) => (body, true),
            None => {
                if let Some(noise) = masking.noise {
                    state.count_noised(self.assignment.job, noise.multiplier())?;
                }
                let body = masked(member, values, (quantiser, masking), told)?;
                state.save_masked(&body)?;
                state.save_member(id, member)?;
                (body, false)
            }
        };
        let sha256 = Sha256Hash::of(&body);
        let upload = Upload { id, figures: Figures::Masked, body: &body, sha256, begun };
        self.context.coordinator.upload(self.secret, &upload).await?;
        Ok(())
    }

    /// Stores what a member has become by a step, a refusal too, before the result of the step is used.
    fn save<T>(&self, member: &Member, result: Result<T, ClientError>) -> Result<T, ClientError> {
        self.context.state.save_member(self.assignment.id, member)?;
        result
    }

    /// Asks until there is an answer, or the host ends the session.
    async fn held(&self, method: Method, call: &str, body: Bytes) -> Result<Vec<u8>, ClientError> {
        let path = self.path(call);
        held(self.host, || self.context.coordinator.held((method.clone(), self.secret, &path), &body)).await
    }

    fn path(&self, call: &str) -> String {
        format!("/device/v1/assignments/{}/{call}", self.assignment.id)
    }
}

/// What this client demands of its group; with so many survivors at least.
fn terms(pending: &Pending, masking: &Masking, quantiser: &Quantiser, survivors_min: u16) -> Terms {
    let assignment = &pending.assignment;
    Terms {
        job: assignment.job,
        round: assignment.round.into(),
        model: if masking.any_version { NO_MODEL } else { assignment.model_sha256 },
        plan: pending.plan_hash(),
        length: quantiser.coordinates(),
        trust: masking.trust,
        members_min: u16::try_from(masking.group_min).unwrap_or(u16::MAX),
        survivors_min,
        degree_min: DEGREE_MIN,
        dropouts: masking.dropouts,
        corrupt: masking.corrupt,
    }
}

/// The body of the masked update.
fn masked(
    member: &mut Member,
    values: &[f32],
    (quantiser, masking): (&Quantiser, &Masking),
    told: Told,
) -> Result<Bytes, ClientError> {
    let group = || ClientError::BadAnswer("the group has no roster".into());
    let (roster, (members, bits)) = (member.roster().ok_or_else(group)?, member.size().ok_or_else(group)?);
    let mut seed = Zeroizing::new([0; 32]);
    system_entropy(seed.as_mut()).map_err(|error| ClientError::Privacy(error.to_string()))?;
    let mut random = SecretStream::of(*seed);
    let quantised = quantiser.quantise(values, &roster, &mut random);
    let mut quantised = quantised.map_err(|error| ClientError::BadAnswer(error.to_string()))?;
    let is_whole = !quantised.is_clipped;
    let noise = masking.member_noise(quantiser, members);
    let slots = match noise.map_err(|error| ClientError::BadAnswer(error.to_string()))? {
        Some(noise) => {
            noise.add(&mut quantised, &mut random);
            Told::noised(is_whole, &noise, &mut random)
        }
        None => Told { is_whole, ..told }.slots(),
    };
    let body = member.masked(Words::of(bits, &quantised.values), slots.to_vec()).map_err(refused)?;
    Ok(body.into())
}

fn refused(error: MemberError) -> ClientError {
    match error {
        MemberError::Stage => ClientError::BadAnswer(error.to_string()),
        error => ClientError::Privacy(error.to_string()),
    }
}

fn unreadable(error: tributary_protocol::secure::DecodeError) -> ClientError {
    ClientError::BadAnswer(error.to_string())
}
