//! What a history is made of: a job, some clients, and what happens to them, all drawn from one seed.

use tributary_protocol::seed::{Seed, Stream};

/// Fewest operations of a drawn history.
const OPS_MIN: u64 = 30;
/// Most operations of a drawn history.
const OPS_MAX: u64 = 70;

/// What a history starts with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) clients: usize,
    pub(super) updates_goal: u32,
    pub(super) updates_min: u32,
    /// Clients drawn per update of the goal.
    pub(super) over_selection: f64,
    /// Whether each new model is measured too.
    pub(super) evaluated: bool,
    /// Whether clients that have the last model fetch the step from it.
    pub(super) delta: bool,
    /// Whether updates are so long that they are folded as they come, and continue where they broke off.
    pub(super) large: bool,
    /// Most clients at work in a buffered job, whose buffer is the goal; none: rounds have cohorts.
    pub(super) concurrency: Option<u32>,
    /// Of a stale-synchronous job, whose members are the concurrency.
    pub(super) slack: Option<u32>,
}

/// One thing that happens. Clients are numbered from 0; a client without a session begins one where it needs one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    /// A client's session continues by one request: it is sent, or arrives, or its retry pause ends.
    Step(usize),
    /// A client's session goes on (and ends, and the next one begins) until a check-in has arrived: then it is held, or
    /// has work.
    CheckIn(usize),
    /// A client's session continues until it ends or is held: with work, it trains and uploads.
    Work(usize),
    /// Every client does what it has to do and checks in; then the driver looks.
    Gather,
    /// A client's next request never arrives.
    LoseRequest(usize),
    /// A client's next request arrives; the answer does not come back.
    LoseResponse(usize),
    /// A client's session continues until its next request is an upload, or it ends or is held.
    ToUpload(usize),
    /// The same; of the upload this many eighths arrive, fewer than eight, and then the connection breaks.
    BreakUpload(usize, u32),
    /// A client's process is killed. The coordinator does not notice, and goes on holding what it holds.
    KillClient(usize),
    /// The network delivers a client's last upload again: twice, late, or from a past round.
    RepeatUpload(usize),
    /// The clock moves on by this many milliseconds, for the coordinator and the clients.
    AdvanceTime(i64),
    /// The driver does all that there is to do now.
    DriverOnce,
    /// The same, and the driver of another coordinator on the same database does it at the same time.
    TwoDrivers,
    /// The coordinator stops and another one starts: all that was in memory is gone.
    RestartServer,
    PauseJob,
    ResumeJob,
    StopJob,
}

impl Setup {
    fn draw(stream: &mut Stream) -> Self {
        let clients = 2 + stream.below(3);
        let goal = 1 + stream.below(clients.min(3));
        Self {
            clients: clients as usize,
            updates_goal: goal as u32,
            updates_min: 1 + stream.below(goal) as u32,
            over_selection: if stream.below(2) == 0 { 1.0 } else { 1.5 },
            evaluated: stream.below(4) == 0,
            delta: stream.below(3) == 0,
            large: stream.below(16) == 0,
            concurrency: None,
            slack: None,
        }
    }
}

impl Op {
    fn draw(stream: &mut Stream, clients: usize) -> Self {
        let client = stream.below(clients as u64) as usize;
        match stream.below(400) {
            0..74 => Self::Step(client),
            74..80 => Self::ToUpload(client),
            80..130 => Self::CheckIn(client),
            130..205 => Self::Work(client),
            205..245 => Self::Gather,
            245..257 => Self::LoseRequest(client),
            257..272 => Self::LoseResponse(client),
            272..284 => Self::BreakUpload(client, stream.below(8) as u32),
            284..298 => Self::KillClient(client),
            298..312 => Self::RepeatUpload(client),
            312..340 => Self::AdvanceTime([1, 500, 1_000, 3_000, 8_000, 10_000][stream.below(6) as usize]),
            340..375 => Self::DriverOnce,
            375..385 => Self::TwoDrivers,
            385..393 => Self::RestartServer,
            393..394 => Self::PauseJob,
            394..399 => Self::ResumeJob,
            _ => Self::StopJob,
        }
    }
}

/// The history of a seed.
pub(super) fn draw(seed: Seed) -> (Setup, Vec<Op>) {
    let mut stream = seed.derive("history", 0).stream();
    let mut buffered = seed.derive("buffered", 0).stream();
    let concurrency = (buffered.below(2) == 0).then(|| 1 + buffered.below(4) as u32);
    let mut clocked = seed.derive("clocked", 0).stream();
    let slack = (concurrency.is_some() && clocked.below(2) == 0).then(|| clocked.below(3) as u32);
    let setup = Setup { concurrency, slack, ..Setup::draw(&mut stream) };
    let length = OPS_MIN + stream.below(OPS_MAX - OPS_MIN + 1);
    (setup, (0..length).map(|_| Op::draw(&mut stream, setup.clients)).collect())
}
