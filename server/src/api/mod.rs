//! The HTTP APIs: one route table.

mod auth;
mod bodies;
mod cors;
mod device;
mod docs;
mod examples;
mod extract;
mod models;
mod observe;
mod openapi;
mod operator;
mod pages;
mod problem;
mod story;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use tributary_protocol::operator::Health;
use tributary_protocol::problem::ProblemType;

use crate::app::App;
use crate::db::{DbError, JobRow, Tx};
pub use cors::{OriginError, WebOrigin};
use observe::Observe;
use problem::ApiError;

/// Longest silence within a request's body. A sender that stops must not hold memory and a connection for ever.
const BODY_SILENCE_MAX: Duration = Duration::from_secs(30);

/// Which routes a listener has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routes {
    All,
    /// The device API, and the page with which a browser becomes a client.
    Devices,
    /// The operator API, the metrics, the dashboard and the description of the API.
    Operators,
}

/// How browsers become clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Browsers {
    /// With the page `/join`.
    pub(crate) join: bool,
    /// With pages of these origins.
    pub(crate) origins: Vec<WebOrigin>,
}

/// The routes of a listener. Only health, the API's description, the pages' files and, by default, the metrics need no
/// token.
pub(crate) fn router(app: Arc<App>, routes: Routes, browsers: &Browsers) -> Router {
    let mut router = Router::new().route("/healthz", get(pages::healthz)).route("/readyz", get(pages::readyz));
    if routes != Routes::Operators {
        let device = match &*browsers.origins {
            [] => device::routes(),
            // A preflight is a method that no route has, so the layer must be around that answer, too.
            origins => {
                let routes = device::routes().method_not_allowed_fallback(method_not_allowed);
                routes.layer(cors::allowing(origins))
            }
        };
        router = router.nest("/device/v1", device);
        if browsers.join {
            router = router
                .route("/join", get(pages::to_join))
                .route("/join/", get(pages::join))
                .route("/join/{*file}", get(pages::join));
        }
    }
    let router = match routes {
        Routes::Devices => router.fallback(elsewhere),
        Routes::All | Routes::Operators => router
            .nest("/operator/v1", operator::routes())
            .route("/metrics", get(pages::metrics))
            .route("/openapi.json", get(docs::openapi))
            .route("/docs", get(docs::page))
            .route("/docs/{file}", get(docs::file))
            .fallback(pages::dashboard),
    };
    router
        .method_not_allowed_fallback(method_not_allowed)
        // Together, because each call of `layer` allocates a future for each held request. The first is the outermost.
        .layer((
            Observe(Arc::clone(&app)),
            CatchPanicLayer::custom(panicked),
            RequestBodyTimeoutLayer::new(BODY_SILENCE_MAX),
            DefaultBodyLimit::max(bodies::LARGEST),
        ))
        .with_state(app)
}

/// Operators who use the address of the devices learn that theirs is another one.
async fn elsewhere(uri: Uri) -> ApiError {
    ApiError::not_found(format!("{} here: the operator API and the dashboard have another address", uri.path()))
}

/// How each of these jobs is, for those who are told of changes.
pub(crate) async fn health_of_jobs(
    app: &App,
    tx: &mut Tx,
    jobs: Vec<JobRow>,
) -> Result<Vec<(JobRow, Vec<Health>)>, DbError> {
    let disk = story::disk::Disk::read(app, tx).await?;
    let mut known = Vec::with_capacity(jobs.len());
    for job in jobs {
        let health = story::health::of_job(app, tx, &job, disk).await?;
        known.push((job, health));
    }
    Ok(known)
}

async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    ApiError::new(ProblemType::MethodNotAllowed, format!("{} does not take {method}", uri.path()))
}

fn panicked(reason: Box<dyn std::any::Any + Send>) -> Response {
    let text = reason.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| reason.downcast_ref::<&str>().copied()).unwrap_or("no message");
    axum::response::IntoResponse::into_response(ApiError::internal(format!("panic: {text}")))
}
