//! The parent goes back to an older state, as after a restore of a backup.

use std::path::Path;

use tributary_protocol::state::Phase;

use super::fleet::contribute;
use super::tree::{Tree, Victim, flat};
use super::{ROUNDS, within_reason};

/// Copies the files of a coordinator that has stopped.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Goal: relays give back a round that they have played, and take part in the next one. Method: the parent's files are
/// copied in the middle of a round, and put back after the round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_take_part_again_after_a_restore_of_their_parent() {
    let tree = Tree::start(Victim::Relay).await;
    let job = tree.create_job().await;
    let work = within_reason("all clients have work", tree.fleet.work()).await;
    let (folder, kept) = (tree.parent_folder(), tree.parent_folder().with_extension("kept"));
    tree.parent.stop_gently().await;
    copy(&folder, &kept);
    tree.parent.restart().await;
    for (client, work) in work.iter().enumerate() {
        contribute(client, tree.fleet.device(client), work).await.unwrap();
    }
    for operator in tree.relays.iter().map(|relay| &relay.operator).chain([&tree.operator]) {
        within_reason("the round is committed", operator.round_is(&job, 1, Phase::Committed)).await;
    }
    tree.parent.stop_gently().await;
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&kept, &folder).unwrap();
    tree.parent.restart().await;

    assert_eq!(tree.play(&job).await, flat().await);
    let rounds = tree.operator.rounds(&job).await;
    assert_eq!((rounds.len() as u32, rounds[0].phase), (ROUNDS + 1, Phase::Abandoned), "{rounds:?}");
    tree.settle(&job).await;
    tree.end().await;
}
