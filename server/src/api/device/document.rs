//! The calls of the device API, for the OpenAPI document.

use tributary_protocol::credential::{CertificateRequest, IssuedCertificate, NewSecret};
use tributary_protocol::device::{
    AssignmentStatus, CheckInReply, CheckInRequest, EnrolRequest, EnrolResponse, EvaluationReport, FailureReport,
    OpenJobs, PARTIAL_UPLOAD, ReportAccepted, StatusQuery, UpdateQuery,
};
use tributary_protocol::download::{FormQuery, ModelForm};
use tributary_protocol::group::messages::{RingAnswer, RingOutcome, RingReady, RingStall};
use tributary_protocol::inputs::Description;
use tributary_protocol::relay::{RelayJobs, ReportQuery, SumQuery};
use tributary_protocol::release::{ChannelAnswer, ReleaseQuery};

use crate::api::openapi::{BYTES, Bearer, Call, Part, delete, get, head, patch, post, put};

const ZSTD: &str = "application/zstd";
const DIGEST: &str = "SHA-256 of the whole update (RFC 9530); an upload that breaks off can go on if it had one.";

pub(in crate::api) fn part() -> Part {
    let enrol = post("/clients", "enrol", "Enrols a client.")
        .takes::<EnrolRequest>()
        .answers::<EnrolResponse>(200, "The client with its secret, which is shown this once.");
    let jobs = get("/jobs", "openJobs", "What the running jobs of the population require of examples.")
        .answers::<OpenJobs>(200, "The running jobs.");
    let own = own().into_iter().map(|call| (Bearer::Client, call));
    Part {
        tag: "device",
        description: "What SDKs use.",
        prefix: "/device/v1",
        calls: [enrol, jobs].into_iter().map(|call| (Bearer::Enrolment, call)).chain(own).collect(),
    }
}

/// The calls of an enrolled client.
fn own() -> Vec<Call> {
    [work(), updates(), parts(), sums(), groups(), rings(), reports()].into_iter().flatten().collect()
}

/// What a client asks for.
fn work() -> Vec<Call> {
    vec![
        post(
            "/checkins",
            "checkIn",
            "Says that the client is available; held for at most `wait_ms` until there is work.",
        )
        .takes::<CheckInRequest>()
        .answers::<CheckInReply>(200, "Work, or when to come back."),
        post("/certificate", "renewCertificate", "Certifies the client's key, where clients may have certificates.")
            .takes::<CertificateRequest>()
            .answers::<IssuedCertificate>(200, "The certificate. The old one stays valid."),
        post("/secret", "renewSecret", "Makes the client's next secret.")
            .answers::<NewSecret>(200, "The secret. The old one works until this one is used."),
        delete("/client", "leave", "Deletes what is stored of the client, which has left.")
            .nothing(204, "It is deleted."),
        get("/jobs/{job}/models/{version}", "fetchModel", "A model version as a safetensors file, in some form.")
            .query::<FormQuery>()
            .knows::<ModelForm>()
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(200, "The file as one zstd frame.", ZSTD)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .answers_raw(206, "The part that was asked for.", ZSTD)
            .nothing(304, "What is there already is right."),
        get("/jobs/{job}/models/{version}/delta", "fetchStep", "The step to a model version from the one before.")
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(200, "The file as one zstd frame.", ZSTD)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .answers_raw(206, "The part that was asked for.", ZSTD)
            .nothing(304, "What is there already is right."),
        get("/jobs/{job}/models/{version}/control", "fetchControl", "SCAFFOLD's control variate of a model version.")
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .nothing(304, "What is there already is right."),
        get("/release", "release", "What a channel has for this client.")
            .query::<ReleaseQuery>()
            .header("If-None-Match", "The SHA-256 of the model's file that the client has, in quotes.")
            .answers::<ChannelAnswer>(200, "Its release, and when to ask again.")
            .nothing(304, "The client has its release; `Tributary-Ask-After-Ms` says when to ask again."),
        get("/releases/{release}/model", "fetchRelease", "The model of a release as a safetensors file.")
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .nothing(304, "What is there already is right."),
        get("/releases/{release}/difference", "fetchDifference", "The 8-bit differences that lead to a release.")
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(200, "The file as one zstd frame.", ZSTD)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .answers_raw(206, "The part that was asked for.", ZSTD)
            .nothing(304, "What is there already is right."),
        get("/assignments/{assignment}", "assignmentStatus", "Whether the round still wants this client's report.")
            .query::<StatusQuery>()
            .answers::<AssignmentStatus>(200, "It does, or has it."),
    ]
}

fn updates() -> Vec<Call> {
    vec![
        put("/assignments/{assignment}/update", "sendUpdate", "Sends an update; the same bytes again are no error.")
            .query::<UpdateQuery>()
            .header("Repr-Digest", DIGEST)
            .header("Upload-Complete", "`?0` when the update does not end with this body.")
            .takes_raw(BYTES)
            .answers::<ReportAccepted>(200, "It is stored and counts.")
            .nothing(204, "This part is stored; `Upload-Offset` says where to go on."),
        patch("/assignments/{assignment}/update", "resumeUpdate", "Goes on with an update that broke off.")
            .query::<UpdateQuery>()
            .header("Repr-Digest", DIGEST)
            .header("Upload-Offset", "Where in the update this body begins, in bytes.")
            .header("Upload-Complete", "`?1` when the update ends with this body, else `?0`.")
            .takes_raw(PARTIAL_UPLOAD)
            .answers::<ReportAccepted>(200, "It is whole, stored and counts.")
            .nothing(204, "This part is stored; `Upload-Offset` says where to go on."),
        head("/assignments/{assignment}/update", "uploadOffset", "How much of an update is here.")
            .nothing(204, "`Upload-Offset` says where to go on, `Upload-Complete: ?1` that it has counted."),
    ]
}

/// A job with shards takes the parts of an update in any order, at any of its coordinators.
fn parts() -> Vec<Call> {
    const PATH: &str = "/assignments/{assignment}/parts/{part}";
    vec![
        put(PATH, "sendPart", "Sends a part of an update in a job with shards; the same bytes again are no error.")
            .query::<UpdateQuery>()
            .header("Repr-Digest", DIGEST)
            .header("Upload-Complete", "`?0` when the part does not end with this body.")
            .takes_raw(BYTES)
            .answers::<ReportAccepted>(200, "It is stored; the update counts once all its parts are.")
            .nothing(204, "This much is stored; `Upload-Offset` says where to go on."),
        patch(PATH, "resumePart", "Goes on with a part that broke off.")
            .query::<UpdateQuery>()
            .header("Repr-Digest", DIGEST)
            .header("Upload-Offset", "Where in the part this body begins, in bytes.")
            .header("Upload-Complete", "`?1` when the part ends with this body, else `?0`.")
            .takes_raw(PARTIAL_UPLOAD)
            .answers::<ReportAccepted>(200, "It is whole and stored.")
            .nothing(204, "This much is stored; `Upload-Offset` says where to go on."),
        head(PATH, "partOffset", "How much of a part is here.")
            .nothing(204, "`Upload-Offset` says where to go on, `Upload-Complete: ?1` that it is whole."),
    ]
}

fn sums() -> Vec<Call> {
    vec![
        put("/relay/jobs", "endedJobs", "Which of the jobs that a relay plays have ended.")
            .takes::<RelayJobs>()
            .answers::<RelayJobs>(200, "Those that have, or that are not here."),
        put("/assignments/{assignment}/sum", "sendSum", "Sends the sum of a relay; the same bytes again are no error.")
            .query::<SumQuery>()
            .header("Repr-Digest", DIGEST)
            .header("Upload-Complete", "`?0` when the sum does not end with this body.")
            .takes_raw(BYTES)
            .answers::<ReportAccepted>(200, "It is stored and counts.")
            .nothing(204, "This part is stored; `Upload-Offset` says where to go on."),
        patch("/assignments/{assignment}/sum", "resumeSum", "Goes on with a sum that broke off.")
            .query::<SumQuery>()
            .header("Repr-Digest", DIGEST)
            .header("Upload-Offset", "Where in the sum this body begins, in bytes.")
            .header("Upload-Complete", "`?1` when the sum ends with this body, else `?0`.")
            .takes_raw(PARTIAL_UPLOAD)
            .answers::<ReportAccepted>(200, "It is whole, stored and counts.")
            .nothing(204, "This part is stored; `Upload-Offset` says where to go on."),
        head("/assignments/{assignment}/sum", "sumOffset", "How much of a sum is here.")
            .nothing(204, "`Upload-Offset` says where to go on, `Upload-Complete: ?1` that it has counted."),
    ]
}

/// What a client whose update is masked says and asks.
fn groups() -> Vec<Call> {
    vec![
        put("/assignments/{assignment}/group", "joinGroup", "Joins with finished work, to add up updates under masks.")
            .takes_raw(BYTES)
            .answers_raw(200, "The group, with the records of the neighbours.", BYTES)
            .nothing(204, "No group has formed yet: ask again."),
        put("/assignments/{assignment}/group/shares", "shareSecrets", "Sends sealed shares of the member's secrets.")
            .takes_raw(BYTES)
            .answers_raw(200, "The shares of the neighbours.", BYTES)
            .nothing(204, "Others have not sent theirs yet: ask again."),
        put("/assignments/{assignment}/group/update", "sendMasked", "Sends a masked update.")
            .header("Repr-Digest", DIGEST)
            .header("Upload-Complete", "`?0` when the update does not end with this body.")
            .takes_raw(BYTES)
            .answers::<ReportAccepted>(200, "It is stored. It counts once the sum of its group is open.")
            .nothing(204, "This part is stored; `Upload-Offset` says where to go on."),
        patch("/assignments/{assignment}/group/update", "resumeMasked", "Goes on with a masked update that broke off.")
            .header("Repr-Digest", DIGEST)
            .header("Upload-Offset", "Where in the update this body begins, in bytes.")
            .header("Upload-Complete", "`?1` when the update ends with this body, else `?0`.")
            .takes_raw(PARTIAL_UPLOAD)
            .answers::<ReportAccepted>(200, "It is whole and stored.")
            .nothing(204, "This part is stored; `Upload-Offset` says where to go on."),
        head("/assignments/{assignment}/group/update", "maskedOffset", "How much of a masked update is here.")
            .nothing(204, "`Upload-Offset` says where to go on, `Upload-Complete: ?1` that it is whole."),
        get("/assignments/{assignment}/group/survivors", "survivors", "The members whose updates are in the sum.")
            .answers_raw(200, "Their number, and a bitmap.", BYTES)
            .nothing(204, "They are not known yet: ask again."),
        put("/assignments/{assignment}/group/agreement", "agree", "Signs who has survived, where members sign.")
            .takes_raw(BYTES)
            .answers_raw(200, "What others have signed.", BYTES)
            .nothing(204, "Too few have signed yet: ask again."),
        put("/assignments/{assignment}/group/unmask", "unmask", "Sends the shares that open the sum.")
            .takes_raw(BYTES)
            .answers::<ReportAccepted>(200, "They are stored."),
    ]
}

/// What a client says whose group adds up among itself.
fn rings() -> Vec<Call> {
    vec![
        put("/assignments/{assignment}/ring", "ringReady", "Joins with finished work the next group that adds up.")
            .takes::<RingReady>()
            .answers::<RingAnswer>(200, "The group, or what to do instead.")
            .nothing(204, "No group has formed yet: ask again."),
        put("/assignments/{assignment}/ring/stall", "ringStall", "Says that a neighbour let the member down.")
            .takes::<RingStall>()
            .nothing(204, "Noted: ask for the next group."),
        put("/assignments/{assignment}/ring/outcome", "ringOutcome", "Says which sum the member has.")
            .takes::<RingOutcome>()
            .answers::<RingAnswer>(200, "What to do with it.")
            .nothing(204, "Others have not said theirs yet: ask again."),
        get("/groups/{group}/links/{rank}", "ringLink", "Connects a member to the next one, where they have no way.")
            .header("Upgrade", "`tributary-link`, over HTTP/1.1.")
            .nothing(101, "Bytes to and from the other member."),
    ]
}

/// What a client reports beside updates.
fn reports() -> Vec<Call> {
    vec![
        put("/assignments/{assignment}/evaluation", "sendEvaluation", "Sends what was measured.")
            .query::<ReportQuery>()
            .takes::<EvaluationReport>()
            .answers::<ReportAccepted>(200, "It is stored and counts."),
        put("/assignments/{assignment}/description", "sendDescription", "Sends the sums of the client's table.")
            .query::<ReportQuery>()
            .takes::<Description>()
            .answers::<ReportAccepted>(200, "They are added to those of the round."),
        post("/assignments/{assignment}/failure", "giveUp", "Says that the client gives up, and why.")
            .takes::<FailureReport>()
            .answers::<ReportAccepted>(200, "Noted."),
    ]
}
