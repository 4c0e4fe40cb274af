//! Who is here: clients that wait and clients that work.

use serde_json::json;
use tributary_protocol::operator::{Client, Overview, Page, Population, System};

use crate::support::{WEIGHTS, World};

/// Goal: a client that works is as much here as one that waits, wherever they are counted; one that is not heard of is
/// not.
/// Method: of three clients one is drawn, one waits, and one has gone; then minutes pass without a word.
#[tokio::test]
async fn who_works_is_here_as_well_as_who_waits() {
    let world = World::start().await;
    world.job(json!({ "round": { "deadline_ms": 3_600_000 } })).await;
    let [works, waits, _gone] = world.devices().await;
    let seen = async || {
        let system: System = world.look("/system").await.ok();
        let populations: Page<Population> = world.look("/populations").await.ok();
        let overview: Overview = world.look("/overview").await.ok();
        let clients: Page<Client> = world.look("/clients?population=devices").await.ok();
        let population = (populations.items[0].online, populations.items[0].working);
        assert_eq!((system.online_clients, system.working_clients), population);
        assert_eq!((overview.populations[0].online, overview.populations[0].working), population);
        let each: Vec<_> = clients.items.iter().map(|client| (client.online, client.working)).collect();
        (population, each)
    };
    let (idle, waiting, working) = ((false, false), (true, false), (true, true));
    assert_eq!(seen().await, ((0, 0), vec![idle, idle, idle]));
    let [work] = world.assign([&works]).await;
    let held = waits.wait();
    world.until_waiting(1).await;
    assert_eq!(seen().await, ((2, 1), vec![working, waiting, idle]));
    world.app().fleet.lobby.call([waits.id]);
    held.await.unwrap();

    world.hand.advance_ms(299_000);
    assert_eq!(seen().await, ((1, 1), vec![working, idle, idle]));
    assert_eq!(works.status(work.id).await.status, 200, "it asks whether its round is open");
    world.hand.advance_ms(299_000);
    assert_eq!(seen().await, ((1, 1), vec![working, idle, idle]), "it was heard of");
    world.hand.advance_ms(2_000);
    assert_eq!(seen().await, ((0, 0), vec![idle, idle, idle]), "and then no more");
    works.contribute(&work, &[0.1; WEIGHTS], 10).await;
    assert_eq!(seen().await, ((0, 0), vec![idle, idle, idle]), "its work is done");
}
