//! Who sent a request, and from where. The audit log names the caller of a refused request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use tributary_protocol::id::{ClientId, Name, TokenId};

use crate::app::App;
use crate::db::audited_client;
use crate::guard::Sender;

/// The sender of a request, once a credential has been found to work.
#[derive(Clone, Debug)]
pub(in crate::api) enum Caller {
    Client {
        id: ClientId,
        number: u64,
        population: Name,
    },
    /// An app that enrols clients with this token.
    Enroller {
        token: TokenId,
        label: String,
        population: Name,
    },
    /// An operator: the holder of a token or account.
    Named {
        actor: String,
        label: String,
        population: Option<Name>,
    },
}

/// A place in the extensions of a request in which an extractor notes the caller for the layer around the request.
#[derive(Clone, Debug, Default)]
pub(in crate::api) struct CallerCell(Arc<OnceLock<Caller>>);

impl Caller {
    pub(in crate::api) fn noted(self, parts: &Parts) {
        if let Some(cell) = parts.extensions.get::<CallerCell>() {
            cell.note(self);
        }
    }

    /// The population of a client, or of an app that enrols clients.
    pub(in crate::api) fn devices(&self) -> Option<&Name> {
        match self {
            Self::Client { population, .. } | Self::Enroller { population, .. } => Some(population),
            Self::Named { .. } => None,
        }
    }

    /// Who sends the body of the request.
    pub(in crate::api) fn sender(self) -> Sender {
        match self {
            Self::Client { id, population, .. } => Sender { client: Some(id), population: Some(population) },
            Self::Enroller { population, .. } => Sender { client: None, population: Some(population) },
            Self::Named { population, .. } => Sender { client: None, population },
        }
    }

    /// Actor, label and population, as an audit entry has them.
    pub(in crate::api) fn audited(self) -> (String, String, Option<Name>) {
        match self {
            Self::Client { number, population, .. } => (audited_client(number), String::new(), Some(population)),
            Self::Enroller { token, label, population } => (token.to_string(), label, Some(population)),
            Self::Named { actor, label, population } => (actor, label, population),
        }
    }
}

impl CallerCell {
    pub(in crate::api) fn note(&self, caller: Caller) {
        // The first one counts: a request has one credential.
        let _ = self.0.set(caller);
    }

    pub(in crate::api) fn caller(&self) -> Option<Caller> {
        self.0.get().cloned()
    }
}

/// Where a request comes from, as far as that is known.
#[derive(Clone, Debug)]
pub(in crate::api) struct Origin {
    pub(in crate::api) address: Option<IpAddr>,
    /// Whether the caller's browser speaks TLS.
    pub(in crate::api) is_secure: bool,
    pub(in crate::api) cell: CallerCell,
}

impl FromRequestParts<Arc<App>> for Origin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        let entrance = app.people.entrance;
        let forwarded = |name| last(&parts.headers, name).filter(|_| entrance.is_behind_proxy);
        Ok(Self {
            address: forwarded("x-forwarded-for").and_then(|address| address.parse().ok()).or(peer),
            is_secure: entrance.is_encrypted || forwarded("x-forwarded-proto") == Some("https"),
            cell: parts.extensions.get().cloned().unwrap_or_default(),
        })
    }
}

/// The last value of a list: the one that the nearest proxy added. Callers can send all others.
fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
    value.rsplit(',').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_nearest_proxy_wrote_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(last(&headers, "x-forwarded-for"), None);
        headers.append("x-forwarded-for", "203.0.113.7".parse().unwrap());
        headers.append("x-forwarded-for", "198.51.100.1, 192.0.2.9".parse().unwrap());
        assert_eq!(last(&headers, "x-forwarded-for"), Some("192.0.2.9"));
    }
}
