//! OTLP over HTTP, as JSON, to `ENDPOINT/v1/traces`.
//!
//! The OpenTelemetry SDK collects spans in a separate thread and sends them in batches: without a collector, spans
//! are lost and requests are not delayed. It sends with our HTTP client, so that the binary has one TLS stack.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use reqwest::{Client, Url, redirect};
use tokio::runtime::Handle;
use tracing_opentelemetry::OpenTelemetryLayer;

use crate::error::CliError;
use crate::http;

/// For one batch.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// For the last batch, when the process ends.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// An exporter to a collector. `node` is the `service.instance.id` of all spans.
    pub(crate) fn to(endpoint: &Url, node: Option<&str>) -> Result<Self, CliError> {
        let client = http::client(endpoint, redirect::Policy::none()).map_err(CliError::http)?;
        let mut traces = endpoint.clone();
        traces
            .path_segments_mut()
            .map_err(|()| CliError::BadSetting(format!("otlp_endpoint {endpoint}: not the address of a server")))?
            .pop_if_empty()
            .extend(["v1", "traces"]);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender { client, runtime: Handle::current() })
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(traces)
            .with_timeout(SEND_TIMEOUT)
            .build()
            .map_err(|error| CliError::BadSetting(format!("otlp_endpoint {endpoint}: {error}")))?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let instance = node.map(|node| KeyValue::new("service.instance.id", node.to_owned()));
        let resource = Resource::builder()
            .with_service_name("tributary")
            .with_attribute(version)
            .with_attributes(instance)
            .build();
        Ok(Self {
            provider: SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build(),
        })
    }

    /// The layer that passes spans from `tracing` to the exporter.
    pub(crate) fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
    {
        OpenTelemetryLayer::new(self.provider.tracer("tributary")).with_location(false).with_threads(false)
    }

    /// Sends the last spans.
    pub(crate) async fn finish(self) {
        // The shutdown blocks its thread while the runtime sends.
        let sent = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FINISH_TIMEOUT)).await;
        if let Ok(Err(error)) = sent {
            tracing::warn!(%error, "the last spans could not be exported");
        }
    }
}

/// Sends on our runtime, because the SDK's thread has none.
#[derive(Debug)]
struct Sender {
    client: Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let call = self.client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let sent = self.runtime.spawn(async move {
            let response = call.timeout(SEND_TIMEOUT).send().await?;
            let status = response.status();
            let body = http::read_body(response, ANSWER_BYTES_MAX).await?;
            Ok::<_, HttpError>((status, body))
        });
        let (status, body) = sent.await??;
        Ok(Response::builder().status(status).body(body.into())?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Json;
    use axum::extract::State;
    use axum::http::HeaderMap;
    use axum::routing::post;
    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::testing::serve;

    type Received = Arc<Mutex<Vec<Value>>>;

    async fn collect(State(received): State<Received>, headers: HeaderMap, Json(spans): Json<Value>) -> Json<Value> {
        assert_eq!(headers["content-type"], "application/json");
        received.lock().unwrap().push(spans);
        Json(json!({}))
    }

    fn attribute<'a>(attributes: &'a Value, key: &str) -> &'a Value {
        let attributes = attributes.as_array().unwrap();
        &attributes.iter().find(|attribute| attribute["key"] == key).unwrap_or(&Value::Null)["value"]
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn spans_reach_the_collector_with_their_attributes_and_parents() {
        let received = Received::default();
        let routes = axum::Router::new().route("/collector/v1/traces", post(collect)).with_state(Arc::clone(&received));
        let server = serve(routes).await;
        let exporter = Exporter::to(&server.join("/collector/").unwrap(), Some("north")).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
            let request = tracing::info_span!("request", request_id = "mine", status = tracing::field::Empty);
            request.record("status", 200);
            request.in_scope(|| tracing::info_span!("round step", round = 7).in_scope(|| tracing::info!("done")));
        });
        exporter.finish().await;
        let received = received.lock().unwrap();
        let resource = &received[0]["resourceSpans"][0];
        assert_eq!(attribute(&resource["resource"]["attributes"], "service.name")["stringValue"], "tributary");
        assert_eq!(attribute(&resource["resource"]["attributes"], "service.instance.id")["stringValue"], "north");
        let spans: Vec<&Value> = resource["scopeSpans"][0]["spans"].as_array().unwrap().iter().collect();
        let named = |name: &str| *spans.iter().find(|span| span["name"] == name).unwrap();
        let (request, step) = (named("request"), named("round step"));
        assert_eq!(attribute(&request["attributes"], "request_id")["stringValue"], "mine");
        assert_eq!(step["parentSpanId"], request["spanId"]);
        assert_eq!(step["traceId"], request["traceId"]);
        assert_eq!(step["events"][0]["name"], "done");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_a_collector_only_spans_are_lost() {
        let closed = {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            format!("http://{}", listener.local_addr().unwrap())
        };
        let exporter = Exporter::to(&closed.parse().unwrap(), None).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
            tracing::info_span!("request").in_scope(|| {});
        });
        exporter.finish().await;
    }
}
