//! A request on its way through the router: until the last byte of its answer, its connection is at work.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::future::RouteFuture;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::connections::{AtWork, Place};
use super::peer::PeerCertificate;

/// The router as one connection sees it. Handlers find the caller's address as `ConnectInfo<SocketAddr>`, and its
/// certificate as [`PeerCertificate`].
pub(super) struct Answers {
    pub(super) router: Router,
    pub(super) peer: SocketAddr,
    /// `None`: the client presented none, or was not asked.
    pub(super) certificate: Option<PeerCertificate>,
    pub(super) place: Arc<Place>,
}

pin_project! {
    pub(super) struct Answering {
        #[pin]
        inner: RouteFuture<Infallible>,
        at_work: Option<AtWork>,
    }
}

/// The body of an answer.
pub(super) struct AnswerBody {
    body: Body,
    /// Dropped with the body, after its last byte.
    _at_work: Option<AtWork>,
}

impl hyper::service::Service<Request<Incoming>> for Answers {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let at_work = self.place.begin();
        request.extensions_mut().insert(ConnectInfo(self.peer));
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        // A router is always ready.
        Answering { inner: self.router.clone().call(request), at_work: Some(at_work) }
    }
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(context))?;
        let at_work = this.at_work.take();
        Poll::Ready(Ok(response.map(|body| AnswerBody { body, _at_work: at_work })))
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
