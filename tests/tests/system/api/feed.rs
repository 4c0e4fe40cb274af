//! The feed: every event of every job, once, across reconnections.

use reqwest::{Method, Response};
use serde_json::json;
use tributary_protocol::operator::Event;
use tributary_protocol::problem::ProblemType;

use crate::support::{Answer, WEIGHTS, World, within_reason};

/// What a browser's event source keeps of a stream.
struct Listener {
    response: Response,
    text: String,
    last_id: String,
}

impl Listener {
    async fn connect(world: &World, last_id: Option<&str>) -> Self {
        let request = world.operator_request(Method::GET, "/feed");
        let request = last_id.into_iter().fold(request, |request, id| request.header("last-event-id", id));
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut listener = Self { response, text: String::new(), last_id: String::new() };
        assert!(listener.block().await.is_none(), "at first only the place from which to resume");
        listener
    }

    /// The next block of the stream: its id is remembered, its event returned if it has one.
    async fn block(&mut self) -> Option<Event> {
        let end = loop {
            if let Some(end) = self.text.find("\n\n") {
                break end;
            }
            let piece = within_reason(self.response.chunk()).await.unwrap().expect("the stream goes on");
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        };
        let block: String = self.text.drain(..end + 2).collect();
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
        self.last_id = field("id:").unwrap_or(&self.last_id.clone()).to_owned();
        field("data:").map(|data| serde_json::from_str(data).unwrap())
    }

    async fn next(&mut self) -> (String, String) {
        loop {
            if let Some(event) = self.block().await {
                return (event.job.to_string(), event.became);
            }
        }
    }
}

#[tokio::test]
async fn a_feed_tells_every_event_of_every_job_once_across_reconnections() {
    let mut world = World::start().await;
    let one = world.job(json!({ "name": "one" })).await.head.id.to_string();
    let mut listener = Listener::connect(&world, None).await;
    let two = world.job(json!({ "name": "two" })).await.head.id.to_string();
    assert_eq!(listener.next().await, (two.clone(), "running".into()), "what was before the beginning is not told");
    world.drive().await;
    let mut opened = [listener.next().await, listener.next().await];
    opened.sort();
    let mut expected = [(one.clone(), "selecting".to_owned()), (two.clone(), "selecting".to_owned())];
    expected.sort();
    assert_eq!(opened, expected);

    // Gone while things happen and the coordinator starts anew.
    let last_id = listener.last_id.clone();
    drop(listener);
    world.operate(Method::POST, &format!("/jobs/{one}/stop"), &json!({})).await.value();
    world.restart().await;
    let three = world.job(json!({ "name": "three" })).await.head.id.to_string();
    let mut listener = Listener::connect(&world, Some(&last_id)).await;
    let mut missed = [listener.next().await, listener.next().await];
    missed.sort();
    let mut expected = [(one.clone(), "stopped".to_owned()), (three, "running".to_owned())];
    expected.sort();
    assert_eq!(missed, expected);
    world.drive().await;
    let next = [listener.next().await, listener.next().await];
    assert!(next.contains(&(one, "abandoned".into())), "{next:?}");

    // From the middle of what came at once: the rest of it is told again, and nothing before.
    let mut again = Listener::connect(&world, Some(&listener.last_id)).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    device.contribute(&work, &[0.5; WEIGHTS], 1).await;
    for listener in [&mut listener, &mut again] {
        let told = [listener.next().await.1, listener.next().await.1, listener.next().await.1];
        assert_eq!(told, ["training", "assigned", "reported"]);
    }
}

#[tokio::test]
async fn a_cursor_that_is_none_is_malformed() {
    let world = World::start().await;
    for wrong in ["nonsense", "", "1-2-3", "1-00.5"] {
        let request = world.operator_request(Method::GET, "/feed").header("last-event-id", wrong);
        Answer::to(request).await.refused(ProblemType::Malformed);
    }
}
