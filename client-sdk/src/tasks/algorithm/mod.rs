//! The client's half of each algorithm: one file per algorithm. A new one is such a file with an arm in [`begin`].

mod contract;
mod drift;
mod elastic;
mod plain;

use tributary_protocol::plan;

use self::drift::Drift;
use self::elastic::Elastic;
use self::plain::Plain;
use crate::models::Base;
use crate::store::kept::Kept;

pub(super) use self::contract::{Algorithm, Reached};

/// The client's half of this algorithm, for an update that begins with `base`. `kept` reads what the job keeps on the
/// device.
pub(super) fn begin<'a>(
    algorithm: plan::Algorithm,
    base: &'a Base,
    kept: impl FnOnce() -> Option<Kept>,
) -> Box<dyn Algorithm + 'a> {
    use plan::Algorithm::{Easgd, FedDyn, FedNova, FedProx, Plain as FedAvg, Scaffold};
    match algorithm {
        FedAvg | FedProx { .. } | FedNova { .. } => Box::new(Plain),
        Scaffold { .. } | FedDyn { .. } => Box::new(Drift::begin(algorithm, base, kept())),
        Easgd { alpha } => Box::new(Elastic::begin(alpha, base, kept())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tributary_protocol::model::Model;

    use super::*;
    use crate::fixtures::assignment;

    #[test]
    fn an_algorithm_without_vectors_of_its_own_reads_none() {
        let parts = assignment(&json!({})).plan.model.parts().unwrap();
        let model = Model::new(Arc::clone(parts.model()), vec![0.0; 2]).unwrap();
        let base = Base { model, parts, control: None, updates: 0 };
        let fed_prox = plan::Algorithm::FedProx { mu: 1.0, adaptive: None };
        assert_eq!(begin(fed_prox, &base, || panic!("nothing is kept")).constant(), None);
    }
}
