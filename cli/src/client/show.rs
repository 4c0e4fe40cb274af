//! `tributary client show`: one client, and what became of its latest assignments.

use serde_json::json;
use tributary_protocol::device::Consent;
use tributary_protocol::id::ClientId;
use tributary_protocol::operator::{Client, HeldRelease, PageQuery};

use super::list::{attributes, sdk};
use crate::api::Api;
use crate::error::CliError;
use crate::format::{bytes, duration_ms, or_dash, relative, timestamp};
use crate::output::{self, Output};

/// Assignments that are shown.
const LATEST: u32 = 20;

pub(super) async fn run(id: ClientId, api: &Api, output: &Output) -> Result<(), CliError> {
    let client = api.client(id).await?;
    let page = PageQuery { limit: Some(LATEST), after: None };
    let assignments = api.client_assignments(id, page).await?.items;
    output.object(&json!({ "client": &client, "assignments": &assignments }), || {
        let header = ["job", "round", "task", "state", "reason", "worked", "up", "assigned"];
        let rows = assignments.iter().map(|assigned| {
            let assignment = &assigned.assignment;
            vec![
                assigned.job.to_string(),
                assigned.round.to_string(),
                assigned.task.to_string(),
                assignment.state.to_string(),
                assignment.reason.clone().unwrap_or_default(),
                or_dash(assignment.work_ms, duration_ms),
                bytes(assignment.traffic.bytes_up),
                relative(assignment.assigned_at_ms, output.now_ms),
            ]
        });
        let fields = output::fields(&pairs(&client, output.now_ms), output.width);
        if assignments.is_empty() {
            return format!("{fields}\n\nno assignment yet");
        }
        format!("{fields}\n\n{}", output.coloured(output::table(&header, rows, output.width)))
    })
}

fn pairs(client: &Client, now_ms: i64) -> Vec<(&'static str, String)> {
    let standing = match &client.standing_reason {
        Some(reason) => format!("{} ({reason})", client.standing),
        None => client.standing.to_string(),
    };
    vec![
        ("id", client.id.to_string()),
        ("number", client.number.to_string()),
        ("population", client.population.to_string()),
        ("standing", standing),
        ("sdk", sdk(client)),
        ("consent", client.consent.as_ref().map_or("(none told)".to_owned(), consent)),
        ("releases", releases(client)),
        ("attributes", attributes(&client.attributes)),
        ("examples", client.examples.to_string()),
        ("reported", client.reported.to_string()),
        ("late", client.expired.to_string()),
        ("failed", client.failed.to_string()),
        ("enrolled", timestamp(client.created_at_ms)),
        ("certificate", certificate(client.certificate_until_ms, now_ms)),
        ("seen", relative(client.last_seen_at_ms, now_ms)),
    ]
}

fn releases(client: &Client) -> String {
    let text = |held: &HeldRelease| {
        let HeldRelease { channel, number, job_name, version, .. } = held;
        format!("{channel} {number} ({job_name} version {version})")
    };
    match client.releases.is_empty() {
        true => "(none)".to_owned(),
        false => client.releases.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

fn consent(Consent { text, given_at_ms }: &Consent) -> String {
    format!("{text}, given {}", timestamp(*given_at_ms))
}

fn certificate(until_ms: Option<i64>, now_ms: i64) -> String {
    match until_ms {
        None => "(none)".to_owned(),
        Some(until_ms) if until_ms < now_ms => format!("expired at {}", timestamp(until_ms)),
        Some(until_ms) => format!("until {}", timestamp(until_ms)),
    }
}
