//! Parts and ranges, to and from several coordinators.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, StatusCode, header};
use tributary_protocol::device::UpdateQuery;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, Secret, SecretKind};
use tributary_protocol::scalars::Scalars;

use super::coordinator::Coordinator;
use super::download::WantedFile;
use super::parts::UploadInParts;
use super::ranges::Ranges;
use super::{Request, Response, Transport, TransportError};
use crate::clock::SystemClock;
use crate::locked::Locked;

/// Coordinators with one file; `away` does not answer, `bad` spoils ranges.
#[derive(Debug, Default)]
struct Deployment {
    file: Bytes,
    requests: Mutex<Vec<Request>>,
}

impl Transport for Deployment {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        self.requests.locked().push(request.clone());
        let (mut status, mut headers, mut body) =
            (StatusCode::OK, HeaderMap::new(), Bytes::from(r#"{"retry_after_ms":5}"#));
        if request.method == Method::GET {
            let range = request.headers[header::RANGE].to_str().unwrap().strip_prefix("bytes=").unwrap();
            let (first, last) = range.split_once('-').unwrap();
            let (first, last) = (first.parse().unwrap(), last.parse().unwrap_or(self.file.len() - 1));
            headers.insert(header::CONTENT_RANGE, format!("bytes {first}-{last}/{}", self.file.len()).parse().unwrap());
            (status, body) = (StatusCode::PARTIAL_CONTENT, self.file.slice(first..=last));
            if request.url.starts_with("https://bad") {
                body = body.slice(1..);
            }
        }
        let is_away = request.url.starts_with("https://away");
        Box::pin(async move {
            match is_away {
                true => Err(TransportError::Failed("nobody answers".into())),
                false => Ok(Response { status, headers, body: stream::iter([Ok(body)]).boxed() }),
            }
        })
    }
}

fn deployment(file: Vec<u8>) -> (Coordinator, Arc<Deployment>) {
    let deployment = Arc::new(Deployment { file: file.into(), ..Deployment::default() });
    let transport = Arc::clone(&deployment) as Arc<_>;
    (Coordinator::new(transport, "https://known".into(), Arc::new(SystemClock::default())), deployment)
}

fn secret() -> Secret {
    Secret::from_random(SecretKind::Client, [1; 32])
}

#[tokio::test]
async fn parts_reach_their_owners_or_the_known_coordinator() {
    let (known, deployment) = deployment(Vec::new());
    let query = UpdateQuery { weight: 3, loss: None, steps: 2, train_ms: 7, metrics: Scalars::new() };
    let bodies: Vec<_> = (0..5).map(|part| Bytes::from(vec![part; 10])).collect();
    let owners = ["https://a/", "https://away", "http://plain", "https://x@y"].map(|url| Some(url.to_owned()));
    let id = AssignmentId::from_random([1; 16]);
    let update = UploadInParts { id, query: &query, bodies: &bodies, owners: &owners, begun: false };
    assert_eq!(known.upload_parts(&secret(), &update).await.unwrap().retry_after_ms, 5);
    let mut went: Vec<_> =
        deployment.requests.locked().iter().map(|call| (call.url.clone(), call.body.clone())).collect();
    went.sort();
    let to = |base: &str, part: usize| {
        let path = format!("{base}/device/v1/assignments/{id}/parts/{part}?weight=3&steps=2&train_ms=7");
        (path, bodies[part].clone())
    };
    let [a, away, rest @ ..] = [("a", 0), ("away", 1), ("known", 1), ("known", 2), ("known", 3), ("known", 4)]
        .map(|(host, part)| to(&format!("https://{host}"), part));
    assert_eq!(went, [&[a, away][..], &rest].concat());
}

#[tokio::test]
async fn ranges_are_put_together_and_a_bad_one_is_refused() {
    let file: Vec<u8> = (0..(9_u32 << 18)).flat_map(u32::to_le_bytes).collect();
    let wanted = WantedFile {
        path: "/model".into(),
        sha256: Sha256Hash::of(&file),
        bytes_max: file.len() as u64 + 99,
        again_if_damaged: true,
    };
    let (known, deployment) = deployment(file.clone());
    for (owner, expected) in [("https://a", true), ("https://away", false), ("https://bad", false), ("http://a", false)]
    {
        let owners = [None, Some(owner.to_owned())];
        let ranges = Ranges { count: 3, owners: &owners, bytes: file.len() as u64 - 7 };
        let body = known.download_ranges(&secret(), &wanted, ranges).await;
        assert!(body == expected.then(|| file.clone()), "{owner}");
    }
    let asked = |host: &str| deployment.requests.locked().iter().any(|call| call.url.starts_with(host));
    assert!(asked("https://a/model") && !asked("http://"));
}
