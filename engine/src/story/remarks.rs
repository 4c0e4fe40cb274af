//! Remarks on a job file: what is allowed and probably not meant.

use tributary_protocol::job_file::{Divisor, EvaluationPlace, JobFile, StalenessWeight};
use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
use tributary_protocol::plan::{Algorithm, Loss};

use super::groups::planned;
use crate::round::examples_for;

/// Examples of an evaluation that small fleets may not have.
const STOP_EXAMPLES_MIN: u64 = 100;

/// Remarks on a valid job file, in sentences.
pub fn remarks(file: &JobFile) -> Vec<String> {
    let on_rounds = on_stop(file).into_iter().chain(on_one_evaluator(file));
    let on_rounds = on_rounds.chain(on_weights(file)).chain(on_steps(file));
    let mut remarks: Vec<String> = on_rounds.chain(planned(file)).collect();
    let ModelSpec::Layers(model) = &file.model.spec else { return remarks };
    let Ok(outputs) = model.shapes() else { return remarks };
    remarks.extend(on_rows(model, &outputs));
    match outputs.last().map(Vec::as_slice) {
        Some([rows, _] | [rows, _, _]) => remarks.push(format!(
            "The network ends with {:?}: each example has {rows} predictions and needs as many labels, as in \
             predicting the next token.",
            outputs.last().map_or(&[][..], Vec::as_slice)
        )),
        Some([1]) if file.training.loss == Loss::CrossEntropy => remarks.push(
            "The network has one output, and with the loss cross_entropy that is one class: all examples are right \
             from the start. It needs one output per class."
                .to_owned(),
        ),
        _ => {}
    }
    remarks
}

/// An accuracy of which only many examples make sure.
fn on_stop(file: &JobFile) -> Option<String> {
    let accuracy = file.stop.accuracy?;
    let examples = examples_for(accuracy);
    (examples >= STOP_EXAMPLES_MIN).then(|| {
        format!(
            "[stop] accuracy = {accuracy} is reached by the lower end of the 95 % interval: without a single error that \
             takes {examples} examples in one evaluation, and with errors more."
        )
    })
}

/// An end of the job that one client decides.
fn on_one_evaluator(file: &JobFile) -> Option<String> {
    let accuracy = file.stop.accuracy?;
    let evaluation = file.evaluation.as_ref().filter(|policy| policy.place == EvaluationPlace::Clients)?;
    (evaluation.reports_goal == Some(1)).then(|| {
        format!(
            "With [evaluation] reports_goal = 1 a single client decides when [stop] accuracy = {accuracy} is reached, also \
             one that reports a false accuracy. Without reports_goal all clients that are here evaluate."
        )
    })
}

/// A mean of one update is that update, whatever it weighs.
fn on_weights(file: &JobFile) -> Option<String> {
    let buffered = file.round.mode.buffered().filter(|mode| mode.buffer == 1 && mode.divisor == Divisor::Weights)?;
    (buffered.staleness_weight != StalenessWeight::Constant).then(|| {
        "With buffer = 1 and divisor = \"weights\" the weights of late updates cancel out: a late update moves the model as \
         far as a fresh one. divisor = \"count\" makes its step shorter."
            .to_owned()
    })
}

/// FedNova counts the steps of a proximal term by a series that alternates or grows where a step overshoots.
fn on_steps(file: &JobFile) -> Option<String> {
    let Algorithm::FedNova { mu } = file.training.algorithm else { return None };
    let rate = file.training.optimizer.learning_rate() * mu;
    (rate >= 2.0).then(|| {
        format!(
            "The learning rate times mu is {rate}: from 2 on a step overshoots the model that mu pulls to, and fed_nova \
             divides by numbers of steps that alternate or grow without bound. Below 1 it works."
        )
    })
}

/// The first linear layer that reads an example of several dimensions row by row. After an embedding or a recurrent
/// layer that is how sequences are read.
fn on_rows(model: &LayeredModel, outputs: &[Vec<usize>]) -> Option<String> {
    let inputs = std::iter::once(&model.input).chain(outputs);
    let mut reads_sequences = false;
    for (index, (layer, input)) in model.layers.iter().zip(inputs).enumerate() {
        reads_sequences |= matches!(layer, Layer::Embedding { .. } | Layer::Lstm { .. } | Layer::Gru { .. });
        let [rows @ .., last] = input.as_slice() else { continue };
        if matches!(layer, Layer::Linear { .. } | Layer::LowRank { .. }) && !rows.is_empty() && !reads_sequences {
            let (count, kind, output) = (rows.iter().product::<usize>(), layer.kind(), &outputs[index]);
            return Some(format!(
                "layers[{index}] {kind} reads the {last} values of each of the {count} rows of {input:?} by \
                 themselves: its output is {output:?}. For one output per example, put {{ kind = \"flatten\" }} before it.",
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(model: &str) -> Vec<String> {
        let training = "epochs = 1\noptimizer = { kind = \"sgd\", learning_rate = 0.1 }";
        let head = "name = \"digits\"\npopulation = \"shop\"";
        let text = format!("{head}\n[model]\n{model}\n[training]\n{training}");
        remarks(&JobFile::parse(&text).unwrap())
    }

    #[test]
    fn an_image_that_goes_into_a_linear_layer_unflattened_is_said_plainly() {
        let linear = "{ kind = \"linear\", out_features = 10 }";
        let found = on(&format!("input = [8, 8]\nlayers = [{linear}]"));
        assert_eq!(
            found,
            [
                "layers[0] linear reads the 8 values of each of the 8 rows of [8, 8] by themselves: its output is [8, 10]. \
                 For one output per example, put { kind = \"flatten\" } before it.",
                "The network ends with [8, 10]: each example has 8 predictions and needs as many labels, as in predicting \
                 the next token.",
            ]
        );
        assert!(on(&format!("input = [8, 8]\nlayers = [{{ kind = \"flatten\" }}, {linear}]")).is_empty());
        let tokens = format!("input = [5]\nlayers = [{{ kind = \"embedding\", tokens = 9, size = 4 }}, {linear}]");
        let found = on(&tokens);
        assert!(found.len() == 1 && found[0].starts_with("The network ends with [5, 10]"), "{found:?}");
    }

    #[test]
    fn weights_that_cancel_out_and_steps_that_overshoot_are_said() {
        let of = |algorithm: &str, mode: &str| {
            let text = format!(
                "name = 'a'\npopulation = 'b'\n[model]\nparameters = [{{ name = 'w', shape = [1] }}]\n[training]\nsteps = 1\n\
                 optimizer = {{ kind = 'sgd', learning_rate = 0.5 }}\nalgorithm = {algorithm}\n[round]\nmode = {mode}"
            );
            remarks(&JobFile::parse(&text).unwrap())
        };
        let buffered = |settings: &str| format!("{{ kind = 'buffered', buffer = 1, concurrency = 4{settings} }}");
        let found = of("{ kind = 'plain' }", &buffered(", divisor = 'weights'"));
        assert!(found.len() == 1 && found[0].contains("cancel out"), "{found:?}");
        assert!(of("{ kind = 'plain' }", &buffered("")).is_empty());
        let constant = ", divisor = 'weights', staleness_weight = { kind = 'constant' }";
        assert!(of("{ kind = 'plain' }", &buffered(constant)).is_empty());
        let found = of("{ kind = 'fed_nova', mu = 4.0 }", "{ kind = 'synchronous' }");
        assert!(found.len() == 1 && found[0].contains("is 2: from 2 on"), "{found:?}");
        assert!(of("{ kind = 'fed_nova', mu = 3.9 }", "{ kind = 'synchronous' }").is_empty());
    }

    #[test]
    fn an_accuracy_of_one_client_that_ends_the_job_is_said() {
        let of = |rest: &str| {
            let text = format!(
                "name = 'a'\npopulation = 'b'\n[model]\nparameters = [{{ name = 'w', shape = [1] }}]\n[training]\nsteps = 1\n\
                 optimizer = {{ kind = 'sgd', learning_rate = 0.5 }}\n{rest}"
            );
            remarks(&JobFile::parse(&text).unwrap())
        };
        let found = of("[stop]\naccuracy = 0.9\n[evaluation]\nreports_goal = 1");
        assert!(found.len() == 1 && found[0].contains("a single client decides"), "{found:?}");
        let found = of("[stop]\naccuracy = 0.963\n[evaluation]");
        assert!(found.len() == 1 && found[0].contains("takes 100 examples in one evaluation"), "{found:?}");
        for rest in ["[stop]\naccuracy = 0.962\n[evaluation]", "[evaluation]\nreports_goal = 1"] {
            assert_eq!(of(rest), Vec::<String>::new(), "{rest}");
        }
        let more = of("[stop]\naccuracy = 0.9\n[evaluation]\nreports_goal = 2");
        assert!(more.is_empty(), "{more:?}");
    }

    #[test]
    fn one_class_is_no_classification() {
        let found = on("input = [4]\nlayers = [{ kind = \"linear\", out_features = 1 }]");
        assert!(found.len() == 1 && found[0].contains("one output per class"), "{found:?}");
    }
}
