//! Whether members of a group can make the next model from their sum.

use tributary_protocol::download::ModelForm;
use tributary_protocol::job_file::{JobFile, ServerOptimizer};
use tributary_protocol::plan::Algorithm;
use tributary_protocol::sharing::Parts;

/// The rate of the step from this version, where it needs the mean of the updates and nothing else: every parameter is
/// shared, the server's optimiser and the clients' algorithm keep nothing, and neither model nor step are rounded for
/// the download.
#[must_use]
pub fn next_rate(file: &JobFile, parts: &Parts, base_version: u32) -> Option<f64> {
    let ServerOptimizer::Sgd { learning_rate, momentum: 0.0, .. } = file.aggregation.optimizer else { return None };
    let is_mean = file.aggregation.combine.is_mean();
    let keeps_nothing = matches!(file.training.algorithm, Algorithm::Plain | Algorithm::FedProx { .. });
    let is_whole = file.download.codec == ModelForm::F32 && !file.download.delta && parts.is_all_shared();
    let is_plain = is_mean && keeps_nothing && is_whole;
    is_plain.then(|| learning_rate * file.aggregation.schedule.factor(base_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(change: &str) -> Option<f64> {
        let text = format!(
            "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [2] }}, {{ name = 'v', shape = [2] }}]\n\
             training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
             round = {{ updates_goal = 4, updates_min = 4 }}\n{change}\n"
        );
        let file = JobFile::parse(&text).unwrap_or_else(|error| panic!("{change}: {error}"));
        next_rate(&file, &file.model.parts().unwrap(), 3)
    }

    #[test]
    fn members_make_what_follows_from_their_mean_alone() {
        assert_eq!(rate(""), Some(1.0));
        assert_eq!(rate("aggregation.combine = 'uniform_mean'"), Some(1.0));
        assert_eq!(rate("training.algorithm = { kind = 'fed_prox', mu = 0.1 }"), Some(1.0));
        let schedule = "schedule = { kind = 'exponential', decay = 0.5, every = 1 }";
        let halved = format!("aggregation = {{ optimizer = {{ kind = 'sgd', learning_rate = 0.5 }}, {schedule} }}");
        assert_eq!(rate(&halved), Some(0.0625));
        for other in [
            "aggregation.optimizer = { kind = 'sgd', learning_rate = 1.0, momentum = 0.9 }",
            "aggregation.optimizer = { kind = 'adam', learning_rate = 0.1 }",
            "aggregation.combine = 'median'",
            "training.algorithm = { kind = 'fed_nova' }",
            "training.algorithm = { kind = 'scaffold', clients = 12 }\naggregation.combine = 'uniform_mean'",
            "training.algorithm = { kind = 'fed_dyn', alpha = 0.5, clients = 12 }\naggregation.combine = 'uniform_mean'",
            "download.codec = 'f16'",
            "download.delta = true",
            "model.personal = ['v']",
        ] {
            assert_eq!(rate(other), None, "{other}");
        }
    }
}
