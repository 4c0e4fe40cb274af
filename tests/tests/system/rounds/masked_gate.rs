//! What the coordinator still checks of updates that it cannot read: the sums of their groups. A wild one is dropped
//! and named, and rules over the means of groups bound what a longer one does.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::operator::{Job, RoundDetail};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{GroupFailure, GroupStage, Phase, Task};
use tributary_server::db::RoundKey;

use super::masked::{CLIP, LEVELS, Seat};
use crate::support::{Device, WEIGHTS, World, job_file};

/// Members of a group.
const GROUP: usize = 3;
const CLIENTS: usize = 3 * GROUP;

fn job(combine: &Value) -> Value {
    let mut file = job_file(&json!({
        // With one group less there are too few means for a median.
        "round": { "updates_goal": CLIENTS, "updates_min": if combine == "median" { 2 * GROUP + 1 } else { GROUP } },
        "aggregation": { "combine": combine },
        "secure_aggregation": { "clip": CLIP, "levels": LEVELS, "group": GROUP, "group_min": GROUP },
    }));
    file.as_object_mut().unwrap().remove("update");
    file
}

fn delta(place: usize) -> Vec<f32> {
    (0..WEIGHTS).map(|index| 0.02 * (index + place) as f32 - 0.1).collect()
}

/// The mean of some updates.
fn mean(updates: &[Vec<f32>]) -> Vec<f32> {
    (0..WEIGHTS).map(|index| updates.iter().map(|update| update[index]).sum::<f32>() / updates.len() as f32).collect()
}

fn norm(update: &[f32]) -> f32 {
    update.iter().map(|value| value * value).sum::<f32>().sqrt()
}

/// What the liar puts in place of its integers.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Random ones.
    Wild,
    /// Its negative update, as often as its group has members and as long as the clip: no longer than honest members
    /// may be together.
    Reversed,
}

/// What a round came to.
struct Played {
    world: World,
    job: Job,
    /// The clients of each group by their places, the group of the liar first.
    groups: Vec<Vec<usize>>,
}

/// What the liar adds to the sum of its group.
fn reversed(place: usize) -> Vec<f32> {
    let scale = -(GROUP as f32) * CLIP as f32 / norm(&delta(place));
    delta(place).iter().map(|value| value * scale).collect()
}

/// Plays a round of three groups, in one of which a member lies.
async fn played(combine: &Value, lie: Lie) -> Played {
    let world = World::start().await;
    let job: Job = world.create_job(&job(combine)).await.ok();
    let devices: [Device; CLIENTS] = world.devices().await;
    let groups = round(&world, &devices, std::array::from_fn(|place| place), lie).await;
    Played { world, job, groups }
}

/// Joins in this order, and without waiting for a group.
async fn join_in_order(world: &World, seats: &[Seat], order: [usize; CLIENTS]) {
    for (joined, place) in order.into_iter().enumerate() {
        // The lobby is ordered by the time of joining.
        world.hand.advance_ms(1);
        let (device, request) = (seats[place].device.clone(), seats[place].member.request());
        let path = format!("/assignments/{}/group", seats[place].assignment.id);
        let held = tokio::spawn(async move { device.request(Method::PUT, &path).body(request).send().await });
        let key =
            RoundKey { job: seats[place].assignment.job, task: Task::Train, number: seats[place].assignment.round };
        while world.app().db.read().await.unwrap().secure_lobby(key).await.unwrap().len() <= joined {
            world.app().signals.unknown_changed().await;
        }
        held.abort();
    }
}

/// Plays a round of three groups of clients that join in this order. Returns the places in each group, those of the
/// liar's first.
async fn round(world: &World, devices: &[Device; CLIENTS], order: [usize; CLIENTS], lie: Lie) -> Vec<Vec<usize>> {
    let assignments = world.assign(devices.each_ref()).await;
    let seats = devices.iter().zip(assignments).zip(0..);
    let mut seats: Vec<Seat> =
        seats.map(|((device, assignment), place)| Seat::new(device.clone(), assignment, place)).collect();
    join_in_order(world, &seats, order).await;
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for seat in &seats {
        let is_same = |group: &&mut Vec<usize>| seats[group[0]].member.roster() == seat.member.roster();
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(seat.place),
            None => groups.push(vec![seat.place]),
        }
    }
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [GROUP; 3]);
    let send = seats.iter_mut().map(async |seat| {
        let honest = seat.quantised(&delta(seat.place));
        let body = match (seat.place, lie) {
            (0, Lie::Wild) => {
                let mut stream = Seed(1).stream();
                seat.masked_as(&honest.iter().map(|_| stream.next_u64().cast_signed()).collect::<Vec<_>>())
            }
            (0, Lie::Reversed) => {
                let part: Vec<f32> = reversed(0).iter().map(|value| value / GROUP as f32).collect();
                let values = seat.quantised(&part);
                seat.masked_as(&values.iter().map(|value| value * GROUP as i64).collect::<Vec<_>>())
            }
            _ => seat.masked_as(&honest),
        };
        seat.taken(Method::PUT, "/update", body).await;
    });
    world.driven(join_all(send)).await;
    let opening = world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        seat.taken(Method::PUT, "/unmask", unmask).await;
    }
    world.drive().await;
    groups
}

/// Checks that the round was committed with this step. Returns what is shown of it.
async fn check_step(Played { world, job, .. }: &Played, step: &[f32], what: &Value) -> RoundDetail {
    let shown: RoundDetail = world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
    assert_eq!(shown.round.phase, Phase::Committed, "{what}: {}", shown.explanation);
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    for (index, step) in step.iter().enumerate() {
        let made = after[index] - before[index];
        assert!((made - step).abs() < 2e-3, "{what}, {index}: {made} instead of {step}");
    }
    world.check_books(job.head.id).await;
    shown
}

/// Goal: random integers of one member cost the updates of its group and nothing else, whatever the rule, and the
/// round's page names the group.
#[tokio::test]
async fn a_wild_sum_is_dropped_and_its_group_is_named() {
    for combine in [json!("uniform_mean"), json!({ "kind": "norm_clipping", "norm": 1.0 })] {
        let played = played(&combine, Lie::Wild).await;
        let honest: Vec<Vec<f32>> = played.groups[1..].concat().into_iter().map(delta).collect();
        let shown = check_step(&played, &mean(&honest), &combine).await;
        assert_eq!(shown.round.reported as usize, 2 * GROUP);
        let failed: Vec<_> = shown.groups.iter().filter(|group| group.stage == GroupStage::Failed).collect();
        assert!(failed.len() == 1 && failed[0].reason == Some(GroupFailure::Norm), "{:?}", shown.groups);
        let assignments = played.world.assignments(played.job.head.id, 1).await;
        let mut lost: Vec<u64> = assignments
            .iter()
            .filter(|assignment| assignment.reason.as_ref().is_some_and(|reason| reason.contains("(norm)")))
            .map(|assignment| assignment.client_number)
            .collect();
        let mut named: Vec<u64> = failed[0].members.iter().map(|member| member.client_number).collect();
        lost.sort_unstable();
        named.sort_unstable();
        assert!(named.len() == GROUP && named == lost, "{named:?} {lost:?}");
        assert!(shown.explanation.contains("longer than its members could make it"), "{}", shown.explanation);
    }
}

/// Goal: a liar and those whose groups it broke three times are grouped apart, and the others are not mixed with them.
/// Method: three rounds in which the same three join first; then they join among the others.
#[tokio::test]
async fn members_of_three_failed_groups_are_grouped_apart() {
    let world = World::start().await;
    let job: Job = world.create_job(&job(&json!("uniform_mean"))).await.ok();
    let devices: [Device; CLIENTS] = world.devices().await;
    for _ in 0..3 {
        let groups = round(&world, &devices, [0, 1, 2, 3, 4, 5, 6, 7, 8], Lie::Wild).await;
        assert_eq!(groups[0], [0, 1, 2]);
    }
    let groups = round(&world, &devices, [3, 0, 4, 1, 5, 6, 2, 7, 8], Lie::Wild).await;
    assert_eq!(groups, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
    let shown: RoundDetail = world.look(&format!("/jobs/{}/rounds/4", job.head.id)).await.ok();
    assert_eq!(shown.round.reported as usize, 2 * GROUP);
}

/// Goal: a member that lies within what honest ones may send moves the model by no more than the rule lets a group
/// move it. Each group's mean is one point of the rule.
#[tokio::test]
async fn a_rule_over_the_means_of_groups_bounds_what_a_liar_does() {
    let bound = 0.3;
    for combine in [json!("uniform_mean"), json!({ "kind": "norm_clipping", "norm": bound }), json!("median")] {
        let played = played(&combine, Lie::Reversed).await;
        let update = |place: usize| if place == 0 { reversed(0) } else { delta(place) };
        let means: Vec<Vec<f32>> =
            played.groups.iter().map(|group| mean(&group.iter().copied().map(update).collect::<Vec<_>>())).collect();
        assert!(norm(&means[0]) > 1.5 && means[1..].iter().all(|mean| norm(mean) < 1.0), "{means:?}");
        let step = match &combine {
            Value::Object(_) => {
                let clipped = means.iter().map(|mean| {
                    let scale = (bound as f32 / norm(mean)).min(1.0);
                    mean.iter().map(|value| value * scale).collect()
                });
                mean(&clipped.collect::<Vec<_>>())
            }
            rule if rule == "median" => (0..WEIGHTS)
                .map(|index| {
                    let mut column: Vec<f32> = means.iter().map(|mean| mean[index]).collect();
                    column.sort_unstable_by(f32::total_cmp);
                    column[1]
                })
                .collect(),
            _ => mean(&means),
        };
        let shown = check_step(&played, &step, &combine).await;
        assert!(shown.groups.iter().all(|group| group.stage == GroupStage::Summed), "{combine}: {:?}", shown.groups);
    }
}
