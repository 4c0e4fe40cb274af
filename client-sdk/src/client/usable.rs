//! The model that an app uses: from the store, without a network.

use tributary_protocol::update::model_in_form;

use crate::error::ClientError;
use crate::predict::UsableModel;
use crate::store::cards::CachedCard;
use crate::store::state::State;
use crate::tasks::personal;

/// The cached model of a job, with the client's own personal parameters; `None` if another job's is cached, or none.
pub(super) fn usable_model(state: &State, job: &str) -> Result<Option<UsableModel>, ClientError> {
    let Some((CachedCard { form, job: id, card, .. }, body)) = cached(state, job)? else { return Ok(None) };
    let parts = card.model.parts().map_err(|error| ClientError::Unusable(error.to_string()))?;
    let model = model_in_form(&body, parts.model(), form).map_err(|error| ClientError::Unusable(error.to_string()))?;
    let own = personal::kept_values(&parts, state.client_state(id));
    let model = personal::with_own(&model, &parts, own.as_deref());
    let usable = UsableModel::new(card, &model);
    usable.map(Some).map_err(|error| ClientError::Unusable(error.to_string()))
}

/// The cached model of a job with its card, in whichever slot it is.
fn cached(state: &State, job: &str) -> Result<Option<(CachedCard, Vec<u8>)>, ClientError> {
    for slot in state.slots()? {
        // A slot of another job need not be read and hashed.
        if !state.may_be_of(&slot, job)? {
            continue;
        }
        let Some((sha256, body)) = state.cached_model(&slot)? else { continue };
        if let Some(card) = state.card_of(&slot, sha256)?.filter(|found| found.card.job.as_str() == job) {
            return Ok(Some((card, body)));
        }
    }
    Ok(None)
}
