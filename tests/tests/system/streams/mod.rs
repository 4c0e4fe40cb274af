//! Bodies that are never whole in memory: models and updates of a million parameters.

mod concurrent;
mod large;
mod resumed;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_engine::aggregate::{Accumulator, Sgd, advance, step};
use tributary_protocol::device::Assignment;
use tributary_protocol::digest::repr_digest;
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::state::Task;
use tributary_server::db::{RoundKey, Tx};
use tributary_server::updates::sums::SharedSum;

use crate::support::{Answer, Device, World, figures, postgres, within_reason};

/// Parameters of the large model; its file has four parts.
const PARAMETERS: usize = 1_000_037;

/// Changes of a job file that make its model large.
fn large(changes: &[(&str, Value)]) -> Value {
    let mut file = json!({
        "model": { "parameters": [{ "name": "w", "shape": [1000, 1000] }, { "name": "b", "shape": [37] }] },
    });
    for (key, change) in changes {
        file[*key] = change.clone();
    }
    file
}

fn goal(updates: u32) -> Value {
    large(&[("round", json!({ "updates_goal": updates, "updates_min": 1 }))])
}

/// A delta without a pattern that a mistake could hide behind.
fn delta(seed: u32) -> Vec<f32> {
    let value = |index: u32| (index.wrapping_mul(2_654_435_761).wrapping_add(seed) % 4_001) as f32 / 1_000.0 - 2.0;
    (0..PARAMETERS as u32).map(value).collect()
}

/// The coordinator's three places for bodies: SQLite, PostgreSQL, files beside SQLite.
pub(crate) async fn places() -> Vec<World> {
    let mut places = vec![World::start_on_sqlite().await];
    if let Some(database) = postgres().await {
        places.push(World::start_on(database).await);
    }
    places.push(World::start_with_files().await);
    places
}

fn key(job: JobId, number: u32) -> RoundKey {
    RoundKey { job, task: Task::Train, number }
}

fn sum(world: &World, job: JobId, number: u32) -> SharedSum {
    world.app().updates.sums.get(key(job, number), None).expect("the round is summed up")
}

/// Adds a whole update from this many examples.
fn fold(sum: &Accumulator, delta: &[f32], examples: u32) {
    let weight = Weight::examples(examples);
    sum.add(0, delta, weight);
    sum.count(Contribution::of_one(weight)).unwrap();
}

/// The weights after a round of plain federated averaging.
fn averaged(base: &[f32], sum: &Accumulator) -> Vec<f32> {
    let step = step(&Sgd::plain(1.0), sum, 0..base.len(), &mut []).unwrap();
    advance(base, &step, 0).unwrap()
}

fn copy(sum: &SharedSum) -> Accumulator {
    sum.accumulator().clone()
}

/// Waits for something that the coordinator does by itself.
async fn until(mut happened: impl FnMut() -> bool) {
    let waiting = async {
        while !happened() {
            tokio::task::yield_now().await;
        }
    };
    within_reason(waiting).await;
}

/// Rows that tell of bodies in parts, and parts that are stored.
pub(crate) async fn left(world: &World) -> (i64, i64) {
    let rows = "select count(*) from staged_bodies where blob is null";
    let parts = "select (select count(*) from blob_chunks where blob in (select id from staged_bodies where blob is null)) \
                 + (select count(*) from objects where blob like 'staged/%' and not exists \
                 (select 1 from staged_bodies s where s.blob is not null and objects.blob like s.id || '/%'))";
    match &mut world.app().db.read().await.unwrap() {
        Tx::Sqlite(tx) => (
            sqlx::query_as::<_, (i64,)>(rows).fetch_one(&mut ***tx).await.unwrap().0,
            sqlx::query_as::<_, (i64,)>(parts).fetch_one(&mut ***tx).await.unwrap().0,
        ),
        Tx::Postgres(tx) => (
            sqlx::query_as::<_, (i64,)>(rows).fetch_one(&mut ***tx).await.unwrap().0,
            sqlx::query_as::<_, (i64,)>(parts).fetch_one(&mut ***tx).await.unwrap().0,
        ),
    }
}

impl Device {
    /// Sends a whole update and says what it will be.
    async fn put_digested(&self, id: AssignmentId, body: &[u8]) -> Answer {
        let request = self.request(reqwest::Method::PUT, &format!("/assignments/{id}/update")).query(&figures(10));
        let digest = repr_digest(Sha256Hash::of(body));
        Answer::to(request.header("Repr-Digest", digest).body(body.to_vec())).await
    }

    /// Asks how much of an update is there.
    async fn offset(&self, id: AssignmentId) -> Answer {
        Answer::to(self.request(reqwest::Method::HEAD, &format!("/assignments/{id}/update"))).await
    }

    /// Goes on with an update at a byte; `whole` is what the digest says.
    async fn patch(&self, id: AssignmentId, offset: usize, body: &[u8], whole: &[u8]) -> Answer {
        self.patch_part(id, offset, body, whole, "?1").await
    }

    async fn patch_part(&self, id: AssignmentId, offset: usize, body: &[u8], whole: &[u8], complete: &str) -> Answer {
        let request = self.request(reqwest::Method::PATCH, &format!("/assignments/{id}/update")).query(&figures(10));
        let request = request
            .header("Content-Type", "application/partial-upload")
            .header("Upload-Offset", offset.to_string())
            .header("Upload-Complete", complete)
            .header("Repr-Digest", repr_digest(Sha256Hash::of(whole)));
        Answer::to(request.body(body.to_vec())).await
    }
}

/// An upload of which only some bytes have been sent.
struct Half {
    connection: TcpStream,
}

impl Half {
    async fn send(world: &World, device: &Device, assignment: &Assignment, body: &[u8], bytes: usize) -> Self {
        Self::begin(world, device, assignment, body, ("PUT", "", 0..bytes)).await
    }

    /// The same of an update whose beginning is stored: the request announces the whole rest.
    async fn go_on(
        world: &World,
        device: &Device,
        assignment: &Assignment,
        body: &[u8],
        range: std::ops::Range<usize>,
    ) -> Self {
        let offset = range.start;
        let headers =
            format!("Content-Type: application/partial-upload\r\nUpload-Offset: {offset}\r\nUpload-Complete: ?1\r\n");
        Self::begin(world, device, assignment, body, ("PATCH", &headers, range)).await
    }

    async fn begin(
        world: &World,
        device: &Device,
        assignment: &Assignment,
        body: &[u8],
        (method, headers, range): (&str, &str, std::ops::Range<usize>),
    ) -> Self {
        let mut connection = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "{method} /device/v1/assignments/{}/update?weight=10&loss=0.5&steps=3&train_ms=12 HTTP/1.1\r\nHost: {}\r\n\
             Authorization: Bearer {}\r\n{headers}Content-Length: {}\r\nRepr-Digest: {}\r\n\r\n",
            assignment.id,
            world.address,
            device.secret,
            body.len() - range.start,
            repr_digest(Sha256Hash::of(body))
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        within_reason(connection.write_all(&body[range])).await.unwrap();
        Self { connection }
    }

    /// The first line of the answer, or nothing.
    async fn answer(mut self) -> String {
        let mut answer = Vec::new();
        let _ = within_reason(self.connection.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }

    /// Hangs up.
    async fn break_off(mut self) {
        self.connection.shutdown().await.unwrap();
        self.answer().await;
    }
}
