//! Rounds of a coded tree: real relays with a code for each parent, real clients below. Whichever child of every parent
//! is lost, the model is that of all parts.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome};
use tributary_engine::coded::reduce::{Member, Reduce};
use tributary_engine::coded::tree::Tree;
use tributary_protocol::coded_tree::parts_of;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use super::coded::{Holder, completed, distance, job, names, take_part, values};
use super::lockstep::examples;
use crate::support::{World, http, within_reason};

/// A relay, or the coordinator of the job, with the clients beside it.
struct Site {
    world: World,
    clients: Vec<Holder>,
}

/// Which child each parent loses, by the rows that lead to the parent. A lost relay loses all below it.
type Lost<'a> = &'a (dyn Fn(&[usize]) -> Option<usize> + Sync);

/// Children of each parent, levels, and children that each parent does without.
#[derive(Clone, Copy)]
struct Shape(u32, u32, u32);

impl Shape {
    fn members(self) -> Reduce {
        Reduce::of(Tree::new(self.0, self.1, self.2).unwrap()).unwrap()
    }

    fn job(self, code: &str, changes: &Value) -> Value {
        let Self(children, levels, stragglers) = self;
        let parts = parts_of(children as usize, levels, stragglers as usize + 1).unwrap();
        let mut changes = changes.clone();
        changes["update"] = json!({ "codec": "f32" });
        changes["aggregation"] = json!({ "combine": "uniform_mean" });
        let tree = json!({ "children": children, "levels": levels });
        job(&json!({ "parts": names(parts), "stragglers": stragglers, "code": code, "tree": tree }), &changes)
    }
}

/// Starts the members below a site, and lists its clients.
fn grow<'a>(
    sites: &'a mut Vec<Site>,
    (site, members): (usize, &'a [Member]),
    path: Vec<usize>,
    (lost, is_lost): (Lost<'a>, bool),
) -> BoxFuture<'a, ()> {
    async move {
        let holder = |member: &Member, is_stuck| {
            let parts: Vec<usize> = member.kept.iter().map(|(part, _)| *part).collect();
            let mut holder = Holder::of(&parts);
            holder.is_stuck = is_stuck;
            holder
        };
        for (row, member) in members.iter().enumerate() {
            let is_lost = is_lost || lost(&path) == Some(row);
            if member.children.is_empty() {
                sites[site].clients.push(holder(member, is_lost));
                continue;
            }
            let world = sites[site].world.relay().await;
            sites.push(Site { world, clients: vec![holder(member, is_lost)] });
            let below = (sites.len() - 1, member.children.as_slice());
            grow(sites, below, [&path[..], &[row]].concat(), (lost, is_lost)).await;
        }
    }
    .boxed()
}

/// Plays a job until it is complete, and returns its versions' files.
async fn versions(file: &Value, shape: Shape, lost: Lost<'_>) -> (Vec<Site>, JobId, Vec<Vec<u8>>) {
    let world = World::start_driven().await;
    let job = world.create_job(file).await.ok::<Job>().head.id;
    let mut sites = vec![Site { world, clients: Vec::new() }];
    let reduce = shape.members();
    grow(&mut sites, (0, reduce.children()), Vec::new(), (lost, false)).await;
    let holders: Vec<(usize, Holder)> =
        sites.iter_mut().enumerate().flat_map(|(at, site)| site.clients.drain(..).map(move |it| (at, it))).collect();
    let root = &sites[0].world;
    let clients = holders.into_iter().map(|(at, holder)| take_part(&sites[at].world, holder));
    within_reason(async {
        tokio::select! {
            _ = join_all(clients) => unreachable!("clients take part for ever"),
            () = completed(root, job) => {}
        }
    })
    .await;
    let mut files = Vec::new();
    for version in 0..=root.job_now(job).await.head.rounds_committed {
        files.push(root.model_file(job, version).await);
    }
    (sites, job, files)
}

/// Of three relays with three children each, one relay is lost, and one child of each other relay.
#[tokio::test]
async fn whichever_child_of_each_parent_is_lost_the_model_is_that_of_all_parts() {
    let shape = Shape(3, 2, 1);
    let file = shape.job("cyclic", &json!({}));
    let (sites, id, whole) = versions(&file, shape, &|_| None).await;
    let (first, all) = (values(&whole[0]), values(&whole[1]));
    let moved = distance(&first, &all);
    assert!(moved > 1e-3, "the model has moved");
    let round = sites[0].world.round(id, 1).await;
    assert_eq!((round.phase, round.cohort, round.reported, round.goal), (Phase::Committed, 3, 2, 2));
    for lost in [[0, 0, 0, 0], [1, 2, 0, 1], [2, 1, 2, 0]] {
        let child = |parent: &[usize]| Some(parent.first().map_or(lost[0], |relay| lost[relay + 1]));
        let (sites, id, without) = versions(&file, shape, &child).await;
        let apart = distance(&all, &values(&without[1]));
        assert!(apart < 1e-5 * moved, "{apart} of {moved} without {lost:?}");
        let played = sites[0].world.assignments(id, 1).await;
        let answered = played.iter().filter(|one| one.state == AssignmentState::Reported).count();
        assert_eq!((played.len(), answered), (3, 2));
        assert!(played.iter().all(|one| one.parts.len() == 10 && one.places.is_none()), "{played:?}");
    }
}

/// Goal: over several rounds, and with a server optimiser, the model is that of clients that hold one part each.
#[tokio::test]
async fn a_tree_makes_the_model_of_a_star_whose_clients_hold_one_part_each() {
    let shape = Shape(3, 2, 1);
    // All examples in each step, so that no seed matters.
    let training = json!({ "steps": 3, "batch_size": 64, "optimizer": { "kind": "sgd", "learning_rate": 0.2 } });
    let changes = json!({ "training": training, "stop": { "rounds": 3 } });
    let (_, _, tree) = versions(&shape.job("cyclic", &changes), shape, &|_| None).await;
    let mut star = shape.job("cyclic", &changes);
    let parts = star["coded"]["parts"].as_array().unwrap().len();
    star.as_object_mut().unwrap().remove("coded");
    star["round"] =
        json!({ "updates_goal": parts, "updates_min": parts, "over_selection": 1.0, "deadline_ms": 600_000 });
    let world = World::start_driven().await;
    let id = world.create_job(&star).await.ok::<Job>().head.id;
    let clients = (0..parts).map(|part| {
        let world = &world;
        async move {
            let directory = TempDir::new().unwrap();
            let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
            let client = builder.http_client(http()).build().unwrap();
            let (mut trainer, mut contributed) = (LayerTrainer::new(examples(part)), 0);
            while contributed < 3 {
                let outcome = client.run_once(&mut trainer, &AlwaysOn).await.unwrap();
                contributed += u32::from(matches!(outcome, Outcome::Contributed { .. }));
            }
        }
    });
    within_reason(join_all(clients)).await;
    within_reason(completed(&world, id)).await;
    assert_eq!(tree.len(), 4);
    let of_star = [values(&world.model_file(id, 0).await), values(&world.model_file(id, 3).await)];
    assert_eq!(values(&tree[0]), of_star[0]);
    let (moved, apart) = (distance(&of_star[0], &of_star[1]), distance(&values(&tree[3]), &of_star[1]));
    assert!(apart < 1e-5 * moved && moved > 1e-3, "{apart} of {moved}");
}

/// Goal: the answers of a block are the same bits, and so is what a parent makes of them.
#[tokio::test]
async fn with_blocks_the_model_has_the_same_bits_whoever_is_lost() {
    let shape = Shape(4, 2, 1);
    let file = shape.job("fractional", &json!({}));
    let (_, _, whole) = versions(&file, shape, &|_| None).await;
    assert!(distance(&values(&whole[0]), &values(&whole[1])) > 1e-3, "the model has moved");
    for lost in [0, 1, 3] {
        let child = |parent: &[usize]| Some((lost + parent.len()) % 4);
        assert!(versions(&file, shape, &child).await.2 == whole, "without child {lost}");
    }
}

/// Goal: a tree that cannot be played is refused when its job is created.
#[tokio::test]
async fn a_tree_that_cannot_be_played_is_refused() {
    let world = World::start_driven().await;
    let whole = Shape(3, 2, 1).job("cyclic", &json!({}));
    for (place, value, word) in [
        ("/coded/tree/levels", json!(1), "a star has no tree"),
        ("/coded/tree/levels", json!(3), "relays of relays"),
        ("/coded/tree/children", json!(4), "does better"),
        ("/coded/code", json!("fractional"), "a multiple of"),
        ("/coded/parts", json!(["a", "b", "c"]), "15 names"),
        ("/aggregation/combine", json!("weighted_mean"), "uniform_mean"),
        ("/update/codec", json!("int8"), "f32"),
    ] {
        let mut file = whole.clone();
        *file.pointer_mut(place).unwrap() = value;
        let refused = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
        assert!(refused.detail.contains(word), "{place}: {refused:?}");
    }
}
