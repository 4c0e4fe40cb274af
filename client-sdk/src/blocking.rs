//! A client whose calls block the calling thread, for apps without an async runtime. The facades of other languages are
//! made of it.

use std::process;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tributary_protocol::device::{DeviceState, OpenJob};
use tributary_protocol::id::ClientId;

use crate::cancel::CancelToken;
use crate::client::Client;
use crate::error::ClientError;
use crate::host::Host;
use crate::outcome::Outcome;
#[cfg(feature = "layers")]
use crate::predict::UsableModel;
use crate::releases::{Freshness, ReleasedModel};
use crate::session::interrupted;
use crate::trainer::Trainer;

/// A [`Client`] with a runtime of its own. One call at a time: another one meanwhile is [`ClientError::Busy`]. In a
/// forked child, which has none of the runtime's threads, every call is [`ClientError::Forked`].
#[derive(Debug)]
pub struct BlockingClient {
    client: Client,
    /// `None` once it was dropped.
    runtime: Option<Runtime>,
    /// Number of the process that has the runtime's threads.
    process: u32,
    /// Held during a call.
    turn: Mutex<()>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<T, S> {
    /// The work is done.
    Done(T),
    /// It was stopped before its end, for this reason.
    Stopped(S),
}

impl BlockingClient {
    /// Gives a client a runtime.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if the system gives no thread.
    pub fn new(client: Client) -> Result<Self, ClientError> {
        // While the calling thread trains, the other one asks whether the round is still open.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| ClientError::Setup(error.to_string()))?;
        Ok(Self { client, runtime: Some(runtime), process: process::id(), turn: Mutex::new(()) })
    }

    /// Does some work with the client, until `stopped` completes: the work is then dropped, which the SDK allows at any
    /// time.
    ///
    /// # Errors
    /// Those of the work, [`ClientError::Busy`] while another call runs or on a thread of an async runtime, and
    /// [`ClientError::Forked`] in another process.
    pub fn run<T, S>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
        stopped: impl Future<Output = S>,
    ) -> Result<Ended<T, S>, ClientError> {
        // Before anything else: a lock that another thread held at the fork stays locked.
        let Some(runtime) = self.runtime.as_ref().filter(|_| self.process == process::id()) else {
            return Err(ClientError::Forked);
        };
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            // The call that panicked has ended, and the lock protects no data.
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(ClientError::Busy),
        };
        if Handle::try_current().is_ok() {
            return Err(ClientError::Busy);
        }
        runtime.block_on(async {
            tokio::select! {
                result = work(&self.client) => result.map(Ended::Done),
                reason = stopped => Ok(Ended::Stopped(reason)),
            }
        })
    }

    /// One session, as [`Client::run_once`]. A cancelled one is [`Outcome::Interrupted`].
    ///
    /// # Errors
    /// [`ClientError`]; finished work is kept, and a later session delivers it.
    pub fn run_once<T: Trainer + ?Sized>(
        &self,
        trainer: &mut T,
        host: &dyn Host,
        cancel: &CancelToken,
    ) -> Result<Outcome, ClientError> {
        let host = Cancellable { host, cancel };
        let session = async |client: &Client| client.run_once(trainer, &host).await;
        Ok(match self.run(session, cancel.cancelled())? {
            Ended::Done(outcome) => outcome,
            Ended::Stopped(()) => interrupted(),
        })
    }

    /// The client's id, as [`Client::enrol`].
    ///
    /// # Errors
    /// [`ClientError`] if the store fails, or the coordinator does not answer or refuses the token.
    pub fn enrol(&self) -> Result<ClientId, ClientError> {
        self.whole(Client::enrol)
    }

    /// Leaves, as [`Client::leave`].
    ///
    /// # Errors
    /// [`ClientError`] if the state cannot be deleted, or the device's key not be used.
    pub fn leave(&self) -> Result<bool, ClientError> {
        self.whole(Client::leave)
    }

    /// What the running jobs require of examples, as [`Client::open_jobs`].
    ///
    /// # Errors
    /// [`ClientError`] if the coordinator does not answer or refuses the token.
    pub fn open_jobs(&self) -> Result<Vec<OpenJob>, ClientError> {
        self.whole(Client::open_jobs)
    }

    /// The model that the client downloaded last, as [`Client::model`].
    ///
    /// # Errors
    /// [`ClientError`] if the store fails, or the model cannot predict.
    #[cfg(feature = "layers")]
    pub fn model(&self, job: &str) -> Result<Option<UsableModel>, ClientError> {
        self.whole(async |client| client.model(job))
    }

    /// The model that was released on a channel, as [`Client::released`].
    ///
    /// # Errors
    /// [`ClientError`] if the store fails, or if nothing is here and the coordinator does not answer.
    pub fn released(
        &self,
        channel: &str,
        freshness: Freshness,
        host: &dyn Host,
    ) -> Result<Option<ReleasedModel>, ClientError> {
        self.whole(async |client| client.released(channel, freshness, host).await)
    }

    /// Gets the newest releases, as [`Client::update_releases`].
    ///
    /// # Errors
    /// [`ClientError`] if the store fails or the coordinator does not answer.
    pub fn update_releases(&self, host: &dyn Host) -> Result<Duration, ClientError> {
        self.whole(async |client| client.update_releases(host).await)
    }

    fn whole<T>(&self, work: impl AsyncFnOnce(&Client) -> Result<T, ClientError>) -> Result<T, ClientError> {
        match self.run(work, std::future::pending::<std::convert::Infallible>())? {
            Ended::Done(done) => Ok(done),
            Ended::Stopped(never) => match never {},
        }
    }
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        if self.process != process::id() {
            // Its end would wait for threads that this process does not have.
            std::mem::forget(self.runtime.take());
        }
    }
}

/// A host that also stops when the app cancels: training asks it before each batch.
struct Cancellable<'a> {
    host: &'a dyn Host,
    cancel: &'a CancelToken,
}

impl Host for Cancellable<'_> {
    fn may_continue(&self) -> bool {
        !self.cancel.is_cancelled() && self.host.may_continue()
    }

    fn may_wait(&self) -> bool {
        !self.cancel.is_cancelled() && self.host.may_wait()
    }

    fn device_state(&self) -> DeviceState {
        self.host.device_state()
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::{Secret, SecretKind};

    use super::*;

    fn client() -> BlockingClient {
        let token = Secret::from_random(SecretKind::Enrolment, [1; 32]).expose();
        let client = Client::builder("http://127.0.0.1:1", token).store(std::sync::Arc::new(crate::MemoryStore::new()));
        BlockingClient::new(client.build().unwrap()).unwrap()
    }

    #[test]
    fn a_stop_ends_the_work_with_its_reason_and_the_client_works_again() {
        let client = client();
        let waiting = async |_: &Client| std::future::pending().await;
        let ended: Ended<(), _> = client.run(waiting, std::future::ready("the user")).unwrap();
        assert_eq!(ended, Ended::Stopped("the user"));
        let ended = client.run(async |_| Ok(3), std::future::pending::<()>()).unwrap();
        assert_eq!(ended, Ended::Done(3));
    }

    /// A test cannot fork, since it has threads: the number of the process is what a child would see as another one.
    #[test]
    fn in_another_process_every_call_is_refused_and_the_end_waits_for_nothing() {
        let mut client = client();
        client.process ^= 1;
        assert!(matches!(client.enrol(), Err(ClientError::Forked)));
        drop(client);
    }

    #[test]
    fn a_second_call_meanwhile_is_refused_and_so_is_one_inside_a_runtime() {
        let client = client();
        let inner = client.run(async |_| Ok(client.enrol()), std::future::pending::<()>());
        assert!(matches!(inner, Ok(Ended::Done(Err(ClientError::Busy)))), "{inner:?}");
        let other = self::client();
        let inner = client.run(async |_| Ok(other.enrol()), std::future::pending::<()>());
        assert!(matches!(inner, Ok(Ended::Done(Err(ClientError::Busy)))), "{inner:?}");
    }
}
