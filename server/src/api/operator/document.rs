//! The calls of the operator API, for the OpenAPI document.

use tributary_protocol::job_file::RoundPolicyChange;
use tributary_protocol::operator::{
    Account, Assignment, AttributeName, AuditQuery, AuditRow, ChangeJob, ChangePassword, ChangeStanding, ClassStats,
    Client, ClientAssignment, ClientOrder, CreateAccount, CreateJob, CreatePopulation, CreateRelease, CreateToken,
    CreatedToken, Curve, Event, Job, JobAnswers, JobDraft, JobPrivacyState, Login, ModelVersion, Node, Order, Outlook,
    Overview, PageQuery, Population, PopulationBudget, Release, Round, RoundDetail, RoundSort, ScalarCurve,
    ScheduledWork, Session, ShapeCount, SharedBudget, SignInWays, SignedIn, StaleClient, System, TestSet, TestSetState,
    Token, WidenRelease,
};
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase, Role, Task};

use super::accounts::SessionsQuery;
use super::audit::JSON_LINES;
use super::clients::{ClassesQuery, ClientsQuery, ShapesQuery};
use super::draft::CreateQuery;
use super::events::EventsQuery;
use super::jobs::JobsQuery;
use super::oidc::CallbackQuery;
use super::overview::OverviewQuery;
use super::people::RevokeQuery;
use super::releases::ReleasesQuery;
use super::rounds::{AssignmentsQuery, CurveQuery, RoundsQuery, TaskQuery};
use super::table::{Format, MetricsQuery};
use crate::api::openapi::{BYTES, Bearer, Call, Part, delete, get, patch, post, put};

const TOML: &str = "application/toml";
const STREAM: &str = "text/event-stream";

pub(in crate::api) fn part() -> Part {
    let calls = [people(), accounts(), jobs(), rounds(), clients(), releases(), system()].into_iter().flatten();
    Part {
        tag: "operator",
        description: "What command line and dashboard use.",
        prefix: "/operator/v1",
        calls: calls.map(|call| (Bearer::Operator, call)).chain(sign_in().map(|call| (Bearer::Nobody, call))).collect(),
    }
}

fn people() -> Vec<Call> {
    vec![
        get("/populations", "populations", "Populations by name.").query::<PageQuery>().page::<Population>("A page."),
        post("/populations", "createPopulation", "Makes a population.")
            .role(Role::Admin)
            .takes::<CreatePopulation>()
            .answers::<Population>(201, "The population."),
        get("/populations/{population}/budget", "populationBudget", "The budget that a population's jobs share.")
            .answers::<PopulationBudget>(200, "The budget and what of it is spent, if there is one."),
        put("/populations/{population}/budget", "setPopulationBudget", "Sets it, or makes it stricter.")
            .role(Role::Admin)
            .takes::<SharedBudget>()
            .answers::<PopulationBudget>(200, "The budget and what of it is spent."),
        get("/tokens", "tokens", "Tokens by id, without their secrets.")
            .role(Role::Admin)
            .query::<PageQuery>()
            .page::<Token>("A page."),
        post("/tokens", "createToken", "Makes an operator or enrolment token.")
            .role(Role::Admin)
            .takes::<CreateToken>()
            .answers::<CreatedToken>(201, "The token with its secret, which is shown this once."),
        delete("/tokens/{token}", "revokeToken", "Makes a token stop working.")
            .role(Role::Admin)
            .query::<RevokeQuery>()
            .nothing(204, "It does not work any more."),
    ]
}

fn accounts() -> Vec<Call> {
    vec![
        get("/accounts", "accounts", "Accounts by name.")
            .role(Role::Admin)
            .query::<PageQuery>()
            .page::<Account>("A page."),
        post("/accounts", "createAccount", "Makes an account.")
            .role(Role::Admin)
            .takes::<CreateAccount>()
            .answers::<Account>(201, "The account."),
        delete("/accounts/{account}", "revokeAccount", "Makes an account stop working, and ends its sessions.")
            .role(Role::Admin)
            .nothing(204, "It does not work any more."),
        put(
            "/accounts/{account}/password",
            "changePassword",
            "Sets the password of an account, and ends its sessions.",
        )
        .role(Role::Admin)
        .takes::<ChangePassword>()
        .nothing(204, "The new password works."),
        get("/accounts/{account}/sessions", "sessions", "The sessions of an account, newest first.")
            .role(Role::Admin)
            .list::<Session>("The sessions."),
        delete("/accounts/{account}/sessions", "endSessions", "Ends the sessions of an account.")
            .role(Role::Admin)
            .nothing(204, "There is none any more."),
        get("/sessions", "providerSessions", "The sessions of a person of the identity provider, newest first.")
            .role(Role::Admin)
            .query::<SessionsQuery>()
            .list::<Session>("The sessions."),
        delete("/sessions", "endProviderSessions", "Ends the sessions of a person of the identity provider.")
            .role(Role::Admin)
            .query::<SessionsQuery>()
            .nothing(204, "There is none any more."),
        get("/me", "me", "Who the credential of the request stands for.").answers::<SignedIn>(200, "The operator."),
        post("/logout", "logout", "Ends the session of the request.")
            .role(Role::Viewer)
            .nothing(204, "The session has ended."),
        post("/logout-everywhere", "logoutEverywhere", "Ends all sessions of the account of the request.")
            .role(Role::Viewer)
            .nothing(204, "The sessions have ended."),
    ]
}

fn sign_in() -> [Call; 4] {
    [
        get("/login", "signInWays", "How people can sign in.").answers::<SignInWays>(200, "The ways."),
        post("/login", "login", "Begins a session of a browser, whose cookie the answer sets.")
            .takes::<Login>()
            .answers::<SignedIn>(200, "The operator."),
        get("/oidc/login", "beginOidc", "Sends a browser to the identity provider.")
            .nothing(303, "The provider's page."),
        get("/oidc/callback", "finishOidc", "Begins the session of a browser that comes back from the provider.")
            .query::<CallbackQuery>()
            .nothing(303, "The dashboard."),
    ]
}

fn jobs() -> Vec<Call> {
    let change = |path, id, summary| post(path, id, summary).answers::<Job>(200, "The job as it is now.");
    vec![
        get("/overview", "overview", "All jobs at a glance.")
            .query::<OverviewQuery>()
            .answers::<Overview>(200, "What the coordinator does now."),
        get("/jobs", "jobs", "Jobs by id.").query::<JobsQuery>().page::<Job>("A page."),
        post("/jobs", "createJob", "Makes a job, or with `dry_run` only says what would come of it.")
            .query::<CreateQuery>()
            .takes::<CreateJob>()
            .takes_raw(TOML)
            .answers::<Job>(201, "The job.")
            .answers::<JobDraft>(200, "What would come of it."),
        get("/jobs/{job}", "job", "A job.").answers::<Job>(200, "The job."),
        patch("/jobs/{job}", "fileJob", "Changes name, tags, notes and archive of a job.")
            .takes::<ChangeJob>()
            .answers::<Job>(200, "The job as it is now."),
        delete("/jobs/{job}", "deleteJob", "Deletes a job that has ended, with its rounds and versions.")
            .role(Role::Admin)
            .nothing(204, "It is deleted."),
        get("/jobs/{job}/file", "jobFile", "The job's file as text.").answers_raw(200, "The file.", TOML),
        patch("/jobs/{job}/round-policy", "changeRoundPolicy", "Changes `[round]` from the next round on.")
            .takes::<RoundPolicyChange>()
            .answers::<Job>(200, "The job as it is now."),
        change("/jobs/{job}/pause", "pauseJob", "Finishes the open round and opens no other."),
        change("/jobs/{job}/resume", "resumeJob", "Goes on with a paused job."),
        change("/jobs/{job}/stop", "stopJob", "Ends a job for good."),
        get("/jobs/{job}/models", "models", "Model versions from the oldest on.")
            .query::<PageQuery>()
            .page::<ModelVersion>("A page."),
        get("/jobs/{job}/models/{version}", "model", "A model version as a safetensors file.")
            .header("Range", "One range of bytes.")
            .header("If-None-Match", "The ETag of what is there already.")
            .answers_raw(200, "The file.", BYTES)
            .answers_raw(206, "The part that was asked for.", BYTES)
            .nothing(304, "What is there already is right."),
        put("/jobs/{job}/models/{version}/pin", "pinModel", "Pins a version: retention keeps it.")
            .answers::<ModelVersion>(200, "The version as it is now."),
        delete("/jobs/{job}/models/{version}/pin", "unpinModel", "Unpins a version.")
            .answers::<ModelVersion>(200, "The version as it is now."),
        get("/jobs/{job}/test-set", "testSet", "The test set on which the coordinator evaluates.")
            .answers::<TestSetState>(200, "The test set, if there is one."),
        put("/jobs/{job}/test-set", "uploadTestSet", "Uploads or replaces the test set of a job.")
            .takes_raw(BYTES)
            .answers::<TestSet>(200, "The test set."),
        put("/jobs/{job}/models/{version}", "uploadModel", "Uploads version 0 of a job that waits for it.")
            .takes_raw(BYTES)
            .answers::<Job>(200, "The job as it is now."),
    ]
}

fn rounds() -> Vec<Call> {
    vec![
        get("/jobs/{job}/rounds", "rounds", "Rounds of a job, by number or by a figure.")
            .query::<RoundsQuery>()
            .knows::<Task>()
            .knows::<Phase>()
            .knows::<AbandonReason>()
            .knows::<Order>()
            .knows::<RoundSort>()
            .page::<Round>("A page."),
        get("/jobs/{job}/rounds/{number}", "round", "A round, explained.")
            .query::<TaskQuery>()
            .answers::<RoundDetail>(200, "The round."),
        get("/jobs/{job}/rounds/{number}/assignments", "assignments", "The cohort of a round by client number.")
            .query::<AssignmentsQuery>()
            .knows::<AssignmentState>()
            .page::<Assignment>("A page."),
        get("/jobs/{job}/curve", "curve", "The learning curve of a job, thinned out.")
            .query::<CurveQuery>()
            .answers::<Curve>(200, "The curve."),
        get("/jobs/{job}/outlook", "outlook", "What other deadlines would have done to the newest rounds of a job.")
            .answers::<Outlook>(200, "The deadlines."),
        get("/jobs/{job}/answers", "answers", "What an analysis has answered, with the 95 % intervals of its noise.")
            .answers::<JobAnswers>(200, "The answers; none for a job that trains."),
        get("/jobs/{job}/privacy", "privacy", "What a private job promises, what it has spent, and its ledger.")
            .answers::<JobPrivacyState>(200, "The privacy of the job, if it has any."),
        get("/jobs/{job}/metric-curves", "metricCurves", "The named scalars of a job over its rounds, thinned out.")
            .query::<CurveQuery>()
            .list::<ScalarCurve>("The curves, those of the most rounds first, at most 64."),
        get("/jobs/{job}/stale-clients", "staleClients", "The clients of a buffered job whose updates are most stale.")
            .list::<StaleClient>("The stalest first, at most 20."),
        get("/jobs/{job}/shapes", "shapes", "What courses the sessions of the newest rounds took.")
            .query::<ShapesQuery>()
            .list::<ShapeCount>("Shapes, most frequent first."),
        get("/jobs/{job}/metrics", "metrics", "All rounds of a job as one file.")
            .query::<MetricsQuery>()
            .knows::<Format>()
            .list::<Round>("The rounds.")
            .answers_raw(200, "The rounds.", "text/csv"),
        get("/events", "events", "Events of a job: a page, a long poll, or a stream of server-sent events.")
            .query::<EventsQuery>()
            .header("Last-Event-ID", "In a stream: the last event that the caller knows.")
            .page::<Event>("Events.")
            .answers_raw(200, "Events.", STREAM),
        get(
            "/feed",
            "feed",
            "Events of all jobs as a stream of server-sent events that goes on until the caller leaves.",
        )
        .header("Last-Event-ID", "The id of the last event that the caller knows; without it the feed begins now.")
        .knows::<Event>()
        .answers_raw(200, "Each event's data is an `Event`.", STREAM),
    ]
}

fn clients() -> Vec<Call> {
    vec![
        get("/clients", "clients", "Clients of a population.")
            .query::<ClientsQuery>()
            .knows::<ClientOrder>()
            .knows::<Order>()
            .page::<Client>("A page."),
        get("/clients/{client}", "client", "A client.").answers::<Client>(200, "The client."),
        delete("/clients/{client}", "eraseClient", "Deletes what is stored of a client, for good.")
            .role(Role::Operator)
            .nothing(204, "It is deleted."),
        put("/clients/{client}/standing", "changeStanding", "Quarantines, releases or revokes a client.")
            .role(Role::Operator)
            .takes::<ChangeStanding>()
            .answers::<Client>(200, "The client."),
        get("/clients/{client}/assignments", "clientAssignments", "The history of a client, newest first.")
            .query::<PageQuery>()
            .page::<ClientAssignment>("A page."),
        get("/populations/{population}/attributes", "attributes", "Names of attributes that clients have.")
            .list::<AttributeName>("The names."),
        get("/populations/{population}/classes", "classes", "How clients fare, by the value of an attribute.")
            .query::<ClassesQuery>()
            .list::<ClassStats>("The classes."),
    ]
}

fn releases() -> Vec<Call> {
    vec![
        get("/releases", "releases", "Releases of a population, the newest of each channel first.")
            .query::<ReleasesQuery>()
            .page::<Release>("All of them."),
        post("/releases", "createRelease", "Releases a model version to the apps of its population.")
            .role(Role::Operator)
            .takes::<CreateRelease>()
            .answers::<Release>(201, "The release."),
        patch("/releases/{release}", "widenRelease", "Lets a release reach a larger share of the clients.")
            .role(Role::Operator)
            .takes::<WidenRelease>()
            .answers::<Release>(200, "The release."),
        post("/releases/{release}/withdraw", "withdrawRelease", "Takes a release back.")
            .role(Role::Operator)
            .answers::<Release>(200, "The release."),
    ]
}

fn system() -> Vec<Call> {
    vec![
        get("/system", "system", "How the coordinator is.").answers::<System>(200, "Its figures."),
        get("/audit", "audit", "The audit log, newest first.").query::<AuditQuery>().page::<AuditRow>("A page."),
        get("/audit/export", "exportAudit", "The whole audit log as JSON lines, oldest first.").answers_raw(
            200,
            "The entries.",
            JSON_LINES,
        ),
        get("/nodes", "nodes", "Coordinators by name.").query::<PageQuery>().page::<Node>("A page."),
        get("/schedules", "schedules", "Work by the clock.").query::<PageQuery>().page::<ScheduledWork>("A page."),
    ]
}
