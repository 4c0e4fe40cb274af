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
use hyper::upgrade::OnUpgrade;
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

/// Keeps a connection at work that becomes something else than HTTP, and its place among the others. Requests that ask
/// for an upgrade have it as an extension.
#[derive(Clone, Debug)]
pub(crate) struct Kept(#[expect(dead_code, reason = "it is dropped")] Arc<AtWork>);

pin_project! {
    pub(super) struct Answering {
        #[pin]
        inner: RouteFuture<Infallible>,
        at_work: Option<AtWork>,
    }
}

/// Longest piece of an answer that a connection gets at once. Its client must take each in time, so a piece is short
/// enough for a slow line.
const PIECE_BYTES: usize = 64 << 10;

/// The body of an answer, in pieces. The connection asks for the next one when its client has taken enough of those
/// before.
pub(super) struct AnswerBody {
    body: Body,
    /// The rest of a frame of the body.
    rest: Bytes,
    /// The piece that the connection has.
    handed: Option<u64>,
    /// Dropped with the body, after its last byte.
    at_work: Option<AtWork>,
}

impl AnswerBody {
    fn new(body: Body, at_work: Option<AtWork>) -> Self {
        // A client of HTTP/2 that grants no window takes not even the first piece.
        let handed = at_work.as_ref().filter(|_| !body.is_end_stream()).map(AtWork::handed);
        Self { body, rest: Bytes::new(), handed, at_work }
    }

    fn taken(&mut self) {
        if let (Some(at_work), Some(piece)) = (&self.at_work, self.handed.take()) {
            at_work.taken(piece);
        }
    }

    /// The next piece of what is left of a frame.
    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.handed = self.at_work.as_ref().map(AtWork::handed);
        Frame::data(piece)
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.taken();
    }
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
        if request.extensions().get::<OnUpgrade>().is_some() {
            request.extensions_mut().insert(Kept(Arc::new(self.place.begin())));
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
        Poll::Ready(Ok(response.map(|body| AnswerBody::new(body, at_work))))
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        this.taken();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        Poll::Ready(Some(Ok(this.piece())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}
