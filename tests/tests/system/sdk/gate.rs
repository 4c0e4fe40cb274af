//! The way between a client and the coordinator, where a test can break it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use reqwest::Method;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{Client, HttpTransport, Transport};

use crate::support::{World, sdk_client_over};

/// What becomes of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// They arrive, and so do their responses.
    Open,
    /// They do not arrive.
    Cut,
    /// They arrive; the response to the first upload is lost, and the way is cut from then on.
    LosesUploadAnswers,
}

/// The HTTP transport behind a way that a test sets.
#[derive(Debug)]
pub(super) struct Gate {
    http: HttpTransport,
    way: Mutex<Way>,
}

impl Gate {
    pub(super) fn before(world: &World) -> Arc<Self> {
        Arc::new(Self { http: HttpTransport::new(world.http.clone()), way: Mutex::new(Way::Open) })
    }

    pub(super) fn set(&self, way: Way) {
        *self.way.lock().unwrap() = way;
    }

    /// A client that sends through the gate; its clock never waits.
    pub(super) fn client(self: &Arc<Self>, world: &World, directory: &Path) -> Client {
        sdk_client_over(world, directory, Arc::clone(self) as Arc<_>)
    }

    fn way(&self) -> Way {
        *self.way.lock().unwrap()
    }
}

impl Transport for Gate {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let way = self.way();
            if way == Way::Cut {
                return Err(TransportError::Failed("the way is cut".into()));
            }
            let loses = way == Way::LosesUploadAnswers && request.method == Method::PUT;
            let response = self.http.send(request).await?;
            if loses {
                self.set(Way::Cut);
                return Err(TransportError::Failed("the response is lost".into()));
            }
            Ok(response)
        })
    }
}
