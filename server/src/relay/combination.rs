//! What the round of a relay in a coded tree comes to: the combination of its children's answers and of the parts that
//! it keeps, as an update of its own.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_protocol::update::encode;

use crate::db::RoundRow;
use crate::models::error::CommitError;
use crate::models::gather::combined_values;
use crate::runtime::offload::blocking;
use crate::services::Services;
use crate::updates::sums::Sums;

/// Decodes the answers into the file of an update. The same answers have the same bits again, so that a delivery that
/// broke off goes on.
///
/// In memory are 8 bytes a value of the mixture, and 12 of the update and its file.
pub(super) async fn combination(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<Vec<u8>, CommitError> {
    let values = combined_values(services, sums, spec, round).await?;
    let (spec, header) = (Arc::clone(spec), spec.update_header(round.base_version));
    let (number, seed) = (round.number, round.seed());
    Ok(blocking(move || encode(&values, &spec.update, &header, number, seed)).await?)
}
