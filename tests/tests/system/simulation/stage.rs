//! A history on stage: the real coordinator on a database file, the real SDK, one clock, and no request that arrives by
//! itself. At most one thing moves at a time, and each operation waits until everything stands still again.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use reqwest::Method;
use serde_json::json;
use tributary_client::HttpTransport;
use tributary_protocol::device::EnrolResponse;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::Job;
use tributary_protocol::state::{JobState, Phase};
use tributary_server::Coordinator;

use super::ledger::Ledger;
use super::network::{Call, Reply, arrive, arrive_in_part, is_upload, what};
use super::op::{Op, Setup};
use super::player::{At, Player, WAIT_MS};
use crate::rounds::buffered::buffered;
use crate::support::{World, within_reason};

/// How long a round waits for clients.
const SELECTION_MS: i64 = 8_000;
/// How long a cohort has.
const DEADLINE_MS: i64 = 10_000;
/// How many versions an update of a buffered job may be behind.
const STALENESS_MAX: u32 = 2;
/// Most requests of a session: six tries of each of its calls.
const REQUESTS_MAX: u32 = 40;
/// Most turns until a healthy world commits a round: the deadlines of two rounds that begin with dead clients in them.
const TURNS_MAX: u32 = 40;
/// How far the clock moves in such a turn.
const TURN_MS: i64 = 1_500;

/// Weights of a large model besides those that the clients own: an update of them takes more than 1 MiB.
const REST_WEIGHTS: usize = 420_000;

/// Who and what takes part in a history.
struct Stage {
    world: World,
    /// Brings the requests that are delivered to the coordinator.
    http: HttpTransport,
    job: JobId,
    players: Vec<Player>,
    ledger: Arc<Mutex<Ledger>>,
    buffered: bool,
    /// A second coordinator on the same database; it has a driver and no visitors.
    other: Option<Coordinator>,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    AnswerLost,
    /// This many eighths of its body arrive.
    Broken(u32),
}

/// Plays a history, and checks after each operation and at the end what must hold.
pub(super) async fn play(setup: Setup, ops: Vec<Op>) {
    let mut stage = Stage::new(setup).await;
    for op in ops {
        stage.act(op).await;
        stage.check().await;
    }
    stage.recover().await;
    stage.end().await;
}

impl Stage {
    async fn new(setup: Setup) -> Self {
        let world = World::start().await;
        let mut file = json!({ "round": {
            "updates_goal": setup.updates_goal, "updates_min": setup.updates_min,
            "over_selection": setup.over_selection,
            "selection_timeout_ms": SELECTION_MS, "deadline_ms": DEADLINE_MS,
        }});
        if setup.evaluated {
            file["evaluation"] = json!({ "selection_timeout_ms": SELECTION_MS, "deadline_ms": DEADLINE_MS });
        }
        if setup.delta {
            file["download"] = json!({ "delta": true });
        }
        if setup.large {
            let parameter = |name: &str, shape: &[usize]| json!({ "name": name, "shape": shape });
            let parameters = [parameter("w", &[2, 2]), parameter("b", &[2]), parameter("rest", &[REST_WEIGHTS])];
            file["model"] = json!({ "parameters": parameters });
        }
        let job = match setup.concurrency {
            None => world.job(file).await.head.id,
            Some(concurrency) => {
                file["round"] = json!({ "deadline_ms": DEADLINE_MS });
                let mode = json!({
                    "buffer": setup.updates_goal, "concurrency": concurrency, "staleness_max": STALENESS_MAX,
                    "per_client": setup.updates_goal,
                });
                let mode = match setup.slack {
                    None => mode,
                    Some(slack) => {
                        json!({ "kind": "stale_synchronous", "members": concurrency, "slack": slack })
                    }
                };
                let mut file = buffered(&mode, &file);
                if setup.slack.is_some() {
                    file["round"]["selection_timeout_ms"] = json!(SELECTION_MS);
                }
                world.create_job(&file).await.ok::<Job>().head.id
            }
        };
        let ledger = Arc::new(Mutex::new(Ledger::new(setup.delta)));
        let mut players = Vec::new();
        for number in 0..setup.clients {
            players.push(Player::new(number, &world, &ledger));
        }
        let http = HttpTransport::new(world.http.clone());
        Self { world, http, job, players, ledger, buffered: setup.concurrency.is_some(), other: None }
    }

    async fn act(&mut self, op: Op) {
        match op {
            Op::Step(client) => self.step(client).await,
            Op::CheckIn(client) => self.check_in(client).await,
            Op::Work(client) => self.work(client).await,
            Op::Gather => self.gather().await,
            Op::LoseRequest(client) => self.go_on(client, Fate::Lost).await,
            Op::LoseResponse(client) => self.go_on(client, Fate::AnswerLost).await,
            Op::ToUpload(client) => {
                if let Some(call) = self.until_upload(client).await {
                    self.players[client].at = At::Asking(call);
                }
            }
            Op::BreakUpload(client, eighths) => {
                if let Some(call) = self.until_upload(client).await {
                    self.pass(client, call, Fate::Broken(eighths)).await;
                }
            }
            Op::KillClient(client) => self.players[client].kill().await,
            Op::RepeatUpload(client) => self.repeat_upload(client).await,
            Op::AdvanceTime(by_ms) => self.advance(by_ms).await,
            Op::DriverOnce => self.drive().await,
            Op::TwoDrivers => self.drive_twice().await,
            Op::RestartServer => self.restart().await,
            Op::PauseJob => self.operate("pause").await,
            Op::ResumeJob => self.operate("resume").await,
            Op::StopJob => self.operate("stop").await,
        }
    }

    async fn step(&mut self, client: usize) {
        match self.players[client].at {
            At::Home => self.players[client].begin(&self.world).await,
            At::Napping(_) => self.players[client].wake().await,
            At::Asking(_) => self.go_on(client, Fate::Arrives).await,
            At::Held { .. } => {}
        }
    }

    async fn check_in(&mut self, client: usize) {
        for _ in 0..REQUESTS_MAX {
            let Some(call) = self.players[client].request(&self.world).await else { return };
            let checks_in = what(&call.request).ends_with("/checkins");
            self.pass(client, call, Fate::Arrives).await;
            if checks_in {
                return;
            }
        }
        panic!("client {client} never checks in");
    }

    async fn gather(&mut self) {
        for client in 0..self.players.len() {
            self.check_in(client).await;
        }
        self.drive().await;
    }

    async fn work(&mut self, client: usize) {
        for _ in 0..REQUESTS_MAX {
            self.go_on(client, Fate::Arrives).await;
            if matches!(self.players[client].at, At::Home | At::Held { .. }) {
                return;
            }
        }
        panic!("a session of client {client} never ends");
    }

    async fn until_upload(&mut self, client: usize) -> Option<Call> {
        for _ in 0..REQUESTS_MAX {
            let call = self.players[client].request(&self.world).await?;
            if is_upload(&call.request) {
                return Some(call);
            }
            self.pass(client, call, Fate::Arrives).await;
            if matches!(self.players[client].at, At::Home | At::Held { .. }) {
                return None;
            }
        }
        panic!("a session of client {client} never ends");
    }

    /// A client's next request meets its fate. Where it is held already, the connection may break.
    async fn go_on(&mut self, client: usize, fate: Fate) {
        if let Some(call) = self.players[client].request(&self.world).await {
            self.pass(client, call, fate).await;
        } else if fate == Fate::AnswerLost {
            let player = &mut self.players[client];
            if let At::Held { call, .. } = std::mem::replace(&mut player.at, At::Home) {
                player.answered(call, None).await;
            }
        }
    }

    async fn pass(&mut self, client: usize, call: Call, fate: Fate) {
        if fate == Fate::Lost {
            return self.players[client].answered(call, None).await;
        }
        if let Fate::Broken(eighths) = fate {
            within_reason(arrive_in_part(self.world.address, &call.request, eighths)).await;
            // What came of it is still on its way to the disk.
            within_reason(async {
                while self.world.app().updates.budget.taken() > 0 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            return self.players[client].answered(call, None).await;
        }
        // Whoever woke the driver before does not count.
        let _ = self.world.app().signals.unknown_changed().now_or_never();
        let what = what(&call.request);
        let mut reply = tokio::spawn(arrive(self.http.clone(), call.request.clone()));
        let answered = async {
            if !what.ends_with("/checkins") {
                return Some((&mut reply).await);
            }
            tokio::select! {
                reply = &mut reply => Some(reply),
                // The coordinator found no work and told its driver: it holds the request.
                () = self.world.app().signals.unknown_changed() => None,
            }
        };
        match within_reason(answered).await {
            Some(reply) => {
                let reply = reply.unwrap().unwrap();
                self.answer(client, call, fate, &reply).await;
                // An update that came between two buffers: a driver of its own would open the next one in a moment.
                if self.buffered && reply.status() == 503 {
                    self.world.drive().await;
                }
            }
            None if fate == Fate::AnswerLost => self.players[client].answered(call, None).await,
            None => {
                let until_ms = self.now_ms() + WAIT_MS;
                self.players[client].at = At::Held { call, reply, until_ms };
            }
        }
        self.call_held(false).await;
    }

    async fn answer(&mut self, client: usize, call: Call, fate: Fate, reply: &Reply) {
        let what = what(&call.request);
        self.ledger.lock().unwrap().answered(client, &what, reply);
        let player = &mut self.players[client];
        if fate == Fate::Arrives && what == "POST /device/v1/clients" {
            player.id = Some(reply.json::<EnrolResponse>().client);
        }
        player.answered(call, (fate == Fate::Arrives).then_some(reply)).await;
    }

    /// Brings the answers of held check-ins that the coordinator has ended.
    async fn call_held(&mut self, all: bool) {
        let candidates = self.world.app().fleet.lobby.candidates(&"devices".parse().unwrap());
        for client in 0..self.players.len() {
            let player = &mut self.players[client];
            let At::Held { until_ms, .. } = &player.at else { continue };
            let sits = candidates.iter().any(|candidate| Some(candidate.client) == player.id);
            if sits && *until_ms > self.now_ms() && !all {
                continue;
            }
            let player = &mut self.players[client];
            let At::Held { call, reply, .. } = std::mem::replace(&mut player.at, At::Home) else { continue };
            let reply = within_reason(reply).await.unwrap().unwrap();
            self.answer(client, call, Fate::Arrives, &reply).await;
        }
    }

    async fn repeat_upload(&mut self, client: usize) {
        let Some(upload) = self.players[client].last_upload.clone() else { return };
        let what = what(&upload);
        let reply = within_reason(arrive(self.http.clone(), upload)).await.unwrap();
        self.ledger.lock().unwrap().answered(client, &what, &reply);
    }

    async fn advance(&mut self, by_ms: i64) {
        self.world.hand.advance_ms(by_ms);
        self.call_held(false).await;
        for player in &mut self.players {
            player.wake().await;
        }
    }

    async fn drive(&mut self) {
        self.world.drive().await;
        self.driven().await;
    }

    async fn drive_twice(&mut self) {
        if self.other.is_none() {
            self.other = Some(self.world.open_coordinator().await);
        }
        let apps = [self.world.app(), self.other.as_ref().unwrap().app()].map(Arc::clone);
        let drivers = apps.map(|app| tokio::spawn(async move { app.driver().run_once().await }));
        for driver in drivers {
            within_reason(driver).await.unwrap().unwrap();
        }
        // The other one cannot call those whom it drew: time passes, or the next look of this one finds them.
        self.driven().await;
    }

    /// After a driver's turn nothing is overdue.
    async fn driven(&mut self) {
        let now_ms = self.now_ms();
        let mut tx = self.world.app().db.read().await.unwrap();
        let (open, work) = (tx.open_rounds(self.job).await.unwrap(), tx.open_work(self.job).await.unwrap());
        drop(tx);
        for round in open {
            let overdue = match round.phase {
                // It waits until the job continues.
                Phase::Selecting if round.is_buffer() && self.is_paused().await => false,
                Phase::Selecting => round.opened_at_ms + SELECTION_MS <= now_ms,
                // Its assignments have deadlines of their own.
                Phase::Training if round.is_buffer() => work.is_some_and(|work| work.ends_at_ms <= now_ms),
                Phase::Training => round.deadline_at_ms.is_none_or(|deadline_at_ms| deadline_at_ms <= now_ms),
                _ => true,
            };
            assert!(!overdue, "the driver left this round: {round:?}");
        }
        self.call_held(false).await;
    }

    async fn is_paused(&self) -> bool {
        self.world.job_now(self.job).await.head.state == JobState::Paused
    }

    async fn restart(&mut self) {
        self.world.restart().await;
        self.call_held(true).await;
    }

    async fn operate(&mut self, verb: &str) {
        // A job that has been stopped refuses; nothing else about it is of interest here.
        self.world.operate(Method::POST, &format!("/jobs/{}/{verb}", self.job), &json!({})).await;
    }

    async fn check(&self) {
        Ledger::check(&self.ledger, self.world.app(), self.job).await;
    }

    fn now_ms(&self) -> i64 {
        self.world.app().clock.now_ms()
    }

    /// Whatever has happened: once nothing breaks any more, the job makes its next model.
    async fn recover(&mut self) {
        self.operate("resume").await;
        let committed = self.world.job_now(self.job).await.head.rounds_committed;
        for _ in 0..TURNS_MAX {
            let job = self.world.job_now(self.job).await;
            if job.head.state == JobState::Stopped || job.head.rounds_committed > committed {
                return;
            }
            for client in 0..self.players.len() {
                self.work(client).await;
            }
            self.drive().await;
            for client in 0..self.players.len() {
                self.work(client).await;
            }
            self.drive().await;
            self.advance(TURN_MS).await;
            self.check().await;
        }
        panic!("a healthy world makes no model");
    }

    /// Rounds end, whoever has died meanwhile; then the job is stopped and its books are read as operators read them.
    async fn end(mut self) {
        for player in &mut self.players {
            player.kill().await;
        }
        for _ in 0..2 {
            self.advance(SELECTION_MS.max(DEADLINE_MS)).await;
            self.drive().await;
            self.check().await;
        }
        self.operate("stop").await;
        self.drive().await;
        self.check().await;
        let db = &self.world.app().db;
        assert!(db.read().await.unwrap().open_rounds(self.job).await.unwrap().is_empty());
        self.ledger.lock().unwrap().no_faults();
        let ledger = std::mem::take(&mut *self.ledger.lock().unwrap());
        ledger.check_versions(self.world.app(), self.job).await;
        self.world.check_books(self.job).await;
        if let Some(other) = self.other {
            other.app().db.close().await;
        }
        self.world.stop().await;
    }
}
