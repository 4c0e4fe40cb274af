//! The groups of a round that add up among themselves, as people see them.

use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::{RingAttempt, RingBlame, RingPart, RoundRing};
use tributary_protocol::state::RingState;

use crate::db::{DbError, RingMemberRow, RoundKey, Tx};

/// The groups of a training round; none in a job without `[group]`.
pub(in crate::api) async fn read(tx: &mut Tx, file: &JobFile, key: RoundKey) -> Result<Option<RoundRing>, DbError> {
    if file.group.is_none() {
        return Ok(None);
    }
    let (mut attempts, mut in_group) = (Vec::new(), Vec::new());
    for row in tx.ring_attempts(key).await? {
        let members = tx.ring_members(row.id).await?;
        if row.state != RingState::Failed {
            in_group.extend(members.iter().map(|member| member.assignment));
        }
        attempts.push(RingAttempt {
            id: row.id,
            number: row.number,
            state: row.state,
            formed_at_ms: row.formed_at_ms,
            since_ms: row.since_ms,
            sha256: row.sha256(),
            exchanged: file.group.as_ref().and_then(|group| group.topology.exchange()).map(|_| row.exchanged),
            members: members.iter().map(|member| part(member, &members)).collect(),
        });
    }
    let waiting = tx.ring_waiting(key).await?.iter().filter(|ready| !in_group.contains(&ready.assignment)).count();
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    Ok(Some(RoundRing { attempts, waiting, star: tx.ring_star(key).await? }))
}

fn part(member: &RingMemberRow, members: &[RingMemberRow]) -> RingPart {
    let count = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
    let stall = member.blames().and_then(|position| {
        let other = members.iter().find(|other| other.position == position)?;
        Some(RingBlame {
            client_number: other.ready.number,
            what: member.blames_for()?,
            step: member.blames_step.and_then(|step| u32::try_from(step).ok()).unwrap_or(0),
        })
    });
    RingPart {
        client_number: member.ready.number,
        weight: member.ready.weight,
        outcome: member.outcome(),
        brings: member.was_asked(),
        bytes_sent: count(member.bytes_sent),
        bytes_received: count(member.bytes_received),
        took_ms: count(member.took_ms),
        sent_kbit_s: count(member.sent_kbit_s),
        relayed: member.is_relayed(),
        relayed_bytes: count(member.relayed_bytes),
        distance: member.distance,
        stall,
    }
}
