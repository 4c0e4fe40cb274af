//! News of a job: its state, and its rounds as they end.
//!
//! Events only wake the follower. The news come from the lists of rounds, so that no round is missed or reported twice
//! when a connection breaks.

use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Job, PAGE_ITEMS_MAX, Round};
use tributary_protocol::state::{HealthKind, Phase, Task};

use crate::api::{Api, ApiError, EVENT_WAIT_MS};
use crate::round::list;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct News {
    pub(crate) job: Job,
    /// Training rounds and evaluations that ended since the previous news, in the order in which they ended.
    pub(crate) ended: Vec<Round>,
    /// The open training round.
    pub(crate) open: Option<Round>,
    /// What the open round waits for, if it has collected clients for a while.
    pub(crate) waits: Option<String>,
}

/// How long the follower waits for events before it asks again what a round that collects clients waits for.
const SELECTING_WAIT_MS: u32 = 3_000;

/// How long it waits for events while the round makes its model, which takes a moment, or no coordinator is there to
/// make it. No event tells of a coordinator that has died.
const UNCERTAIN_WAIT_MS: u32 = 2_000;

pub(crate) struct Follower<'a> {
    api: &'a Api,
    job: JobId,
    /// The last event that was received.
    event: u64,
    /// Whether the lists were read since that event.
    is_current: bool,
    /// The last training round that was reported.
    trained: u32,
    /// The last evaluation that was reported.
    evaluated: u32,
    /// Whether the job may wait for a coordinator.
    is_uncertain: bool,
    /// The open round, if it collected clients when the lists were last read.
    selecting: Option<u32>,
}

impl<'a> Follower<'a> {
    /// Begins with the `last` past rounds.
    pub(crate) async fn start(api: &'a Api, job: JobId, last: u32) -> Result<Self, ApiError> {
        let rounds = list::newest(api, job, Task::Train, Some(last.max(1) as usize)).await?;
        let reported = match (last, rounds.first()) {
            (_, None) => 0,
            (0, Some(newest)) if !newest.phase.is_open() => newest.number,
            (_, Some(first)) => first.number - 1,
        };
        let mut follower = Self {
            api,
            job,
            event: 0,
            is_current: false,
            trained: reported,
            evaluated: reported,
            selecting: None,
            is_uncertain: false,
        };
        follower.skip_events().await?;
        Ok(follower)
    }

    /// Begins with the first round of the job.
    pub(crate) fn from_the_first(api: &'a Api, job: JobId) -> Self {
        Self { api, job, event: 0, is_current: false, trained: 0, evaluated: 0, selecting: None, is_uncertain: false }
    }

    /// The next news. The first call returns at once, later ones when an event arrives or a long poll ends: the news
    /// may be empty. After an error, the next call continues where this one failed.
    pub(crate) async fn next(&mut self) -> Result<News, ApiError> {
        if self.is_current {
            self.wait(match (self.is_uncertain, self.selecting) {
                (true, _) => UNCERTAIN_WAIT_MS,
                (false, Some(_)) => SELECTING_WAIT_MS,
                (false, None) => EVENT_WAIT_MS,
            })
            .await?;
            self.is_current = false;
        }
        let news = self.read().await?;
        self.is_current = true;
        Ok(news)
    }

    /// Past events would wake the follower without news.
    async fn skip_events(&mut self) -> Result<(), ApiError> {
        while self.wait(0).await? {}
        Ok(())
    }

    /// Waits for an event; returns whether there was one.
    async fn wait(&mut self, wait_ms: u32) -> Result<bool, ApiError> {
        let events = self.api.events(self.job, self.event, wait_ms, PAGE_ITEMS_MAX).await?.items;
        let newest = events.iter().map(|event| event.sequence).max();
        let has_news = newest.is_some_and(|newest| newest > self.event);
        self.event = newest.unwrap_or(0).max(self.event);
        Ok(has_news)
    }

    async fn read(&mut self) -> Result<News, ApiError> {
        // The job is read first: if it is final, the rounds that are read after it are complete.
        let job = self.api.job(self.job).await?;
        let (mut ended, open) = split(list::after(self.api, self.job, Task::Train, self.trained).await?);
        let mut evaluations = vec![];
        if job.file.evaluation.is_some() {
            (evaluations, _) = split(list::after(self.api, self.job, Task::Evaluate, self.evaluated).await?);
        }
        self.trained = ended.last().map_or(self.trained, |round| round.number);
        self.evaluated = evaluations.last().map_or(self.evaluated, |round| round.number);
        ended.extend(evaluations);
        ended.sort_by_key(|round| round.ended_at_ms);
        let undriven = job.health.iter().find(|line| line.kind == HealthKind::NoDriver && open.is_some());
        let is_closed = open.as_ref().is_some_and(|round| round.phase == Phase::Aggregating);
        self.is_uncertain = undriven.is_some() || is_closed;
        let waits = match undriven {
            Some(line) => Some(format!("waits for a coordinator: {}", line.text)),
            None => self.waits(open.as_ref()).await?,
        };
        Ok(News { job, ended, open, waits })
    }

    /// Most rounds collect their clients in a moment. One that still does at a second look waits for something.
    async fn waits(&mut self, open: Option<&Round>) -> Result<Option<String>, ApiError> {
        let selecting = open.filter(|round| round.phase == Phase::Selecting).map(|round| round.number);
        let waits = match selecting {
            Some(number) if self.selecting == selecting => {
                Some(self.api.round(self.job, number, Task::Train).await?.explanation)
            }
            _ => None,
        };
        self.selecting = selecting;
        Ok(waits)
    }
}

/// The rounds before the first open one, and that one. Rounds behind it are reported after it has ended.
fn split(mut rounds: Vec<Round>) -> (Vec<Round>, Option<Round>) {
    let first_open = rounds.iter().position(|round| round.phase.is_open()).unwrap_or(rounds.len());
    let open = rounds.drain(first_open..).next();
    (rounds, open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, Scene, in_state, job, round};
    use tributary_protocol::operator::Health;
    use tributary_protocol::state::{JobState, Severity};

    fn numbers(news: &News) -> Vec<(Task, u32)> {
        news.ended.iter().map(|round| (round.task, round.number)).collect()
    }

    /// A job of two rounds that is followed from its first: round 1 ends, then its evaluation and all the rest.
    #[tokio::test]
    async fn each_round_is_reported_once_when_it_has_ended() {
        let (done, open) = (Phase::Committed, Phase::Training);
        let mut running = job(1, "demo", "digits");
        running.file.evaluation = serde_json::from_str("{}").unwrap();
        let completed = in_state(&running, JobState::Completed);
        let fake = Fake {
            jobs: vec![running.clone()],
            rounds: vec![round(Task::Train, 1, open)],
            scenes: vec![
                Scene {
                    job: running,
                    rounds: vec![
                        round(Task::Train, 1, done),
                        round(Task::Evaluate, 1, open),
                        round(Task::Train, 2, open),
                    ],
                },
                Scene {
                    job: completed,
                    rounds: vec![
                        round(Task::Train, 1, done),
                        round(Task::Evaluate, 1, done),
                        round(Task::Train, 2, done),
                        round(Task::Evaluate, 2, done),
                    ],
                },
            ],
            ..Fake::default()
        };
        let api = fake.start().await;
        let mut follower = Follower::start(&api, fake.jobs[0].head.id, 10).await.unwrap();
        let first = follower.next().await.unwrap();
        assert_eq!((numbers(&first), first.open.map(|round| round.number)), (vec![], Some(1)));
        let second = follower.next().await.unwrap();
        assert_eq!(numbers(&second), [(Task::Train, 1)]);
        let last = follower.next().await.unwrap();
        assert_eq!(numbers(&last), [(Task::Evaluate, 1), (Task::Train, 2), (Task::Evaluate, 2)]);
        assert_eq!((last.job.head.state, last.open), (JobState::Completed, None));
    }

    #[tokio::test]
    async fn a_round_that_goes_on_collecting_clients_says_what_it_waits_for() {
        let selecting = round(Task::Train, 1, Phase::Selecting);
        let running = job(1, "demo", "digits");
        let scene = Scene { job: running.clone(), rounds: vec![selecting.clone()] };
        let fake = Fake { jobs: vec![running], rounds: vec![selecting], scenes: vec![scene], ..Fake::default() };
        let api = fake.start().await;
        let mut follower = Follower::start(&api, fake.jobs[0].head.id, 10).await.unwrap();
        assert_eq!(follower.next().await.unwrap().waits, None);
        assert_eq!(follower.next().await.unwrap().waits.as_deref(), Some("Round 1 has its reasons."));
    }

    #[tokio::test]
    async fn a_round_whose_coordinator_has_died_waits_for_one() {
        let text = "no coordinator drives the job: south was last seen 3 s ago";
        let line = Health {
            severity: Severity::Trouble,
            kind: HealthKind::NoDriver,
            text: text.into(),
            remedy: Some("start south again".into()),
        };
        let running = Job { health: vec![line], ..job(1, "demo", "digits") };
        let closed = round(Task::Train, 1, Phase::Aggregating);
        let scene = Scene { job: running.clone(), rounds: vec![closed.clone()] };
        let fake = Fake { jobs: vec![running], rounds: vec![closed], scenes: vec![scene], ..Fake::default() };
        let api = fake.start().await;
        let mut follower = Follower::start(&api, fake.jobs[0].head.id, 10).await.unwrap();
        let waits = follower.next().await.unwrap().waits;
        assert_eq!(waits, Some(format!("waits for a coordinator: {text}")));
    }

    #[tokio::test]
    async fn of_a_long_history_only_the_last_rounds_are_reported() {
        let rounds: Vec<Round> = (1..=30).map(|number| round(Task::Train, number, Phase::Committed)).collect();
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], rounds, ..Fake::default() };
        let api = fake.start().await;
        for (last, reported) in [(3, vec![28, 29, 30]), (0, vec![])] {
            let mut follower = Follower::start(&api, fake.jobs[0].head.id, last).await.unwrap();
            let news = follower.next().await.unwrap();
            assert_eq!(news.ended.iter().map(|round| round.number).collect::<Vec<_>>(), reported);
        }
    }
}
