//! A client, and one session of it.

use std::sync::Arc;

use tributary_client::{AlwaysOn, BlockingClient, CancelToken, ClientError, ConditionedHost};

use crate::attest::Attester;
use crate::errors::TributaryError;
use crate::examples::Examples;
use crate::host::{Conditions, Host, ask};
use crate::keys::KeyStore;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::release::Freshness;
use crate::sets::Sets;
use crate::settings::Settings;
use crate::table::Table;
use crate::trainer::{AppTrainer, Trainer};

/// One client of a coordinator. Its calls block the calling thread; it does one at a time.
#[derive(Debug, uniffi::Object)]
pub struct Client(BlockingClient);

/// Ends the sessions that were started with it, from any thread and for good.
#[derive(Clone, Debug, Default, uniffi::Object)]
pub struct Cancel(pub(crate) CancelToken);

#[uniffi::export]
impl Cancel {
    /// One that has cancelled nothing.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Ends the sessions: a waiting one at once, a training one before its next batch.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

#[uniffi::export]
impl Client {
    /// Checks the settings. Nothing is read, written or sent yet. `keys` holds the device's key pair; without it, the
    /// key is kept in the client's folder. `attester` says something about the device where the operator asks for it.
    /// `table` answers analyses; without it, none is asked.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] that names the wrong setting.
    #[uniffi::constructor(default(keys = None, attester = None, table = None))]
    pub fn new(
        settings: Settings,
        keys: Option<Arc<dyn KeyStore>>,
        attester: Option<Arc<dyn Attester>>,
        table: Option<Arc<dyn Table>>,
    ) -> Result<Arc<Self>, TributaryError> {
        Ok(Arc::new(Self(settings.client(keys, attester, table)?)))
    }

    /// The client's id. Enrols the client if it has none.
    ///
    /// # Errors
    /// [`TributaryError`] if the coordinator does not answer or refuses the token.
    pub fn enrol(&self) -> Result<String, TributaryError> {
        Ok(self.0.enrol()?.to_string())
    }

    /// Leaves: deletes the client's folder, and has the coordinator delete what it has stored of the client. Stop its
    /// sessions first. Returns whether the coordinator knows; otherwise call it again, or the next session tells it.
    ///
    /// # Errors
    /// [`TributaryError`] if the folder cannot be deleted.
    pub fn leave(&self) -> Result<bool, TributaryError> {
        Ok(self.0.leave()?)
    }

    /// What the running jobs of the population require of examples, as JSON: a list of objects with `name`, `loss`, and
    /// for networks as layers `input` and `output`. It needs no enrolment.
    ///
    /// # Errors
    /// [`TributaryError`] if the coordinator does not answer or refuses the token.
    pub fn open_jobs(&self) -> Result<String, TributaryError> {
        let jobs = self.0.open_jobs()?;
        serde_json::to_string(&jobs).map_err(|error| TributaryError::State { detail: error.to_string() })
    }

    /// The model of a job that the client downloaded last, with its own personal parameters: from its folder, without a
    /// network. None until it has taken part in a round of the job.
    ///
    /// # Errors
    /// [`TributaryError::State`] if the folder cannot be read, or the network is part of the app.
    pub fn model(&self, job: &str) -> Result<Option<Arc<Model>>, TributaryError> {
        Ok(self.0.model(job)?.map(|model| Arc::new(Model::from(model))))
    }

    /// The model that was released on a channel, such as `stable`, whether or not this client trains. None until a
    /// release is here. What is here stays until a newer release is whole and can be used.
    ///
    /// # Errors
    /// [`TributaryError`] if the network is part of the app, or if nothing is here and the coordinator does not answer.
    #[uniffi::method(default(freshness = None, host = None, conditions = None))]
    pub fn released(
        &self,
        channel: &str,
        freshness: Option<Freshness>,
        host: Option<Arc<dyn Host>>,
        conditions: Option<Conditions>,
    ) -> Result<Option<Arc<Model>>, TributaryError> {
        let freshness = freshness.unwrap_or(Freshness::Latest).into();
        let found = hosted(host.as_deref(), conditions, |host| self.0.released(channel, freshness, host))?;
        let usable = found.map(|found| found.usable()).transpose()?;
        Ok(usable.map(|model| Arc::new(Model::from(model))))
    }

    /// Gets the newest releases of the channels of the settings, for a device that never trains. Milliseconds until the
    /// next call is due; an earlier one asks nothing. Sessions do the same.
    ///
    /// # Errors
    /// [`TributaryError`] if the coordinator does not answer; what is here stays.
    #[uniffi::method(default(host = None, conditions = None))]
    pub fn update_releases(
        &self,
        host: Option<Arc<dyn Host>>,
        conditions: Option<Conditions>,
    ) -> Result<u64, TributaryError> {
        let again = hosted(host.as_deref(), conditions, |host| self.0.update_releases(host))?;
        Ok(u64::try_from(again.as_millis()).unwrap_or(u64::MAX))
    }

    /// One session on these examples: the SDK trains, or evaluates, the layers that the job describes. Without a host
    /// the device is taken to be free; without conditions their defaults hold for a host.
    ///
    /// # Errors
    /// [`TributaryError`]; finished work is kept, and a later session delivers it.
    #[uniffi::method(default(host = None, conditions = None, cancel = None))]
    pub fn run_once(
        &self,
        examples: &Examples,
        host: Option<Arc<dyn Host>>,
        conditions: Option<Conditions>,
        cancel: Option<Arc<Cancel>>,
    ) -> Result<Outcome, TributaryError> {
        self.session(&mut examples.trainer(), host, conditions, cancel)
    }

    /// One session with a trainer of the app.
    ///
    /// # Errors
    /// [`TributaryError`]; finished work is kept, and a later session delivers it.
    #[uniffi::method(default(host = None, conditions = None, cancel = None))]
    pub fn run_trainer(
        &self,
        trainer: Arc<dyn Trainer>,
        host: Option<Arc<dyn Host>>,
        conditions: Option<Conditions>,
        cancel: Option<Arc<Cancel>>,
    ) -> Result<Outcome, TributaryError> {
        let mut trainer = AppTrainer::new(trainer)?;
        self.session(&mut trainer, host, conditions, cancel)
    }

    /// One session of an app with several models, with these example sets.
    ///
    /// # Errors
    /// [`TributaryError`]; finished work is kept, and a later session delivers it.
    #[uniffi::method(default(host = None, conditions = None, cancel = None))]
    pub fn run_sets(
        &self,
        sets: &Sets,
        host: Option<Arc<dyn Host>>,
        conditions: Option<Conditions>,
        cancel: Option<Arc<Cancel>>,
    ) -> Result<Outcome, TributaryError> {
        self.session(&mut sets.trainers()?, host, conditions, cancel)
    }
}

impl Client {
    fn session<T: tributary_client::Trainer>(
        &self,
        trainer: &mut T,
        host: Option<Arc<dyn Host>>,
        conditions: Option<Conditions>,
        cancel: Option<Arc<Cancel>>,
    ) -> Result<Outcome, TributaryError> {
        let cancel = cancel.map(|cancel| cancel.0.clone()).unwrap_or_default();
        let outcome = hosted(host.as_deref(), conditions, |host| self.0.run_once(trainer, host, &cancel))?;
        Ok(outcome.into())
    }
}

/// Works while the conditions hold on the host. Without both, the device is taken to be free.
fn hosted<T>(
    host: Option<&dyn Host>,
    conditions: Option<Conditions>,
    work: impl FnOnce(&dyn tributary_client::Host) -> Result<T, ClientError>,
) -> Result<T, TributaryError> {
    if host.is_none() && conditions.is_none() {
        return Ok(work(&AlwaysOn)?);
    }
    let conditions = conditions.unwrap_or_default().checked()?;
    Ok(work(&ConditionedHost::new(conditions, || ask(host)))?)
}
