//! What is said of clients that did not report in time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tributary_client::clock::Clock;
use tributary_client::transport::{Request, Response, Transport, TransportError};
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, HttpTransport, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::operator::{self, Event, Page, RoundDetail};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Straggler};

use crate::support::{Answer, NOW_MS, WEIGHTS, World, delta_file, figures, within_reason};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// Two of five clients are enough. Of the others one finishes 7 s later, one stops as soon as it asks, and one dies.
#[tokio::test]
async fn a_straggler_finished_late_or_stopped_or_never_came_back_and_spares_are_no_losses() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "over_selection": 2.5, "deadline_ms": 60_000 } })).await;
    let [a, b, late, stops, dead] = world.devices().await;
    let work = world.assign([&a, &b, &late, &stops, &dead]).await;
    world.hand.advance_ms(1_000);
    a.contribute(&work[0], &STEP, 10).await;
    b.contribute(&work[1], &STEP, 10).await;
    world.drive().await;

    world.hand.advance_ms(400);
    stops.status(work[3].id).await.refused(ProblemType::AssignmentClosed);
    world.hand.advance_ms(6_600);
    late.put_update(work[2].id, &figures(10), delta_file(&work[2], &STEP)).await.refused(ProblemType::AssignmentClosed);
    // What was said once stays so.
    stops.status(work[3].id).await.refused(ProblemType::AssignmentClosed);

    let told = world.assignments(job.head.id, 1).await;
    let told = |index: usize| {
        let of: &operator::Assignment = &told[index];
        (of.state, of.straggler, of.spare, of.explanation.clone(), of.shape.clone())
    };
    let expired = AssignmentState::Expired;
    assert_eq!(told(0), (AssignmentState::Reported, None, false, None, "cadtu+".into()));
    let words = Some("finished 7 s after the round had enough reports".to_owned());
    assert_eq!(told(2), (expired, Some(Straggler::FinishedLate), true, words, "cadt.~".into()));
    let words = Some("stopped unfinished, 400 ms after the round had enough reports".to_owned());
    assert_eq!(told(3), (expired, Some(Straggler::Stopped), true, words, "ca.s".into()));
    let words = Some("never came back".to_owned());
    assert_eq!(told(4), (expired, Some(Straggler::NotBack), false, words, "ca.".into()));

    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.reported, round.expired, round.spare), (2, 3, 3));
    assert_eq!(round.saved_ms, 60_000 - 1_400, "the time that one of them did not compute");
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
    assert!(detail.explanation.ends_with("; 3 spares were not needed."), "{}", detail.explanation);

    let path = "/clients?population=devices&order=drop_rate";
    let clients: Page<operator::Client> = world.look(path).await.ok();
    let dropped: Vec<_> = clients.items.iter().map(|client| (client.number, client.expired, client.spare)).collect();
    assert_eq!(dropped, [(5, 1, 0), (1, 0, 0), (2, 0, 0), (3, 1, 1), (4, 1, 1)], "only the dead one was dropped");
    let events: Page<Event> = world.look(&format!("/events?job={}&limit=1000", job.head.id)).await.ok();
    let became = |word: &str| events.items.iter().filter(|event| event.became == word).count();
    assert_eq!((became("late"), became("stopped")), (1, 1));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn at_the_deadline_stragglers_are_losses_and_one_that_stops_by_its_own_clock_says_so() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 1 } })).await;
    let [a, stops, dead] = world.devices().await;
    let work = world.assign([&a, &stops, &dead]).await;
    a.contribute(&work[0], &STEP, 10).await;
    // The device may be a moment ahead of the driver.
    world.hand.advance_ms(10_000);
    stops.status(work[1].id).await.refused(ProblemType::AssignmentClosed);
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.reported, round.expired, round.spare, round.saved_ms), (1, 2, 0, 0));
    let told: Vec<_> = world.assignments(job.head.id, 1).await.into_iter().map(|of| of.explanation).collect();
    let stopped = Some("stopped at the deadline, unfinished".to_owned());
    assert_eq!(told, [None, stopped, Some("never came back".to_owned())]);
    world.check_books(job.head.id).await;
}

/// A clock that stands where the test puts it.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Requests over HTTP; says when a question about the assignment was answered.
#[derive(Debug)]
struct Questioned {
    http: HttpTransport,
    answered: mpsc::UnboundedSender<()>,
}

impl Transport for Questioned {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let is_question = request.method == Method::GET && request.url.contains("/assignments/");
            let response = self.http.send(request).await;
            if is_question {
                let _ = self.answered.send(());
            }
            response
        })
    }
}

/// Trains until it is stopped.
struct Endless {
    begun: mpsc::UnboundedSender<()>,
    batches: u64,
}

impl Trainer for Endless {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, _: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let _ = self.begun.send(());
        while !should_stop() {
            self.batches += 1;
            std::thread::yield_now();
        }
        Err(TrainError::Interrupted)
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// Goal: a client of the SDK stops at its first question after the round has closed, long before its deadline, and asks
/// no more often than it was told.
/// Method: the client's clock jumps by more than the pause between two questions, once before the round closes and once
/// after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_straggler_learns_at_its_next_question_that_the_round_has_closed_and_stops_computing() {
    let mut world = World::start().await;
    world.set_metrics(tributary_server::metrics::MetricsAccess::Open);
    world.restart().await;
    let round = json!({ "updates_goal": 1, "over_selection": 2.0, "deadline_ms": 600_000 });
    let job = world.job(json!({ "round": round })).await;
    let quick = world.device().await;
    let (directory, clock) = (TempDir::new().unwrap(), Arc::new(Hand::default()));
    let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let (answered, mut answers) = mpsc::unbounded_channel();
    let transport = Questioned { http: HttpTransport::new(world.http.clone()), answered };
    let client = client.transport(Arc::new(transport)).clock(Arc::<Hand>::clone(&clock));
    let client = client.build().unwrap();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let session = tokio::spawn(async move {
        let mut trainer = Endless { begun, batches: 0 };
        let outcome = client.run_once(&mut trainer, &AlwaysOn).await;
        (outcome, trainer.batches)
    });
    let waiting = quick.wait();
    world.until_waiting(2).await;
    world.drive().await;
    within_reason(waiting).await.unwrap();
    within_reason(begins.recv()).await.unwrap();

    // The round is open: it works on.
    clock.0.store(3_750, Ordering::SeqCst);
    within_reason(answers.recv()).await.unwrap();
    assert!(!session.is_finished());
    let work = quick.work().await;
    assert_eq!(work.ask_every_ms, 3_000);
    quick.contribute(&work, &STEP, 10).await;
    world.hand.advance_ms(2_000);
    clock.0.store(7_500, Ordering::SeqCst);
    let (outcome, batches) = within_reason(session).await.unwrap();
    assert!(matches!(outcome, Ok(Outcome::TooLate { round: 1, .. })), "{outcome:?}");
    assert!(batches > 0 && clock.now_ms() < 10_000, "it trained, and stopped long before its deadline");

    let straggler = world.assignments(job.head.id, 1).await.into_iter().find(|of| of.straggler.is_some()).unwrap();
    assert_eq!((straggler.straggler, straggler.stopped_at_ms), (Some(Straggler::Stopped), Some(NOW_MS + 2_000)));
    assert_eq!(world.round(job.head.id, 1).await.saved_ms, 598_000);
    let metrics = Answer::to(world.request(Method::GET, "/metrics")).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for (status, questions) in [(200, 1), (410, 1)] {
        let series = format!(
            "tributary_http_requests_total{{route=\"/device/v1/assignments/{{id}}\",method=\"GET\",status=\"{status}\"}} {questions}\n"
        );
        assert!(text.contains(&series), "{series} in\n{text}");
    }
}
