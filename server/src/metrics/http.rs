//! What is measured of requests: counts by route, method and status, and how long they took.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use ::metrics::{Counter, Gauge, Histogram};
use axum::http::{Method, StatusCode};

use super::registry::Registry;
use super::table;
use crate::runtime::clock::Stopwatch;
use crate::runtime::lock::SharedLock;

/// The route of requests that no route matches: whatever paths callers invent, they are one.
const NO_ROUTE: &str = "other";
/// The status of a request whose caller was gone before the answer, as nginx has it.
const CALLER_GONE: &str = "499";

/// Handles by route and method, made when they are first needed. Routes are those of the router and methods those of
/// the standard, so there are at most a few hundred.
#[derive(Debug)]
pub(super) struct Http {
    open: Gauge,
    routes: RwLock<HashMap<String, Vec<Arc<Route>>>>,
}

#[derive(Debug)]
struct Route {
    route: String,
    method: &'static str,
    seconds: Histogram,
    gone: Counter,
    statuses: RwLock<Vec<(StatusCode, Counter)>>,
}

/// A request that is being answered. Dropped without [`super::Metrics::request_answered`], its caller went away.
#[derive(Debug)]
pub(crate) struct Request {
    route: Arc<Route>,
    open: Gauge,
    stopwatch: Stopwatch,
    is_answered: bool,
}

impl Http {
    pub(super) fn new(registry: &Registry) -> Self {
        Self { open: registry.gauge(&table::HTTP_OPEN, &[]), routes: RwLock::default() }
    }

    pub(super) fn begun(&self, registry: &Registry, route: Option<&str>, method: &Method) -> Request {
        let route = self.route(registry, route.unwrap_or(NO_ROUTE), word(method));
        self.open.increment(1);
        Request { route, open: self.open.clone(), stopwatch: Stopwatch::start(), is_answered: false }
    }

    fn route(&self, registry: &Registry, route: &str, method: &'static str) -> Arc<Route> {
        let find = |known: &[Arc<Route>]| known.iter().find(|route| route.method == method).cloned();
        let routes = self.routes.reading();
        if let Some(known) = routes.get(route).and_then(|known| find(known)) {
            return known;
        }
        drop(routes);
        let mut routes = self.routes.writing();
        let known = routes.entry(route.to_owned()).or_default();
        find(known).unwrap_or_else(|| {
            let made = Arc::new(Route {
                route: route.to_owned(),
                method,
                seconds: registry.histogram(&table::HTTP_SECONDS, &[route, method]),
                gone: registry.counter(&table::HTTP_REQUESTS, &[route, method, CALLER_GONE]),
                statuses: RwLock::default(),
            });
            known.push(Arc::clone(&made));
            made
        })
    }
}

impl Request {
    pub(super) fn answered(mut self, registry: &Registry, status: StatusCode) {
        self.is_answered = true;
        self.route.seconds.record(self.stopwatch.seconds());
        self.route.status(registry, status).increment(1);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.open.decrement(1);
        if !self.is_answered {
            self.route.gone.increment(1);
        }
    }
}

impl Route {
    fn status(&self, registry: &Registry, status: StatusCode) -> Counter {
        let find = |known: &[(StatusCode, Counter)]| {
            known.iter().find(|(known, _)| *known == status).map(|(_, counter)| counter.clone())
        };
        let known = find(&self.statuses.reading());
        known.unwrap_or_else(|| {
            let counter = registry.counter(&table::HTTP_REQUESTS, &[&self.route, self.method, status.as_str()]);
            let mut statuses = self.statuses.writing();
            // Two that come at once make the same counter.
            statuses.push((status, counter.clone()));
            counter
        })
    }
}

/// The method as a label; anything that a caller invents is one.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_method_and_status_and_so_are_those_that_went_away() {
        let registry = Registry::new(true);
        let http = Http::new(&registry);
        let post = || http.begun(&registry, Some("/jobs/{job}"), &Method::POST);
        post().answered(&registry, StatusCode::OK);
        post().answered(&registry, StatusCode::OK);
        drop(post());
        let _open = http.begun(&registry, None, &Method::from_bytes(b"BREW").unwrap());
        let text = registry.render().unwrap();
        for line in [
            "tributary_http_requests_total{route=\"/jobs/{job}\",method=\"POST\",status=\"200\"} 2",
            "tributary_http_requests_total{route=\"/jobs/{job}\",method=\"POST\",status=\"499\"} 1",
            "tributary_http_requests_total{route=\"other\",method=\"other\",status=\"499\"} 0",
            "tributary_http_request_seconds_count{route=\"/jobs/{job}\",method=\"POST\"} 2",
            "tributary_http_requests_open 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
