//! The operator API: what command line and dashboard use.

mod accounts;
mod answers;
mod audit;
mod clients;
pub(super) mod document;
mod draft;
mod events;
mod feed;
mod filing;
mod jobs;
mod login;
mod oidc;
mod outlook;
mod overview;
mod people;
mod privacy;
mod releases;
mod rounds;
mod schedules;
mod stale;
mod system;
mod table;
mod test_sets;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, patch, post, put};

use crate::app::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/overview", get(overview::show))
        .route("/populations", get(people::populations).post(people::create_population))
        .route("/tokens", get(people::tokens).post(people::create_token))
        .route("/tokens/{id}", delete(people::revoke_token))
        .route("/accounts", get(accounts::list).post(accounts::create))
        .route("/accounts/{account}", delete(accounts::revoke))
        .route("/accounts/{account}/password", put(accounts::change_password))
        .route("/accounts/{account}/sessions", get(accounts::sessions).delete(accounts::end_sessions))
        .route("/sessions", get(accounts::provider_sessions).delete(accounts::end_provider_sessions))
        .route("/login", get(login::ways).post(login::login))
        .route("/oidc/login", get(oidc::begin))
        .route("/oidc/callback", get(oidc::callback))
        .route("/logout", post(login::logout))
        .route("/logout-everywhere", post(login::logout_everywhere))
        .route("/me", get(login::me))
        .route("/populations/{name}/budget", get(privacy::budget).put(privacy::set_budget))
        .route("/populations/{name}/attributes", get(clients::attributes))
        .route("/populations/{name}/classes", get(clients::classes))
        .route("/clients", get(clients::list))
        .route("/clients/{id}", get(clients::show).delete(clients::erase))
        .route("/clients/{id}/standing", put(clients::change_standing))
        .route("/clients/{id}/assignments", get(clients::history))
        .route("/jobs", get(jobs::list).post(jobs::create))
        .route("/jobs/{job}", get(jobs::show).patch(filing::change).delete(filing::delete))
        .route("/jobs/{job}/file", get(jobs::file))
        .route("/jobs/{job}/metrics", get(table::export))
        .route("/jobs/{job}/round-policy", patch(jobs::change_round_policy))
        .route("/jobs/{job}/pause", post(jobs::pause))
        .route("/jobs/{job}/resume", post(jobs::resume))
        .route("/jobs/{job}/stop", post(jobs::stop))
        .route("/jobs/{job}/test-set", get(test_sets::show).put(test_sets::put))
        .route("/jobs/{job}/models", get(jobs::models))
        .route("/jobs/{job}/models/{version}", get(jobs::model).put(jobs::put_initial_model))
        .route("/jobs/{job}/models/{version}/pin", put(filing::pin).delete(filing::unpin))
        .route("/jobs/{job}/rounds", get(rounds::list))
        .route("/jobs/{job}/rounds/{number}", get(rounds::show))
        .route("/jobs/{job}/curve", get(rounds::curve))
        .route("/jobs/{job}/metric-curves", get(rounds::scalar_curves))
        .route("/jobs/{job}/outlook", get(outlook::show))
        .route("/jobs/{job}/privacy", get(privacy::show))
        .route("/jobs/{job}/answers", get(answers::show))
        .route("/jobs/{job}/stale-clients", get(stale::list))
        .route("/jobs/{job}/shapes", get(clients::shapes))
        .route("/jobs/{job}/rounds/{number}/assignments", get(rounds::assignments))
        .route("/releases", get(releases::list).post(releases::create))
        .route("/releases/{release}", patch(releases::widen))
        .route("/releases/{release}/withdraw", post(releases::withdraw))
        .route("/schedules", get(schedules::list))
        .route("/events", get(events::list))
        .route("/feed", get(feed::stream))
        .route("/nodes", get(system::nodes))
        .route("/system", get(system::show))
        .route("/audit", get(audit::list))
        .route("/audit/export", get(audit::export))
}
