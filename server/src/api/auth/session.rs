//! Session cookies, and the protection against requests that other sites let a browser send.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::REQUESTED_BY;
use tributary_protocol::problem::ProblemType;

use crate::api::problem::{Answer, ApiError};

/// Longest session, in milliseconds.
pub(in crate::api) const SESSION_MS_MAX: i64 = 12 * 3_600_000;
/// A session that is not used for so long ends, in milliseconds.
const IDLE_MS_MAX: i64 = 2 * 3_600_000;
/// Sessions of one account at a time. A new one ends the oldest.
pub(in crate::api) const SESSIONS_MAX: u32 = 20;

/// Browsers accept a cookie of the first name only over TLS, from this host, for all of its paths (RFC 6265bis, section
/// 4.1.3.2). So no other host of the domain and no plain connection can set it.
const NAMES: [&str; 2] = ["__Host-tributary_session", "tributary_session"];
/// Length of the hexadecimal digits of a secret.
const DIGITS: usize = 64;

/// A session used before this has ended.
pub(super) fn used_since_ms(now_ms: i64) -> i64 {
    now_ms.saturating_sub(IDLE_MS_MAX)
}

/// Names of the cookie of a sign-in with an identity provider, by the same rules.
const PROVIDER_NAMES: [&str; 2] = ["__Host-tributary_provider", "tributary_provider"];
/// How long a sign-in with a provider may take, in seconds.
const PROVIDER_S_MAX: u32 = 600;

/// The hash of the secret in the session cookie.
pub(super) fn secret_in_cookie(headers: &HeaderMap) -> Option<Sha256Hash> {
    let value = value_of(headers, NAMES)?;
    (value.len() == DIGITS).then(|| Sha256Hash::of(value.as_bytes()))
}

/// The cookie that keeps a sign-in with a provider. The way back comes from the provider's site, so it is not strict.
pub(in crate::api) fn provider_cookie(kept: &str, is_secure: bool) -> HeaderValue {
    set(PROVIDER_NAMES, kept, i64::from(PROVIDER_S_MAX), "Lax", is_secure)
}

pub(in crate::api) fn provider_cookie_that_ends(is_secure: bool) -> HeaderValue {
    set(PROVIDER_NAMES, "", 0, "Lax", is_secure)
}

pub(in crate::api) fn value_of_provider_cookie(headers: &HeaderMap) -> Option<String> {
    value_of(headers, PROVIDER_NAMES)
}

/// The value of the first of these cookies that is there.
fn value_of(headers: &HeaderMap, names: [&str; 2]) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs: Vec<_> =
        cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('=')).collect();
    let found = names.iter().find_map(|name| pairs.iter().find(|(found, _)| found == name));
    found.map(|(_, value)| (*value).to_owned())
}

/// The header that sets the session cookie.
pub(in crate::api) fn cookie(secret: &str, is_secure: bool) -> HeaderValue {
    set(NAMES, secret, SESSION_MS_MAX / 1000, "Strict", is_secure)
}

/// The header that deletes the session cookie.
pub(in crate::api) fn cookie_that_ends(is_secure: bool) -> HeaderValue {
    set(NAMES, "", 0, "Strict", is_secure)
}

/// A `Set-Cookie` header. The first name is that of encrypted connections; with 0 seconds the cookie ends.
fn set(names: [&str; 2], value: &str, seconds: i64, same_site: &str, is_secure: bool) -> HeaderValue {
    let (name, secure) = if is_secure { (names[0], "; Secure") } else { (names[1], "") };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
    HeaderValue::try_from(text).expect("values are Base64 or hexadecimal digits")
}

/// A request that a page of this coordinator sends, which is refused otherwise before its body is received.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct OwnPage;

impl<S: Send + Sync> FromRequestParts<S> for OwnPage {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        require_own_page(&parts.method, &parts.headers).map(|()| Self)
    }
}

/// Refuses a request with a cookie that another site's page may have caused: the browser says so, or a request that
/// changes something lacks the header that only a script of the own page can set.
pub(in crate::api) fn require_own_page(method: &Method, headers: &HeaderMap) -> Answer<()> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site");
    if method == Method::GET || method == Method::HEAD {
        // Without the header it is an old browser, whose cookie SameSite protects; "none" is a typed address.
        return match site {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err(refused("it comes from a page of another site")),
        };
    }
    if text(REQUESTED_BY).is_none_or(str::is_empty) {
        return Err(refused(&format!("a request with a cookie needs the header {REQUESTED_BY}")));
    }
    let is_own = match (site, text("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => authority(origin).is_some_and(|authority| Some(authority.as_str()) == text("host")),
        (None, None) => false,
    };
    if is_own { Ok(()) } else { Err(refused("it does not come from a page of this coordinator")) }
}

fn authority(origin: &str) -> Option<String> {
    origin.parse::<Uri>().ok()?.authority().map(ToString::to_string)
}

fn refused(why: &str) -> ApiError {
    ApiError::new(ProblemType::Forbidden, format!("the request is refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn is_own(method: &Method, pairs: &[(&'static str, &'static str)]) -> bool {
        require_own_page(method, &headers(pairs)).is_ok()
    }

    #[test]
    fn a_write_comes_from_a_script_of_the_own_page() {
        let by = (REQUESTED_BY, "dashboard");
        for pairs in [
            &[by, ("sec-fetch-site", "same-origin")][..],
            &[by, ("origin", "https://fl.example.org"), ("host", "fl.example.org")],
            &[by, ("origin", "http://127.0.0.1:7300"), ("host", "127.0.0.1:7300")],
        ] {
            assert!(is_own(&Method::POST, pairs), "{pairs:?}");
        }
        for pairs in [
            &[][..],
            &[by],
            &[("sec-fetch-site", "same-origin")],
            &[(REQUESTED_BY, ""), ("sec-fetch-site", "same-origin")],
            &[by, ("sec-fetch-site", "cross-site"), ("origin", "https://fl.example.org"), ("host", "fl.example.org")],
            &[by, ("sec-fetch-site", "same-site")],
            &[by, ("sec-fetch-site", "none")],
            &[by, ("origin", "https://evil.example"), ("host", "fl.example.org")],
            &[by, ("origin", "null"), ("host", "fl.example.org")],
        ] {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert!(!is_own(&method, pairs), "{method} {pairs:?}");
            }
        }
    }

    #[test]
    fn a_read_is_refused_where_the_browser_names_another_site() {
        assert!(is_own(&Method::GET, &[]));
        assert!(is_own(&Method::GET, &[("sec-fetch-site", "none")]));
        assert!(!is_own(&Method::GET, &[("sec-fetch-site", "cross-site")]));
        assert!(!is_own(&Method::HEAD, &[("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn a_cookie_reads_back_among_others() {
        let digits = "ab".repeat(32);
        for is_secure in [false, true] {
            let set = cookie(&digits, is_secure);
            let set = set.to_str().unwrap();
            assert_eq!(set.contains("; Secure"), is_secure);
            assert!(set.contains("; HttpOnly; SameSite=Strict") && set.starts_with("__Host-") == is_secure, "{set}");
            let pair = set.split(';').next().unwrap();
            let sent = HeaderValue::try_from(format!("theme=dark; {pair}; x=y")).unwrap();
            let found = secret_in_cookie(&HeaderMap::from_iter([(header::COOKIE, sent)]));
            assert_eq!(found, Some(Sha256Hash::of(digits.as_bytes())));
        }
        assert_eq!(secret_in_cookie(&headers(&[("cookie", "tributary_session=short")])), None);
        assert_eq!(secret_in_cookie(&headers(&[])), None);
    }
}
