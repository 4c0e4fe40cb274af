//! The SDKs of a population, and which of its clients cannot follow a plan.

use tributary_engine::story::{SdkClients, Unable, incapable};
use tributary_protocol::abilities::Abilities;
use tributary_protocol::id::Name;

use crate::db::{DbError, Software, Tx};

/// Active clients that cannot do what a plan needs; none if all can.
pub(in crate::api) async fn unable(
    tx: &mut Tx,
    population: &Name,
    needed: Abilities,
) -> Result<Option<Unable>, DbError> {
    Ok(incapable(needed, &sdks(tx, population).await?))
}

/// Active clients by their SDKs.
pub(super) async fn sdks(tx: &mut Tx, population: &Name) -> Result<Vec<SdkClients>, DbError> {
    let named = |(Software { kind, version, abilities }, clients)| {
        let words = [kind.map(|kind| kind.to_string()), version];
        let sdk = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        SdkClients { sdk: if sdk.is_empty() { "an unknown SDK".to_owned() } else { sdk }, abilities, clients }
    };
    Ok(tx.software(population).await?.into_iter().map(named).collect())
}
