//! Signing in with an identity provider: the way there, and the way back.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tributary_protocol::problem::ProblemType;

use super::login::{begin_session, session_from};
use crate::api::auth::{Origin, cookie, provider_cookie, provider_cookie_that_ends, value_of_provider_cookie};
use crate::api::extract::{Query, text};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::NewSession;
use crate::people::{Oidc, OidcError, Returned};
use crate::runtime::entropy;

/// Longest code, state or error of a provider.
const PARAMETER_BYTES_MAX: usize = 4096;
/// Retry delay in milliseconds when the provider does not answer.
const PROVIDER_RETRY_MS: u64 = 5_000;

/// Sends the browser to the provider.
pub(super) async fn begin(State(app): State<Arc<App>>, origin: Origin) -> Answer<Response> {
    let provider = provider(&app)?;
    let begun = provider.begin(&sign_in_key(&app).await?, app.clock.now_ms()).await?;
    redirect(&begun.url, [provider_cookie(&begun.kept, origin.is_secure)])
}

/// What the provider sends back. It may add parameters of its own.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallbackQuery {
    /// The code that stands for the person.
    code: Option<String>,
    /// As it was sent to the provider.
    state: Option<String>,
    /// Why the provider did not sign the person in.
    error: Option<String>,
}

/// Begins a session of the person who comes back from the provider.
pub(super) async fn callback(
    State(app): State<Arc<App>>,
    origin: Origin,
    Query(query): Query<CallbackQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let oidc = provider(&app)?;
    for parameter in [&query.code, &query.state, &query.error].into_iter().flatten() {
        text("a parameter", parameter, PARAMETER_BYTES_MAX)?;
    }
    let (Some(code), Some(state)) = (query.code, query.state) else {
        let why = query.error.as_deref().unwrap_or("it sent no code");
        return Err(ApiError::new(ProblemType::Unauthorized, format!("the identity provider refused: {why:?}")));
    };
    let kept = value_of_provider_cookie(&headers).ok_or(OidcError::NotBegun)?;
    let now_ms = app.clock.now_ms();
    let begun = Returned::new(&kept, &state, &sign_in_key(&app).await?, now_ms)?;
    let _place = app.guard.sign_in(origin.address).ok_or(OidcError::Busy)?;
    let person = oidc.finish(&code, &begun, now_ms).await?;
    let new = NewSession {
        account: None,
        actor: &format!("oidc:{}", person.subject),
        name: &person.name,
        role: Some(person.role),
        population: person.population.as_ref(),
        session: session_from(&origin, now_ms),
    };
    let mut tx = app.db.begin().await?;
    let secret = begin_session(&mut tx, &new, person.population.clone(), now_ms).await?;
    tx.commit().await?;
    // The fragment tells the page that there is a session: scripts cannot see the cookie.
    let page = format!("{}/#session", oidc.public_url().as_str().trim_end_matches('/'));
    redirect(&page, [cookie(&secret, origin.is_secure), provider_cookie_that_ends(origin.is_secure)])
}

fn provider(app: &App) -> Answer<&Oidc> {
    app.people.oidc.as_ref().ok_or_else(|| ApiError::not_found("identity provider: none is configured"))
}

/// The key of the deployment that signs what browsers keep of a sign-in. The first sign-in makes it.
async fn sign_in_key(app: &App) -> Answer<String> {
    if let Some(key) = app.db.read().await?.sign_in_key().await? {
        return Ok(key);
    }
    let fresh: String = entropy::random::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut tx = app.db.begin().await?;
    tx.make_sign_in_key(&fresh).await?;
    let key = tx.sign_in_key().await?.ok_or_else(|| ApiError::internal("the key of sign-ins is gone"))?;
    tx.commit().await?;
    Ok(key)
}

fn redirect(to: &str, cookies: impl IntoIterator<Item = HeaderValue>) -> Answer<Response> {
    let to = HeaderValue::from_str(to).map_err(ApiError::internal)?;
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

impl From<OidcError> for ApiError {
    fn from(error: OidcError) -> Self {
        let detail = error.to_string();
        match error {
            OidcError::Unreachable(_) => {
                tracing::warn!(%error, "a sign-in failed");
                Self::new(ProblemType::Unavailable, detail).retry_after_ms(PROVIDER_RETRY_MS)
            }
            OidcError::Busy => Self::new(ProblemType::TooManyRequests, detail).retry_after_ms(PROVIDER_RETRY_MS),
            OidcError::NoRole => Self::new(ProblemType::Forbidden, detail),
            OidcError::Refused(_) | OidcError::Invalid(_) => {
                tracing::warn!(%error, "a sign-in failed");
                Self::new(ProblemType::Unauthorized, detail)
            }
            OidcError::NotBegun => Self::new(ProblemType::Unauthorized, detail),
        }
    }
}
