//! Sign-in with an identity provider: OpenID Connect, authorisation code with PKCE (RFC 7636).
//!
//! The provider's configuration and keys are discovered, and the browser carries state, nonce and verifier of a
//! sign-in in a cookie, so any coordinator can finish what another one began.

mod jwt;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, Url};
use ring::hmac;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::LABEL_BYTES_MAX;
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::Role;
use tributary_protocol::text::is_visible;

use crate::runtime::entropy;
use crate::runtime::outgoing::{self, is_loopback};
use jwt::{Claims, Expected, KeySet, TokenError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// From the request to the last byte of the answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer of a provider in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// How long a discovered configuration is used, in milliseconds.
const DISCOVERY_MS: i64 = 3_600_000;
/// Fewest milliseconds between two look-ups because of a key that is not known.
const KEYS_EVERY_MS: i64 = 60_000;
/// How long a sign-in may take, in milliseconds.
const SIGN_IN_MS_MAX: i64 = 600_000;
/// Longest subject of a person.
const SUBJECT_BYTES_MAX: usize = 255;
/// Sign-ins whose code is being exchanged. Further ones are refused.
const EXCHANGES_MAX: usize = 8;

/// Where and how people sign in.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The provider, as its ID tokens name it: `https://id.example.org/realms/x`.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Sealed<String>,
    /// The address at which browsers reach this coordinator.
    pub public_url: Url,
    /// What the provider is asked for, separated by spaces.
    pub scopes: String,
    /// The claim that lists a person's groups.
    pub groups_claim: String,
    /// Roles by group; the first group that a person has decides.
    pub roles: Vec<GroupRole>,
}

/// What the members of a group may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRole {
    pub group: String,
    pub role: Role,
    pub population: Option<Name>,
}

/// Why nobody is signed in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    #[error("the identity provider does not answer: {0}")]
    Unreachable(String),
    #[error("the identity provider refused: {0}")]
    Refused(String),
    #[error("the identity provider's answer is not accepted: {0}")]
    Invalid(String),
    #[error("the sign-in was not begun in this browser, or too long ago; begin again")]
    NotBegun,
    #[error("no group of this person has a role here")]
    NoRole,
    #[error("too many people are signing in")]
    Busy,
}

/// A sign-in that begins.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Where the browser goes.
    pub(crate) url: String,
    /// What it keeps in a cookie until it comes back.
    pub(crate) kept: String,
}

/// A sign-in that comes back to the browser in which it began.
#[derive(Debug)]
pub(crate) struct Returned {
    nonce: String,
    verifier: String,
}

/// A person that the provider knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) subject: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) population: Option<Name>,
}

#[derive(Debug)]
pub(crate) struct Oidc {
    settings: OidcSettings,
    http: Client,
    known: Mutex<Option<Known>>,
    exchanges: Semaphore,
}

/// What was discovered of the provider.
#[derive(Clone, Debug)]
struct Known {
    endpoints: Endpoints,
    keys: KeySet,
    at_ms: i64,
}

#[derive(Clone, Debug)]
struct Endpoints {
    authorization: Url,
    token: Url,
    keys: Url,
}

/// The configuration of a provider (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Deserialize)]
struct Configuration {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: Sealed<String>,
}

impl Returned {
    /// The sign-in that began in this browser, from the cookie that it was given then and the state that came back.
    /// Only one that this deployment began takes a place among those that are being exchanged.
    pub(crate) fn new(kept: &str, state: &str, key: &str, now_ms: i64) -> Result<Self, OidcError> {
        let (signed, signature) = kept.rsplit_once('.').ok_or(OidcError::NotBegun)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| OidcError::NotBegun)?;
        hmac::verify(&cookie_key(key), signed.as_bytes(), &signature).map_err(|_| OidcError::NotBegun)?;
        let parts: Vec<&str> = signed.split('.').collect();
        let [begun, nonce, verifier, at_ms] = parts[..] else { return Err(OidcError::NotBegun) };
        let age_ms = at_ms.parse::<i64>().map_err(|_| OidcError::NotBegun)?;
        let is_recent = (-SIGN_IN_MS_MAX..=SIGN_IN_MS_MAX).contains(&now_ms.saturating_sub(age_ms));
        // Equal hashes: the time of the comparison says nothing about the state.
        if Sha256Hash::of(begun.as_bytes()) != Sha256Hash::of(state.as_bytes()) || !is_recent {
            return Err(OidcError::NotBegun);
        }
        Ok(Self { nonce: nonce.to_owned(), verifier: verifier.to_owned() })
    }
}

fn cookie_key(key: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())
}

impl Oidc {
    /// Sends nothing yet.
    pub(crate) fn new(settings: OidcSettings) -> Result<Self, reqwest::Error> {
        let http = outgoing::client(&settings.issuer, CALL_TIMEOUT).connect_timeout(CONNECT_TIMEOUT).build()?;
        Ok(Self { settings, http, known: Mutex::default(), exchanges: Semaphore::new(EXCHANGES_MAX) })
    }

    pub(crate) fn public_url(&self) -> &Url {
        &self.settings.public_url
    }

    /// The beginning of a sign-in. `key` signs what the browser keeps.
    pub(crate) async fn begin(&self, key: &str, now_ms: i64) -> Result<Begun, OidcError> {
        let known = self.known(None, now_ms).await?;
        let [state, nonce, verifier] = [(); 3].map(|()| URL_SAFE_NO_PAD.encode(entropy::random::<32>()));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256Hash::of(verifier.as_bytes()).0);
        let mut url = known.endpoints.authorization;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.redirect_uri())
            .append_pair("scope", &self.settings.scopes)
            .append_pair("state", &state)
            .append_pair("nonce", &nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let kept = format!("{state}.{nonce}.{verifier}.{now_ms}");
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&cookie_key(key), kept.as_bytes()));
        Ok(Begun { url: url.into(), kept: format!("{kept}.{signature}") })
    }

    /// The person who came back with a code.
    pub(crate) async fn finish(&self, code: &str, begun: &Returned, now_ms: i64) -> Result<Person, OidcError> {
        let Returned { nonce, verifier } = begun;
        let _turn = self.exchanges.try_acquire().map_err(|_| OidcError::Busy)?;
        let known = self.known(None, now_ms).await?;
        let token = self.exchange(&known.endpoints, code, verifier).await?;
        let expected = Expected { issuer: &self.settings.issuer, client_id: &self.settings.client_id, nonce, now_ms };
        let claims = match jwt::verified(token.expose(), &known.keys, &expected) {
            Err(TokenError::UnknownKey) => {
                let newer = self.known(Some(known.at_ms), now_ms).await?;
                jwt::verified(token.expose(), &newer.keys, &expected)
            }
            verified => verified,
        };
        let claims = claims.map_err(|error| OidcError::Invalid(format!("ID token: {error}")))?;
        self.person(&claims)
    }

    /// Exchanges the code for an ID token.
    async fn exchange(&self, endpoints: &Endpoints, code: &str, verifier: &str) -> Result<Sealed<String>, OidcError> {
        let redirect_uri = self.redirect_uri();
        let body = form(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", verifier),
        ]);
        // Both are form-encoded before they are put together (RFC 6749, section 2.3.1).
        let (id, secret) = (encoded(&self.settings.client_id), encoded(self.settings.client_secret.expose()));
        let call = self.http.post(endpoints.token.clone()).basic_auth(id, Some(secret));
        let call = call.header("content-type", "application/x-www-form-urlencoded").body(body);
        Ok(self.answer::<Tokens>(call).await?.id_token)
    }

    /// The provider's configuration and keys. `not_since_ms`: those that were discovered then lack a key.
    async fn known(&self, not_since_ms: Option<i64>, now_ms: i64) -> Result<Known, OidcError> {
        let mut known = self.known.lock().await;
        if let Some(found) = &*known {
            let age_ms = now_ms.saturating_sub(found.at_ms);
            let is_newer = not_since_ms.is_none_or(|at_ms| found.at_ms != at_ms || age_ms < KEYS_EVERY_MS);
            if is_newer && (0..DISCOVERY_MS).contains(&age_ms) {
                return Ok(found.clone());
            }
        }
        let issuer = self.settings.issuer.trim_end_matches('/');
        let address = format!("{issuer}/.well-known/openid-configuration");
        let configuration: Configuration = self.answer(self.http.get(address)).await?;
        if configuration.issuer != self.settings.issuer {
            return Err(OidcError::Invalid(plain(&format!("the provider calls itself {}", configuration.issuer))));
        }
        let endpoints = Endpoints {
            authorization: endpoint(&configuration.authorization_endpoint)?,
            token: endpoint(&configuration.token_endpoint)?,
            keys: endpoint(&configuration.jwks_uri)?,
        };
        let keys = self.answer(self.http.get(endpoints.keys.clone())).await?;
        let found = Known { endpoints, keys, at_ms: now_ms };
        *known = Some(found.clone());
        Ok(found)
    }

    async fn answer<T: DeserializeOwned>(&self, call: reqwest::RequestBuilder) -> Result<T, OidcError> {
        let unreachable = |error: reqwest::Error| OidcError::Unreachable(error.without_url().to_string());
        let mut response = call.header("accept", "application/json").send().await.map_err(unreachable)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&piece);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(OidcError::Invalid("the answer is too long".into()));
            }
        }
        if !status.is_success() {
            let error =
                serde_json::from_slice::<Value>(&body).ok().and_then(|body| Some(body["error"].as_str()?.to_owned()));
            return Err(OidcError::Refused(plain(&error.unwrap_or_else(|| status.to_string()))));
        }
        serde_json::from_slice(&body).map_err(|error| OidcError::Invalid(error.to_string()))
    }

    fn person(&self, claims: &Claims) -> Result<Person, OidcError> {
        let groups: Vec<&str> = match claims.other.get(&self.settings.groups_claim) {
            Some(Value::String(group)) => vec![group],
            Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let found = self.settings.roles.iter().find(|mapped| groups.contains(&mapped.group.as_str()));
        let GroupRole { role, population, .. } = found.ok_or(OidcError::NoRole)?.clone();
        let claim = |name: &str| claims.other.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        // Two people must never be one actor, so nothing of it is replaced or cut (OpenID Connect Core, section 2).
        let is_plain = claims.sub.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_plain || !(1..=SUBJECT_BYTES_MAX).contains(&claims.sub.len()) {
            return Err(OidcError::Invalid("ID token: its subject is not 1 to 255 ASCII characters".into()));
        }
        let name = claim("preferred_username").or(claim("email")).or(claim("name")).unwrap_or(&claims.sub);
        Ok(Person { subject: claims.sub.clone(), name: plain(name), role, population })
    }

    fn redirect_uri(&self) -> String {
        let base = self.settings.public_url.as_str().trim_end_matches('/');
        format!("{base}/operator/v1/oidc/callback")
    }
}

/// An address of the provider. Only this machine may be spoken to in plain.
fn endpoint(text: &str) -> Result<Url, OidcError> {
    let url = text.parse::<Url>().ok().filter(|url| url.scheme() == "https" || is_loopback(url.as_str()));
    url.ok_or_else(|| OidcError::Invalid(plain(&format!("{text} is no encrypted address"))))
}

/// A text of the provider as logs and pages may show it.
fn plain(text: &str) -> String {
    let mut plain: String = text.chars().map(|letter| if is_visible(letter) { letter } else { ' ' }).collect();
    plain.truncate(plain.floor_char_boundary(LABEL_BYTES_MAX));
    plain
}

fn form(pairs: &[(&str, &str)]) -> String {
    let mut url: Url = "http://localhost".parse().expect("an address");
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

fn encoded(text: &str) -> String {
    form(&[("", text)]).split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_encoded_like_a_form() {
        assert_eq!(encoded("a b&c=d:é"), "a+b%26c%3Dd%3A%C3%A9");
        assert_eq!(form(&[("code", "a+b"), ("x", "")]), "code=a%2Bb&x=");
    }
}
