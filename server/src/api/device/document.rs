//! The calls of the device API, for the OpenAPI document.

use tributary_protocol::device::{
    AssignmentStatus, CheckInRequest, CheckInResponse, EnrolRequest, EnrolResponse, EvaluationReport, FailureReport,
    ReportAccepted, UpdateQuery,
};

use crate::api::openapi::{BYTES, Bearer, Call, Part, get, post, put};

/// The device API.
pub(in crate::api) fn part() -> Part {
    let enrol = post("/clients", "enrol", "Enrols a client.")
        .takes::<EnrolRequest>()
        .answers::<EnrolResponse>(200, "The client with its secret, which is shown this once.");
    let own = own().into_iter().map(|call| (Bearer::Client, call));
    Part {
        tag: "device",
        description: "What SDKs use.",
        prefix: "/device/v1",
        calls: std::iter::once((Bearer::Enrolment, enrol)).chain(own).collect(),
    }
}

fn own() -> Vec<Call> {
    vec![
        post(
            "/checkins",
            "checkIn",
            "Says that the client is available; held for at most `wait_ms` until there is work.",
        )
        .takes::<CheckInRequest>()
        .answers::<CheckInResponse>(200, "Work, or when to come back."),
        get("/jobs/{job}/models/{version}", "fetchModel", "A model version as a safetensors file.")
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .nothing(304, "What is there already is right."),
        get("/assignments/{assignment}", "assignmentStatus", "Whether the round still wants this client's report.")
            .answers::<AssignmentStatus>(200, "It does, or has it."),
        put("/assignments/{assignment}/update", "sendUpdate", "Sends an update; the same bytes again are no error.")
            .query::<UpdateQuery>()
            .takes_raw(BYTES)
            .answers::<ReportAccepted>(200, "It is stored and counts."),
        put("/assignments/{assignment}/evaluation", "sendEvaluation", "Sends what was measured.")
            .takes::<EvaluationReport>()
            .answers::<ReportAccepted>(200, "It is stored and counts."),
        post("/assignments/{assignment}/failure", "giveUp", "Says that the client gives up, and why.")
            .takes::<FailureReport>()
            .answers::<ReportAccepted>(200, "Noted."),
    ]
}
