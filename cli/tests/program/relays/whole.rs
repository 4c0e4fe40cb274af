//! A tree that nothing disturbs.

use serde_json::Value;

use super::tree::{Tree, Victim, flat};
use super::{RELAYS, ROUNDS};

/// The first line of a relay's first start says how clients come in.
fn check_first_line(serving: &Value) {
    assert_eq!((&serving["event"], &serving["population"]), (&"serving".into(), &"p".into()), "{serving}");
    let (token, url) = (serving["enrolment_token"].as_str().unwrap(), serving["url"].as_str().unwrap());
    let expected = format!(
        "TRIBUTARY_TOKEN={token} tributary client run --server {} --state-dir client --csv examples.csv",
        url.trim_end_matches('/')
    );
    assert_eq!(serving["client_command"], *expected, "{serving}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_of_processes_makes_the_model_of_the_flat_fleet() {
    let tree = Tree::start(Victim::Relay).await;
    for relay in &tree.relays {
        check_first_line(&relay.serving);
    }
    let job = tree.create_job().await;
    assert_eq!(tree.play(&job).await, flat().await);
    tree.settle(&job).await;
    for relay in &tree.relays {
        let rounds = relay.rounds(&job).await;
        assert_eq!(rounds.len() as u32, ROUNDS, "nothing was abandoned: {rounds:?}");
    }
    tree.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_starts_again_is_the_same_client_of_its_parent() {
    let tree = Tree::start(Victim::Relay).await;
    assert_eq!(tree.operator.clients().await, RELAYS);
    for relay in &tree.relays {
        let again = relay.host.restart().await;
        assert_eq!(again["event"], "serving");
        // Its population and the token for its clients are there already.
        assert_eq!((again.get("population"), again.get("enrolment_token")), (None, None), "{again}");
    }
    let job = tree.create_job().await;
    assert_eq!(tree.play(&job).await, flat().await, "the clients of the first start are known");
    assert_eq!(tree.operator.clients().await, RELAYS);
    tree.end().await;
}
