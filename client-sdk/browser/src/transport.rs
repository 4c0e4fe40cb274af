//! Requests through the browser's `fetch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tributary_client::Transport;
use tributary_client::transport::{Request, Response, TransportError};

use crate::errands::{Errand, Errands, answered};

/// How many bytes of bodies a client has sent and received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

impl Traffic {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    fn came(&self, piece: &Result<Bytes, TransportError>) {
        let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct FetchTransport {
    pub(crate) errands: Errands,
    pub(crate) traffic: Traffic,
}

impl Transport for FetchTransport {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        self.traffic.sent.fetch_add(request.body.len() as u64, Ordering::Relaxed);
        let (answer, response) = oneshot::channel();
        self.errands.leave(Errand::Send { request, answer });
        Box::pin(async move {
            let response = answered(response).await;
            let response =
                response.unwrap_or_else(|| Err(TransportError::Failed("the page is being closed".into())))?;
            let traffic = self.traffic.clone();
            Ok(Response { body: response.body.inspect(move |piece| traffic.came(piece)).boxed(), ..response })
        })
    }
}
