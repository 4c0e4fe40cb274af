//! A fleet in virtual time: the share of finished work that counts, by size of groups.

use tributary_protocol::seed::{Seed, Stream};
use tributary_protocol::state::GroupStage;

use super::{Behaviour, Group, STAGES};
use crate::round::masking::effects::{OpenGroups, Tally};
use crate::round::masking::forming::{Forming, Joined, next_group};
use crate::round::masking::policy::MaskingPolicy;
use crate::round::masking::step::next_group_step;
use crate::round::masking::times::{GROUP_WAIT_MS, STAGE_MS, StageTimes, forms_until_ms};

/// Rounds behind each row.
const ROUNDS: u64 = 5;
const TICK_MS: i64 = 500;
const CLIENTS: usize = 1_000;
const DEADLINE_MS: i64 = 900_000;
/// Half of the clients have trained after this time, and two thirds between .6 and 1.65 of it.
const TRAINING_MS: f64 = 240_000.0;
const TRAINING_SPREAD: f64 = 0.5;
/// A million values of 15 bits.
const BODY_BYTES: u64 = 1_875_034;
/// Half of the clients send this much in a second; the slowest of a thousand send a ninth of it.
const UPLINK_BYTES_PER_S: f64 = 1e6;
const UPLINK_SPREAD: f64 = 0.7;
/// Of 1,000 clients.
const LOST_IN_TRAINING: u64 = 60;
const LOST_IN_GROUP: u64 = 20;
const LEAVES_AFTER_MS: i64 = 60_000;

/// How clients leave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaving {
    /// A client waits so long for a group, and then stays with its group.
    Lobby,
    /// A client leaves after that time wherever it is.
    Anywhere,
}

/// What is set.
#[derive(Clone, Copy, Debug)]
struct Case {
    policy: MaskingPolicy,
    leaving: Leaving,
    /// How long a client waits until a group forms that is not full.
    wait_ms: Option<i64>,
    /// Longest time of the stages whose messages are small.
    stage_ms: i64,
}

/// What became of the clients that had trained.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    finished: u32,
    counted: u32,
    /// Left the lobby, or found no group at the end.
    without_group: u32,
    groups: u32,
    groups_failed: u32,
    members: u32,
    waited_ms: i64,
    /// From forming to the sum.
    group_ms: i64,
}

fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.unit()).cos()
}

struct Client {
    joins_at_ms: i64,
    uplink: f64,
    behaviour: Behaviour,
}

fn client(stream: &mut Stream) -> Option<Client> {
    let joins_at_ms = (TRAINING_MS * (TRAINING_SPREAD * normal(stream)).exp()) as i64;
    let uplink = UPLINK_BYTES_PER_S * (UPLINK_SPREAD * normal(stream)).exp();
    let mut delays_ms = [(); STAGES].map(|()| 200 + stream.below(2_000) as i64);
    delays_ms[1] += (BODY_BYTES as f64 / uplink * 1e3) as i64;
    let lost_in = (stream.below(1_000) < LOST_IN_GROUP).then(|| stream.below(STAGES as u64) as usize);
    let is_lost = stream.below(1_000) < LOST_IN_TRAINING || joins_at_ms >= DEADLINE_MS;
    let behaviour = Behaviour { delays_ms, lost_in, ..Behaviour::default() };
    (!is_lost).then_some(Client { joins_at_ms, uplink, behaviour })
}

/// Plays one round of the fleet. Clients that are lost in training are awaited until the deadline.
fn round(case: Case, seed: u64) -> Outcome {
    let Case { policy, leaving, wait_ms, stage_ms } = case;
    let mut stream = Seed(seed).stream();
    let mut clients: Vec<Client> = (0..CLIENTS).filter_map(|_| client(&mut stream)).collect();
    clients.sort_by_key(|client| client.joins_at_ms);
    let slowest = clients.iter().map(|client| client.uplink).fold(f64::INFINITY, f64::min);
    let times = StageTimes { short_ms: stage_ms, ..StageTimes::of(BODY_BYTES, Some(slowest), policy.is_signed) };
    let until_ms = forms_until_ms(DEADLINE_MS, DEADLINE_MS);
    let mut outcome = Outcome { finished: clients.len() as u32, ..Outcome::default() };
    let (mut coming, mut lobby) = (clients.into_iter().peekable(), Vec::<Client>::new());
    let mut joined_ever = 0;
    let mut groups: Vec<(i64, Group)> = Vec::new();
    for now_ms in (0..).step_by(TICK_MS as usize) {
        while let Some(client) = coming.next_if(|client| client.joins_at_ms <= now_ms) {
            joined_ever += 1;
            lobby.push(client);
        }
        let here = lobby.len();
        lobby.retain(|client| now_ms < client.joins_at_ms + LEAVES_AFTER_MS);
        outcome.without_group += (here - lobby.len()) as u32;
        loop {
            let leaves_at_ms = lobby.first().zip(wait_ms).map(|(first, wait_ms)| first.joins_at_ms + wait_ms);
            let awaited = if now_ms < DEADLINE_MS { (CLIENTS - joined_ever) as u32 } else { 0 };
            let joined = Joined { here: lobby.len() as u32, awaited, until_ms, leaves_at_ms, is_endless: false };
            match next_group(&policy, &joined, now_ms) {
                Forming::Form(members) => {
                    let behaviour = |client: Client| {
                        let joined_at_ms = client.joins_at_ms;
                        outcome.waited_ms += now_ms - joined_at_ms;
                        let leaves_at_ms = (leaving == Leaving::Anywhere).then_some(joined_at_ms + LEAVES_AFTER_MS);
                        Behaviour { leaves_at_ms, ..client.behaviour }
                    };
                    let members: Vec<Behaviour> = lobby.drain(..members as usize).map(behaviour).collect();
                    outcome.members += members.len() as u32;
                    groups.push((now_ms, Group::new(policy, times, members, now_ms)));
                }
                Forming::LeaveOut => outcome.without_group += lobby.drain(..).count() as u32,
                Forming::Wait { .. } | Forming::Nobody => break,
            }
        }
        for (formed_at_ms, group) in groups.iter_mut().filter(|(_, group)| !group.stage.is_final()) {
            group.send(now_ms);
            let facts = group.facts();
            group.perform(facts.stage, next_group_step(&facts, now_ms), now_ms);
            if group.stage.is_final() {
                outcome.group_ms += now_ms - *formed_at_ms;
            }
        }
        let facts: Vec<_> = groups.iter().map(|(_, group)| group.facts()).collect();
        let tally = Tally::of(&facts, &times);
        let may_last = |open: OpenGroups| open.outlast_ms(DEADLINE_MS, now_ms).is_some();
        if now_ms >= DEADLINE_MS && !tally.open.is_some_and(may_last) {
            outcome.counted = tally.reported;
            break;
        }
    }
    outcome.groups = groups.len() as u32;
    outcome.groups_failed = groups.iter().filter(|(_, group)| group.stage == GroupStage::Failed).count() as u32;
    outcome
}

/// The share of finished work that counts in several rounds, in percent, and a row for the table.
fn share(case: Case) -> (f64, String) {
    let Case { policy, leaving, wait_ms, stage_ms } = case;
    let mut sum = Outcome::default();
    for seed in 0..ROUNDS {
        let one = round(case, seed);
        sum.finished += one.finished;
        sum.counted += one.counted;
        sum.without_group += one.without_group;
        sum.groups += one.groups;
        sum.groups_failed += one.groups_failed;
        sum.members += one.members;
        sum.waited_ms += one.waited_ms;
        sum.group_ms += one.group_ms;
    }
    let percent = |count: u32| 100.0 * f64::from(count) / f64::from(sum.finished);
    let mean = |ms: i64, count: u32| ms as f64 / 1e3 / f64::from(count.max(1));
    let row = format!(
        "| {:?} | {} | {} s | {} to {} | {:.0} | {:.1} % | {:.1} % | {} of {} | {:.0} s | {:.0} s |",
        leaving,
        wait_ms.map_or_else(|| "no".to_owned(), |ms| format!("{} s", ms / 1_000)),
        stage_ms / 1_000,
        policy.group_min,
        policy.group,
        f64::from(sum.members) / f64::from(sum.groups.max(1)),
        percent(sum.counted),
        percent(sum.without_group),
        sum.groups_failed,
        sum.groups,
        mean(sum.waited_ms, sum.members),
        mean(sum.group_ms, sum.groups),
    );
    (percent(sum.counted), row)
}

/// What is lost without a group joined where few others did: at the beginning and at the end of the round. A smaller
/// minimum takes them in, and a wait that ends before they leave. Where clients leave in the middle of a group, shorter
/// stages count for as much.
#[test]
fn the_share_of_finished_work_that_counts_is_as_measured() {
    use Leaving::{Anywhere, Lobby};
    println!(
        "| clients leave | wait | stage | group | mean | counts | no group | failed | in the lobby | in a group |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let wait = Some(GROUP_WAIT_MS);
    let rows = [
        (Lobby, None, STAGE_MS, 128, 64, 67.7),
        (Lobby, None, STAGE_MS, 100, 50, 74.1),
        (Lobby, None, STAGE_MS, 64, 32, 86.7),
        (Lobby, None, STAGE_MS, 32, 16, 92.1),
        (Lobby, wait, STAGE_MS, 128, 64, 83.5),
        (Lobby, wait, STAGE_MS, 100, 50, 88.6),
        (Lobby, wait, STAGE_MS, 64, 32, 90.9),
        (Lobby, wait, STAGE_MS, 32, 16, 96.2),
        (Lobby, wait, STAGE_MS, 100, 20, 95.3),
        (Lobby, wait, STAGE_MS, 64, 16, 96.3),
        // The default for cohorts of 128 and more.
        (Lobby, wait, STAGE_MS, 128, 32, 90.5),
        (Anywhere, wait, STAGE_MS, 100, 50, 41.0),
        (Anywhere, wait, STAGE_MS, 64, 32, 65.8),
        (Anywhere, wait, STAGE_MS, 32, 16, 87.0),
        (Anywhere, Some(15_000), STAGE_MS, 32, 16, 90.3),
        (Anywhere, Some(15_000), 10_000, 64, 16, 90.6),
        (Anywhere, Some(15_000), 10_000, 32, 10, 94.1),
    ];
    let mut wrong = Vec::new();
    for (leaving, wait_ms, stage_ms, group, group_min, expected) in rows {
        let policy = MaskingPolicy { group, group_min, ..MaskingPolicy::default() };
        let (share, row) = share(Case { policy, leaving, wait_ms, stage_ms });
        println!("{row}");
        if (share - expected).abs() > 1.0 {
            wrong.push(format!("{share:.1}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
