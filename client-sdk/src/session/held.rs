//! Calls that the coordinator holds until the other members of a group have done their part.

use std::future::Future;

use crate::error::ClientError;
use crate::host::Host;
use crate::trainer::TrainError;

/// Asks until there is an answer, or the host ends the session: a later one goes on.
pub(super) async fn held<Asked>(host: &dyn Host, ask: impl Fn() -> Asked) -> Result<Vec<u8>, ClientError>
where
    Asked: Future<Output = Result<Option<Vec<u8>>, ClientError>>,
{
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if !host.may_continue() {
            return Err(ClientError::Training(TrainError::Interrupted));
        }
    }
}
