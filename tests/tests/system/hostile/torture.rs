//! One offender per round beside two honest clients: whatever it sends, the round commits with the honest updates, and
//! the offender is named with its reason.

use std::pin::Pin;

use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_protocol::body::shrink;
use tributary_protocol::device::Assignment;
use tributary_protocol::operator::{AuditEntry, Client, Page};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, AuditAction, Phase};

use crate::support::{Answer, Device, WEIGHTS, World, bytes_of_tensors, delta_file, figures, within_reason};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// What an attack knows.
struct Scene<'a> {
    world: &'a World,
    offender: &'a Device,
    /// The offender's own assignment.
    work: &'a Assignment,
    /// An honest client's assignment of the same round.
    others: &'a Assignment,
    /// An update that was accepted in the round before.
    accepted_before: &'a [u8],
}

impl Scene<'_> {
    async fn put(&self, body: Vec<u8>) -> Answer {
        self.offender.put_update(self.work.id, &figures(10), body).await
    }

    async fn put_with(&self, figure: &str, value: &str) -> Answer {
        let mut figures = figures(10);
        figures[figure] = value.into();
        self.offender.put_update(self.work.id, &figures, delta_file(self.work, &STEP)).await
    }

    /// An update of these tensors, whose metadata are right but for `changed`.
    async fn put_tensors(&self, tensors: &[(&str, &[usize], &[f32])], changed: (&str, &str)) -> Answer {
        let (job, base) = (self.work.job.to_string(), self.work.model_version.to_string());
        let metadata = [
            ("format", "tributary-update-1"),
            ("codec", "f32"),
            ("job", job.as_str()),
            ("base_version", base.as_str()),
        ];
        let metadata = metadata.map(|(key, value)| if key == changed.0 { changed } else { (key, value) });
        self.put(bytes_of_tensors(tensors, &metadata)).await
    }
}

type Attack = for<'a> fn(&'a Scene<'a>) -> Pin<Box<dyn Future<Output = Answer> + 'a>>;

/// How the offender is named.
#[derive(Clone, Copy)]
enum Named {
    /// Its assignment is rejected, with this in the reason.
    Rejected(&'static str),
    /// The audit log has the refusal.
    Audited,
}
use Named::{Audited, Rejected};

struct Row {
    what: &'static str,
    attack: Attack,
    refused: ProblemType,
    named: Named,
}

fn row(what: &'static str, attack: Attack, refused: ProblemType, named: Named) -> Row {
    Row { what, attack, refused, named }
}

fn rejected(what: &'static str, reason: &'static str, attack: Attack) -> Row {
    row(what, attack, ProblemType::UpdateRejected, Rejected(reason))
}

/// Plays the rows, a round each, in one world.
async fn play(codec: &str, rows: Vec<Row>) {
    let world = World::start().await;
    world.operate(Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    let job = world
        .job(json!({
            "update": { "codec": codec, "norm_max": 5.0 },
            "round": { "updates_goal": 3, "updates_min": 2, "over_selection": 1.0 },
        }))
        .await;
    let read = |device: Device| device.reading(&["f32", "int8"]);
    let honest: [Device; 2] = world.devices().await;
    let [one, other] = honest.map(read);
    let mut accepted_before = Vec::new();
    for (round, Row { what, attack, refused, named }) in (1..).zip(rows) {
        let offender = read(world.device().await);
        let offender = if what.contains("check-in") { offender.holding(3) } else { offender.holding(5_000) };
        let [theirs, ours, too] = world.assign([&offender, &one, &other]).await;
        let scene = Scene {
            world: &world,
            offender: &offender,
            work: &theirs,
            others: &ours,
            accepted_before: &accepted_before,
        };
        let answer = within_reason(attack(&scene)).await;
        assert_eq!(answer.status, refused.status(), "{what}: {}", String::from_utf8_lossy(&answer.body));
        answer.refused(refused);
        assert_eq!(world.app().updates.budget.taken(), 0, "{what}: memory is held");
        accepted_before = delta_file(&ours, &STEP);
        one.contribute(&ours, &STEP, 10).await;
        other.contribute(&too, &STEP, 10).await;
        world.pass_ms(10_000).await;
        let ended = world.round(job.head.id, round).await;
        assert_eq!((ended.phase, ended.reported), (Phase::Committed, 2), "{what}");
        let assignments = world.assignments(job.head.id, round).await;
        let named_in_round = assignments.iter().find(|assignment| assignment.client == offender.id).unwrap();
        match named {
            Rejected(part) => {
                let reason = named_in_round.reason.as_deref().unwrap_or_default();
                assert_eq!(named_in_round.state, AssignmentState::Rejected, "{what}: {reason}");
                assert!(reason.contains(part), "{what}: {reason}");
            }
            Audited => {
                assert_ne!(named_in_round.state, AssignmentState::Reported, "{what}");
                let kind = refused.uri().rsplit(':').next().unwrap();
                assert!(
                    is_audited(&world, &actor(&world, &offender).await, kind).await,
                    "{what}: {kind} is not audited"
                );
            }
        }
    }
    world.check_books(job.head.id).await;
}

/// A device as the log names it.
async fn actor(world: &World, device: &Device) -> String {
    let client: Client = world.look(&format!("/clients/{}", device.id)).await.ok();
    format!("client {}", client.number)
}

/// Whether the log names the caller with this refusal. Entries are written after the answer.
async fn is_audited(world: &World, actor: &str, kind: &str) -> bool {
    let looking = async {
        loop {
            let entries: Page<AuditEntry> = world.look("/audit").await.ok();
            let is_it = |entry: &AuditEntry| {
                entry.action == AuditAction::Refusal && entry.actor == actor && entry.subject == kind
            };
            if entries.items.iter().any(is_it) {
                return true;
            }
            tokio::task::yield_now().await;
        }
    };
    within_reason(looking).await
}

#[tokio::test]
async fn wrong_values_and_figures() {
    play(
        "f32",
        vec![
            rejected("NaN", "is not finite", |scene| {
                Box::pin(async move { scene.put(delta_file(scene.work, &[f32::NAN; WEIGHTS])).await })
            }),
            rejected("infinity", "is not finite", |scene| {
                Box::pin(async move { scene.put(delta_file(scene.work, &[f32::INFINITY; WEIGHTS])).await })
            }),
            rejected("minus infinity in the last value", "is not finite", |scene| {
                let mut delta = STEP;
                delta[WEIGHTS - 1] = f32::NEG_INFINITY;
                Box::pin(async move { scene.put(delta_file(scene.work, &delta)).await })
            }),
            rejected("a huge value", "above the largest magnitude of 8", |scene| {
                Box::pin(async move { scene.put(delta_file(scene.work, &[8.5; WEIGHTS])).await })
            }),
            rejected("a huge norm of allowed values", "above the round's largest of 5", |scene| {
                Box::pin(async move { scene.put(delta_file(scene.work, &[7.5; WEIGHTS])).await })
            }),
            rejected("a weight of 0", "the weight is 0", |scene| {
                Box::pin(async move { scene.put_with("weight", "0").await })
            }),
            rejected("a weight above the job's", "above the job's largest, 1000", |scene| {
                Box::pin(async move { scene.put_with("weight", "1001").await })
            }),
            rejected("a weight above the examples of the check-in", "above 3, the number of examples", |scene| {
                Box::pin(async move { scene.put_with("weight", "10").await })
            }),
            row(
                "a weight of 10^12",
                |scene| Box::pin(async move { scene.put_with("weight", "1000000000000").await }),
                ProblemType::Malformed,
                Audited,
            ),
            row(
                "a negative weight",
                |scene| Box::pin(async move { scene.put_with("weight", "-10").await }),
                ProblemType::Malformed,
                Audited,
            ),
            rejected("a loss that is not a number", "the training loss is not finite", |scene| {
                Box::pin(async move { scene.put_with("loss", "NaN").await })
            }),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_weight_above_what_was_told_at_the_draw_is_refused() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await.holding(1);
    let [drawn] = world.assign([&device]).await;
    let boasting = device.holding(10_000);
    let again = boasting.work().await;
    assert_eq!((again.id, drawn.plan.weight_max, again.plan.weight_max), (drawn.id, 1, 1));
    let refused = boasting.put_update(drawn.id, &figures(200), delta_file(&drawn, &STEP)).await;
    let detail = refused.refused(ProblemType::UpdateRejected).detail;
    assert!(detail.contains("above 1, the number of examples that its client told when it was drawn"), "{detail}");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn who_told_no_example_at_the_draw_weighs_one() {
    let world = World::start().await;
    let job = world.job(json!({ "eligibility": { "examples_min": 0 } })).await;
    let device = world.device().await.holding(0);
    let [drawn] = world.assign([&device]).await;
    assert_eq!(drawn.plan.weight_max, 1);
    let refused = device.holding(200).put_update(drawn.id, &figures(200), delta_file(&drawn, &STEP)).await;
    let detail = refused.refused(ProblemType::UpdateRejected).detail;
    assert!(detail.contains("the weight 200 is above 1, the number of examples"), "{detail}");
    world.check_books(job.head.id).await;
}

/// Finding D5: FedNova multiplies by the steps, so one client with a wrong unit moved the model by 5e9.
#[tokio::test]
async fn more_steps_than_the_plan_allows_are_refused_where_they_count() {
    let world = World::start().await;
    let training = json!({ "algorithm": { "kind": "fed_nova" }, "epochs": 2, "batch_size": 4 });
    let round = json!({ "updates_goal": 2, "updates_min": 1 });
    let job = world.job(json!({ "training": training, "round": round })).await;
    let [one, other] = [world.device().await.holding(10), world.device().await.holding(10)];
    let [first, second] = world.assign([&one, &other]).await;
    let with = |steps: u64| {
        let mut figures = figures(10);
        figures["steps"] = steps.into();
        figures
    };
    let refused = one.put_update(first.id, &with(7), delta_file(&first, &STEP)).await;
    let detail = refused.refused(ProblemType::UpdateRejected).detail;
    assert!(detail.contains("7 steps are more than its plan and its client's examples allow, 6"), "{detail}");
    other.put_update(second.id, &with(6), delta_file(&second, &STEP)).await.value();
    world.check_books(job.head.id).await;
}

const W: (&str, &[usize], &[f32]) = ("w", &[2, 2], &[0.5; 4]);
const B: (&str, &[usize], &[f32]) = ("b", &[2], &[0.5; 2]);

#[tokio::test]
async fn wrong_files() {
    play(
        "f32",
        vec![
            rejected("another shape", "\"w\"", |scene| {
                Box::pin(async move { scene.put_tensors(&[("w", &[4], &[0.5; 4]), B], ("", "")).await })
            }),
            rejected("another name", "tensor", |scene| {
                Box::pin(async move { scene.put_tensors(&[("v", &[2, 2], &[0.5; 4]), B], ("", "")).await })
            }),
            rejected("a missing tensor", "\"b\"", |scene| {
                Box::pin(async move { scene.put_tensors(&[W], ("", "")).await })
            }),
            rejected("a tensor too many", "\"c\"", |scene| {
                Box::pin(async move { scene.put_tensors(&[W, B, ("c", &[1], &[0.5])], ("", "")).await })
            }),
            rejected("another codec", "codec", |scene| {
                Box::pin(async move { scene.put_tensors(&[W, B], ("codec", "int8")).await })
            }),
            rejected("another job", "is for job", |scene| {
                Box::pin(
                    async move { scene.put_tensors(&[W, B], ("job", "job_00000000000000000000000000000000")).await },
                )
            }),
            rejected("another base version", "base version", |scene| {
                Box::pin(async move { scene.put_tensors(&[W, B], ("base_version", "7777")).await })
            }),
            rejected("a replay of another client's update of the round before", "base version", |scene| {
                Box::pin(async move { scene.put(scene.accepted_before.to_vec()).await })
            }),
            rejected("a file that ends too early", "", |scene| {
                Box::pin(async move {
                    let mut file = delta_file(scene.work, &STEP);
                    file.pop();
                    scene.put(file).await
                })
            }),
            rejected("a file that goes on", "", |scene| {
                Box::pin(async move {
                    let mut file = delta_file(scene.work, &STEP);
                    file.push(0);
                    scene.put(file).await
                })
            }),
            rejected("a zip bomb", "", |scene| {
                let bomb = shrink(vec![0; 8 << 20]);
                assert!(bomb.len() < 2 << 10, "{} bytes stand for 8 MiB", bomb.len());
                Box::pin(async move { scene.put(bomb).await })
            }),
            rejected("an update within a zip bomb", "", |scene| {
                let mut file = delta_file(scene.work, &STEP);
                file.resize(8 << 20, 0);
                Box::pin(async move { scene.put(shrink(file)).await })
            }),
        ],
    )
    .await;
}

/// Codecs whose scales precede their values read a file from its beginning to its end.
#[tokio::test]
async fn tensors_in_the_wrong_order() {
    play(
        "int8",
        vec![rejected("values before their scales", "must come after", |scene| {
            Box::pin(async move { scene.put(reversed(&delta_file(scene.work, &STEP))).await })
        })],
    )
    .await;
}

/// A safetensors file with its tensors in the opposite order.
fn reversed(file: &[u8]) -> Vec<u8> {
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let begin = |tensor: &Value| tensor["data_offsets"][0].as_u64().unwrap() as usize;
    let mut tensors: Vec<(String, usize, usize)> = header
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, tensor)| (name.clone(), begin(tensor), tensor["data_offsets"][1].as_u64().unwrap() as usize))
        .collect();
    tensors.sort_by_key(|(_, begin, _)| std::cmp::Reverse(*begin));
    let mut moved = Vec::new();
    for (name, begin, end) in tensors {
        header[&name]["data_offsets"] = json!([moved.len(), moved.len() + end - begin]);
        moved.extend_from_slice(&data[begin..end]);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &moved].concat()
}

#[tokio::test]
async fn what_belongs_to_others() {
    play(
        "f32",
        vec![
            row(
                "another client's assignment",
                |scene| {
                    let body = delta_file(scene.others, &STEP);
                    Box::pin(async move { scene.offender.put_update(scene.others.id, &figures(10), body).await })
                },
                ProblemType::Forbidden,
                Audited,
            ),
            row(
                "the failure of another client",
                |scene| Box::pin(async move { scene.offender.fail(scene.others.id, "no_data").await }),
                ProblemType::Forbidden,
                Audited,
            ),
            row("10 GB announced", |scene| Box::pin(announce(scene, 10 << 30)), ProblemType::TooLarge, Audited),
            row(
                "a request after its revocation",
                |scene| {
                    Box::pin(async move {
                        let path = format!("/clients/{}/standing", scene.offender.id);
                        scene.world.operate(Method::PUT, &path, &json!({ "standing": "revoked" })).await.value();
                        scene.put(delta_file(scene.work, &STEP)).await
                    })
                },
                ProblemType::ClientRevoked,
                Audited,
            ),
        ],
    )
    .await;
}

/// Announces a body of this length and sends none of it.
async fn announce(scene: &Scene<'_>, length: u64) -> Answer {
    let mut connection = TcpStream::connect(scene.world.address).await.unwrap();
    let head = format!(
        "PUT /device/v1/assignments/{}/update?weight=10&loss=0.5&steps=3&train_ms=12 HTTP/1.1\r\nHost: x\r\n\
         Authorization: Bearer {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
        scene.work.id, scene.offender.secret
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer).await;
    parsed(&answer)
}

fn parsed(answer: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    Answer { status, headers, body: axum::body::Bytes::copy_from_slice(body.as_bytes()) }
}

#[tokio::test]
async fn a_client_of_another_population_reaches_neither_the_round_nor_its_model() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    world.operate(Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    let honest = world.device().await;
    let [work] = world.assign([&honest]).await;
    let token = world.token("others").await.secret.expose();
    let enrol = world.request(Method::POST, "/device/v1/clients").bearer_auth(&token).json(&json!({}));
    let stranger = Device::new(world.http.clone(), world.server(), &Answer::to(enrol).await.ok());
    let model = format!("/jobs/{}/models/0", job.head.id);
    Answer::to(stranger.request(Method::GET, &model)).await.refused(ProblemType::NotFound);
    let body = delta_file(&work, &STEP);
    stranger.put_update(work.id, &figures(10), body).await.refused(ProblemType::Forbidden);
    stranger.status(work.id).await.refused(ProblemType::Forbidden);
    assert!(is_audited(&world, &actor(&world, &stranger).await, "forbidden").await);
    honest.contribute(&work, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn tokens_that_expired_or_were_revoked_enrol_nobody_and_the_round_goes_on() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let honest = world.device().await;
    let [work] = world.assign([&honest]).await;
    let wanted = json!({ "kind": "enrolment", "population": "devices", "valid_for_ms": 1_000 });
    let expiring: Value = world.operate(Method::POST, "/tokens", &wanted).await.ok();
    let revoked = world.token("devices").await;
    let path = format!("/tokens/{}", revoked.token.id);
    assert_eq!(Answer::to(world.operator_request(Method::DELETE, &path)).await.status, 204);
    world.hand.advance_ms(1_001);
    for secret in [expiring["secret"].as_str().unwrap().to_owned(), revoked.secret.expose()] {
        let enrol = world.request(Method::POST, "/device/v1/clients").bearer_auth(&secret).json(&json!({}));
        Answer::to(enrol).await.refused(ProblemType::Unauthorized);
    }
    assert!(is_audited(&world, "anonymous", "unauthorized").await);
    honest.contribute(&work, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_update_that_is_sent_twice_counts_once() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let [eager, other] = world.devices().await;
    let [work, others] = world.assign([&eager, &other]).await;
    for _ in 0..3 {
        eager.contribute(&work, &STEP, 10).await;
    }
    let another = delta_file(&work, &[0.25; WEIGHTS]);
    eager.put_update(work.id, &figures(10), another).await.refused(ProblemType::UpdateConflict);
    other.contribute(&others, &STEP, 10).await;
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.weight), (Phase::Committed, 2, 20));
    world.check_books(job.head.id).await;
}
