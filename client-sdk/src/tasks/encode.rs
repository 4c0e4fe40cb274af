//! The file of an update, within the norm bound of its plan.

use std::sync::Arc;

use tributary_protocol::device::Assignment;
use tributary_protocol::model::ParameterList;
use tributary_protocol::update::{EncodeError, Feedback, Residual, UpdateHeader, UpdateLimits, encode_with_residual};

use super::norm::{self, norm, sent_norm};
use crate::trainer::TrainError;

/// Limits of a plan without bounds.
const LIMITS: UpdateLimits = UpdateLimits::of_magnitude(f32::MAX);

/// An update as it is sent.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) file: Vec<u8>,
    /// What error feedback keeps of it.
    pub(super) left_out: Option<Residual>,
    parameters: Arc<ParameterList>,
    header: UpdateHeader,
}

impl Encoded {
    /// Its values as the coordinator decodes them.
    pub(super) fn sent(&self) -> Vec<f32> {
        norm::sent(&self.file, &self.parameters, &self.header)
    }
}

/// The values of the file of an update that this client has written.
///
/// # Errors
/// [`TrainError::DoesNotFit`] if the plan has no such file.
pub(crate) fn sent(file: &[u8], assignment: &Assignment) -> Result<Vec<f32>, TrainError> {
    let fits = |error: &dyn std::fmt::Display| TrainError::DoesNotFit(error.to_string());
    let parts = assignment.plan.model.parts().map_err(|error| fits(&error))?;
    let parameters = parameters_of(assignment, parts.shared())?;
    norm::read(file, &parameters, &header_of(assignment)).map_err(|error| fits(&error))
}

/// The parameters of an update of these shared ones.
pub(super) fn parameters_of(assignment: &Assignment, shared: &ParameterList) -> Result<Arc<ParameterList>, TrainError> {
    let parameters = assignment.plan.training.algorithm.update_parameters(shared);
    parameters.map(Arc::new).map_err(|error| TrainError::DoesNotFit(error.to_string()))
}

pub(super) fn header_of(assignment: &Assignment) -> UpdateHeader {
    UpdateHeader {
        codec: assignment.plan.codec,
        job: assignment.job.to_string(),
        base_version: assignment.model_version.into(),
    }
}

/// Encodes the values of the delta of these shared parameters, then those of the control vector's change, with what
/// earlier updates left out.
///
/// # Errors
/// [`TrainError`] for values that no update can hold.
pub(super) fn encode(
    mut values: Vec<f32>,
    assignment: &Assignment,
    shared: &ParameterList,
    left_out: Option<&Residual>,
) -> Result<Encoded, TrainError> {
    let header = header_of(assignment);
    let parameters = parameters_of(assignment, shared)?;
    let delta = ..shared.total();
    // What was left out, scaled down with the delta.
    let mut scaled: Option<Residual> = None;
    let limits = UpdateLimits { norm_max: assignment.plan.norm_max.unwrap_or(f64::INFINITY), ..LIMITS };
    if limits.norm_max.is_finite() {
        let norm = norm(&values[delta]);
        if norm > limits.norm_max {
            norm::scale(&mut values[delta], None, norm, limits.norm_max);
        }
    }
    for _ in 0..norm::ATTEMPTS_MAX {
        let encoded = encode_with_residual(
            &values,
            &parameters,
            &header,
            assignment.round,
            assignment.seed.derive("update", 0),
            Feedback { residual: scaled.as_ref().or(left_out), model_sha256: assignment.model_sha256 },
        );
        let (file, left) = encoded.map_err(|error| match error {
            EncodeError::NotFinite { .. } => TrainError::Diverged,
            error => TrainError::DoesNotFit(error.to_string()),
        })?;
        if limits.norm_max.is_finite() {
            let sent = sent_norm(&file, &parameters, &header, delta.end);
            if !limits.allow_norm(sent) {
                scaled = scaled.or_else(|| left_out.cloned());
                norm::scale(&mut values[delta], scaled.as_mut(), sent, limits.norm_max);
                continue;
            }
        }
        return Ok(Encoded { file, left_out: left, parameters, header });
    }
    Err(TrainError::DoesNotFit(format!("no update within the norm bound of {}", limits.norm_max)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tributary_protocol::model::ParameterSpec;

    use super::*;
    use crate::fixtures;

    const VALUES: usize = 1_000;

    fn assignment(codec: &Value, norm_max: Option<f64>, round: u32) -> Assignment {
        Assignment { round, ..fixtures::assignment(&json!({ "codec": codec, "norm_max": norm_max })) }
    }

    fn parameters() -> Arc<ParameterList> {
        Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [VALUES])]).unwrap())
    }

    fn encoded(values: &[f32], assignment: &Assignment, left_out: Option<&Residual>) -> Encoded {
        encode(values.to_vec(), assignment, &parameters(), left_out).unwrap()
    }

    /// Goal: whatever the codec adds to a delta, and whatever error feedback kept, the coordinator accepts the norm.
    #[test]
    fn an_update_keeps_the_norm_bound_with_every_codec_and_over_rounds() {
        let delta: Vec<f32> = (0..VALUES).map(|index| (index % 13) as f32 - 6.0).collect();
        let norm = norm(&delta);
        for codec in [
            json!("f32"),
            json!("f16"),
            json!("int8"),
            json!("int4"),
            json!("ternary"),
            json!("qsgd"),
            json!("eden"),
            json!("random_k"),
            json!("sign"),
            json!("top_k"),
            json!("dgc"),
            json!("hierarchical"),
        ] {
            let (free, bound) = (assignment(&codec, None, 1), norm / 10.0);
            let unbounded = norm::norm(&encoded(&delta, &free, None).sent());
            assert!(unbounded > bound * 1.01, "{codec}: it would not be clipped");
            let mut left_out = None;
            for round in 1..=4 {
                let bounded = assignment(&codec, Some(bound), round);
                let update = encoded(&delta, &bounded, left_out.as_ref());
                let sent = norm::norm(&update.sent());
                assert!(sent <= bound * 1.01 && sent > 0.0, "{codec} in round {round}: {sent} for {bound}");
                left_out = update.left_out;
            }
        }
    }

    #[test]
    fn an_update_within_the_bound_is_sent_as_it_is() {
        let delta: Vec<f32> = (0..VALUES).map(|index| index as f32 / 1e4).collect();
        for codec in [json!("int8"), json!("top_k")] {
            let update = |norm_max| encoded(&delta, &assignment(&codec, norm_max, 1), None);
            let (free, bounded) = (update(None), update(Some(100.0)));
            assert_eq!(free.file, bounded.file);
            assert_eq!(free.left_out, bounded.left_out);
        }
    }
}
