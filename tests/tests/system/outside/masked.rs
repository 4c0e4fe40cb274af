//! Secure aggregation written twice: in Rust, and in Python from `docs/protocol.md`. Members of both kinds open the sum
//! of one group, which neither could if a single byte of a key, a mask or a share were another one.

use std::path::PathBuf;
use std::process::Command;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tributary_client::Outcome;
use tributary_client::secure::{GroupTrust, Member, Terms, system_entropy};
use tributary_protocol::device::{Assignment, CheckInResponse};
use tributary_protocol::operator::{GroupProgress, Job, RoundDetail, RoundGroup};
use tributary_protocol::secure::messages::{Formed, Inbox};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::state::{GroupStage, Phase};

use super::Listening;
use super::app::create;
use super::client::{CLASSES, Examples, FEATURES, MODULES, averaged_by, client, distance, job_file, session};
use crate::support::{Answer, Device, output, python, within_reason};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/secure_vectors.py");
const MEMBERS: usize = 5;
/// Updates of a group count alike, so the clients have as many examples each.
const EXAMPLES: usize = 30;

/// A job whose only round is one group. Steps of rounding are so fine that the mean shows each client.
fn masked_job(members: usize, hidden: usize, learning_rate: f64) -> Value {
    let mut file = job_file();
    file["model"]["layers"][0]["out_features"] = hidden.into();
    file["training"]["optimizer"]["learning_rate"] = learning_rate.into();
    file["round"]["updates_goal"] = members.into();
    file["aggregation"] = json!({ "combine": "uniform_mean" });
    file["secure_aggregation"] = json!({ "clip": 4.0, "levels": 4096 });
    file.as_object_mut().unwrap().remove("update");
    file
}

/// A group of clients in Python and of the SDK, each with a folder and examples of its own.
struct Clients {
    python: PathBuf,
    listening: Listening,
    tables: Vec<Examples>,
}

impl Clients {
    /// None where Python is missing.
    async fn of(count: usize) -> Option<Self> {
        let python = python(MODULES)?;
        let tables = (0..count).map(|client| Examples::draw(EXAMPLES, client as u64)).collect();
        Some(Self { python, listening: Listening::start().await, tables })
    }

    fn directory(&self, place: usize) -> PathBuf {
        let directory = self.listening.directory.path().join(place.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    /// The first clients in Python, the others with the SDK: one session each, in which all of them contribute.
    async fn contribute(&self, in_python: usize, chunk_bytes: usize) {
        let (theirs, ours) = self.tables.split_at(in_python);
        let theirs = theirs.iter().enumerate().map(async |(place, table)| {
            let by = (self.python.as_path(), self.listening.enrolment.as_str());
            let output = output(client(by, &self.listening, &self.directory(place), table, chunk_bytes)).await;
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        let ours = ours.iter().enumerate().map(async |(place, table)| {
            let outcome = session(&self.listening, &self.directory(in_python + place), table).await;
            assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
        });
        tokio::join!(join_all(theirs), join_all(ours));
    }

    /// Checks that the model has become the mean of these clients, and not that of all but the first.
    async fn check_mean(&self, job: &Job, file: &Value, tolerance: f64) {
        let model = async |version| self.listening.model(job.head.id, version).await;
        let (before, after) = (model(0).await, model(1).await);
        let mean_of = |tables: &[Examples]| averaged_by(file, &before, &tables.iter().collect::<Vec<_>>());
        let error = distance(&after, &mean_of(&self.tables));
        assert!(error < tolerance, "the model is {error} away from the mean of the clients");
        let without = distance(&after, &mean_of(&self.tables[1..]));
        assert!(without > 10.0 * tolerance, "the share of the first client is no more than {without}");
    }

    /// The only group, after the round.
    async fn group(&self, job: &Job) -> RoundGroup {
        self.listening.until_completed(job.head.id).await;
        let detail: RoundDetail = self.listening.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
        let [group] = <[RoundGroup; 1]>::try_from(detail.groups).unwrap();
        assert_eq!((detail.round.phase, group.stage), (Phase::Committed, GroupStage::Summed), "{group:?}");
        group
    }
}

/// Takes part until it has shared its secrets, and is lost then.
async fn leave_after_sharing(listening: &Listening) {
    let secret = listening.enrolment.split("_ca_").next().unwrap();
    let enrol = listening.http.post(format!("{}/device/v1/clients", listening.url())).bearer_auth(secret);
    let enrolled = Answer::to(enrol.json(&json!({}))).await.ok();
    let device = Device::new(listening.http.clone(), listening.url(), &enrolled).holding(EXAMPLES as u64);
    let CheckInResponse::Assigned(assignment) = device.check_in(60_000).await else { panic!("there is no work") };
    let mut member = Member::join(terms(&assignment), &[], &mut system_entropy).unwrap();
    let call = async |path: &str, body: Vec<u8>| {
        let path = format!("/assignments/{}/{path}", assignment.id);
        Answer::to(device.request(Method::PUT, &path).body(body)).await.body
    };
    let formed = Formed::from_bytes(&call("group", member.record().to_vec()).await).unwrap();
    let shares = member.formed(&formed, None, &mut system_entropy).unwrap();
    let inbox = Inbox::from_bytes(&call("group/shares", shares).await).unwrap();
    assert!(member.inbox(&inbox, None).unwrap().damaged.is_empty());
    device.fail(assignment.id, "interrupted").await.value();
}

fn terms(assignment: &Assignment) -> Terms {
    let masking = assignment.plan.masking.unwrap();
    let values = assignment.plan.model.parameters().unwrap().total();
    let quantiser = Quantiser::new(values, masking.clip, masking.levels, masking.keep).unwrap();
    Terms {
        job: assignment.job,
        round: assignment.round.into(),
        model: assignment.model_sha256,
        plan: assignment.plan.hash(),
        length: quantiser.coordinates(),
        trust: GroupTrust::Honest,
        members_min: masking.group_min as u16,
        survivors_min: 0,
        degree_min: 2,
        dropouts: masking.dropouts,
        corrupt: masking.corrupt,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_vectors_of_the_protocol_hold_in_python() {
    let Some(python) = python(MODULES) else { return };
    let mut command = Command::new(python);
    command.args(["-B", VECTORS]);
    let output = output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "64 vectors");
}

/// The model has more values than one block of the rotation: they are spread, and the last block is padded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_python_and_of_the_sdk_open_the_sum_of_their_group() {
    let Some(clients) = Clients::of(MEMBERS).await else { return };
    let hidden = 15_000;
    let values = hidden * (FEATURES + 1) + CLASSES * (hidden + 1);
    assert!(values > 65_536 && !values.is_power_of_two(), "{values}");
    let file = masked_job(MEMBERS, hidden, 0.02);
    let job = create(&clients.listening, &file).await;
    within_reason(clients.contribute(2, 100_000)).await;
    let group = clients.group(&job).await;
    // The shares of the last ones may not have been needed.
    let is_here = |came| matches!(came, GroupProgress::Masked | GroupProgress::Opened);
    assert!(group.members.iter().all(|member| is_here(member.came)), "{group:?}");
    clients.check_mean(&job, &file, 2e-5).await;
    clients.listening.stop().await;
}

/// Members that kept other values than the coordinator would send updates of another length, which are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_both_sends_the_same_part_of_its_values() {
    let Some(clients) = Clients::of(3).await else { return };
    let mut file = masked_job(3, 200, 0.5);
    file["secure_aggregation"]["keep"] = json!(0.5);
    let job = create(&clients.listening, &file).await;
    within_reason(clients.contribute(2, 1 << 20)).await;
    assert_eq!(clients.group(&job).await.members.len(), 3);
    clients.listening.stop().await;
}

/// Goal: clients in Python add the noise of a plan. Method: a group of Python alone; the model is away from the mean of
/// the clients by the noise of five members of which four were counted on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_python_add_the_noise_of_their_plan() {
    let (noise, clip) = (0.5, 4.0);
    let Some(clients) = Clients::of(MEMBERS).await else { return };
    let mut file = masked_job(MEMBERS, 100, 0.5);
    file["secure_aggregation"] = json!({ "levels": 64 });
    file["stop"] = json!({ "rounds": 1 });
    file["privacy"] = json!({
        "epsilon": 100.0, "delta": 1e-6, "mechanism": "distributed", "noise_multiplier": noise, "clip": clip,
    });
    let job = create(&clients.listening, &file).await;
    within_reason(clients.contribute(MEMBERS, 1 << 20)).await;
    assert_eq!(clients.group(&job).await.members.len(), MEMBERS);
    let model = async |version| clients.listening.model(job.head.id, version).await;
    let (before, after) = (model(0).await, model(1).await);
    let mean = averaged_by(&file, &before, &clients.tables.iter().collect::<Vec<_>>());
    let squares: f64 = after.values().iter().zip(&mean).map(|(got, mean)| (f64::from(*got) - mean).powi(2)).sum();
    let deviation = (squares / mean.len() as f64).sqrt();
    let wanted = noise * clip * (MEMBERS as f64 / 4.0).sqrt() / MEMBERS as f64;
    assert!((deviation / wanted - 1.0).abs() < 0.15, "{deviation} is not {wanted}");
    clients.listening.stop().await;
}

/// Goal: the shares of a client in Python take the masks of a lost member off the sum. Method: three shares are needed,
/// and only one of the four members that are left is not in Python.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_python_take_off_the_masks_of_a_lost_member() {
    let Some(clients) = Clients::of(MEMBERS - 1).await else { return };
    let file = masked_job(MEMBERS, 8, 0.5);
    let job = create(&clients.listening, &file).await;
    within_reason(async { tokio::join!(clients.contribute(3, 300), leave_after_sharing(&clients.listening)) }).await;
    let group = clients.group(&job).await;
    let lost = group.members.iter().filter(|member| member.came == GroupProgress::Lost).count();
    assert_eq!((group.members.len(), lost), (MEMBERS, 1), "{group:?}");
    clients.check_mean(&job, &file, 1e-3).await;
    clients.listening.stop().await;
}
