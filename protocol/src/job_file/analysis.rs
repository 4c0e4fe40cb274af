//! What follows from `[analysis]` for the rest of a job file.

use super::error::require;
use super::{Aggregation, Clip, Combine, JobFile, JobFileError, Mechanism, Privacy, UpdatePolicy};
use crate::job_model::JobModel;
use crate::layers::ModelSpec;
use crate::noise::local_magnitude_max;
use crate::plan::Training;
use crate::update::Codec;

/// Largest number of an answer that one client may send: most rows of a table that count in full.
const ANSWER_MAX: f32 = 1e6;

impl JobFile {
    /// The file with what follows from its analysis: the answers as its model, sums of exact updates, as many rounds as
    /// the answers take, and independent noise for a clip of 1, which is the norm of a client's vector. A file without
    /// an analysis stays as it is.
    ///
    /// # Errors
    /// [`JobFileError`] for a query that cannot be asked, and for settings that an analysis has not.
    pub fn completed(self) -> Result<Self, JobFileError> {
        let Some(analysis) = &self.analysis else { return Ok(self) };
        analysis.check(self.privacy.is_some())?;
        let (rounds, model) = (analysis.rounds(), analysis.model());
        let is_none = self.model == JobModel::default() || self.model == model;
        require(is_none, "[model]", "left out: the model of an analysis is its answers")?;
        require(self.training.is_none(), "[training]", "left out: clients answer an analysis, and train nothing")?;
        let given = self.stop.rounds.is_none_or(|given| given == rounds);
        require(given, "[stop] rounds", &format!("left out: these queries take {rounds}"))?;
        let privacy = self.privacy.map(|privacy| Privacy {
            clip: Clip::Fixed(1.0),
            mechanism: match privacy.mechanism {
                Mechanism::Local => Mechanism::Local,
                Mechanism::Blt | Mechanism::Gaussian | Mechanism::Distributed => Mechanism::Gaussian,
            },
            participations_max: rounds,
            separation: Some(1),
            ..privacy
        });
        let mut stop = self.stop;
        stop.rounds = Some(rounds);
        let magnitude_max = privacy.as_ref().map_or(ANSWER_MAX, Privacy::answer_max);
        Ok(Self {
            model,
            update: UpdatePolicy { codec: Codec::F32, magnitude_max, ..self.update },
            aggregation: Aggregation { combine: Combine::UniformMean, ..self.aggregation },
            privacy,
            stop,
            ..self
        })
    }

    /// Checks what an analysis has not. A job without one must have a model and a training.
    pub(super) fn check_analysis(&self) -> Result<(), JobFileError> {
        let Some(analysis) = &self.analysis else {
            let is_empty = matches!(&self.model.spec, ModelSpec::Parameters(parameters) if parameters.is_empty());
            return require(!is_empty, "[model]", "given, or an [analysis]");
        };
        analysis.check(self.privacy.is_some())?;
        let is_completed = self.model == analysis.model() && self.training == Training::default();
        require(is_completed, "[analysis]", "without [model] and [training]")?;
        require(self.data.is_none(), "data", "left out: an analysis reads the client's table")?;
        let answers = "left out: an analysis adds up answers as they are";
        require(self.aggregation.optimizer == Aggregation::default().optimizer, "[aggregation.optimizer]", answers)?;
        require(self.aggregation.schedule.is_constant(), "[aggregation] schedule", answers)?;
        require(self.evaluation.is_none(), "[evaluation]", "left out: an analysis has no network to evaluate")?;
        require(self.round.mode.is_synchronous(), "[round] mode", "left out: an analysis asks a cohort at a time")?;
        require(self.download.is_plain(), "[download]", "left out: an analysis has no network")?;
        require(self.update.norm_max.is_none(), "[update] norm_max", answers)?;
        let is_local = self.privacy.as_ref().is_some_and(|privacy| privacy.mechanism == Mechanism::Local);
        let told = "left out: it is the number of clients whose noise is in a sum with mechanism = \"local\"";
        require(is_local || analysis.noised_by.is_none(), "[analysis] noised_by", told)?;
        let clients = analysis.noised_by.unwrap_or(u32::MAX);
        let planned = format!("at most {clients}, whose noise is in the answers");
        require(self.round.updates_goal <= clients, "[round] updates_goal", &planned)
    }
}

impl Privacy {
    /// The largest number that a client sends to an analysis: its vector has a norm of at most 1, and its own noise may
    /// be in it.
    #[must_use]
    pub fn answer_max(&self) -> f32 {
        match (self.mechanism, self.noise_multiplier) {
            (Mechanism::Local, Some(noise)) => local_magnitude_max(noise),
            (Mechanism::Local, None) => ANSWER_MAX,
            (Mechanism::Blt | Mechanism::Gaussian | Mechanism::Distributed, _) => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = 'sessions'\npopulation = 'shop'\n\
        analysis.queries = [{ name = 'age', kind = 'mean', column = 'age', range = [0, 100] }]\n";

    #[test]
    fn an_analysis_is_a_whole_job() {
        let file = JobFile::parse(FILE).unwrap();
        assert_eq!((file.model.parameters().unwrap().total(), file.stop.rounds), (3, Some(1)));
        assert_eq!((file.update.codec, file.aggregation.combine), (Codec::F32, Combine::UniformMean));
        assert_eq!(JobFile::parse(&file.text()).unwrap(), file);
        let private = JobFile::parse(&format!("{FILE}privacy.epsilon = 1\nprivacy.delta = 1e-6")).unwrap();
        let privacy = private.privacy.as_ref().unwrap();
        assert_eq!((privacy.clip, privacy.mechanism), (Clip::Fixed(1.0), Mechanism::Gaussian));
        assert_eq!(JobFile::parse(&private.text()).unwrap(), private);
        let local =
            format!("{FILE}privacy = {{ epsilon = 1, delta = 1e-6, mechanism = 'local', noise_multiplier = 4 }}");
        let local = JobFile::parse(&local).unwrap();
        assert_eq!(local.privacy.as_ref().unwrap().mechanism, Mechanism::Local);
        assert_eq!(local.update.magnitude_max, 61.0, "a row, and noise");
        assert_eq!(JobFile::parse(&local.text()).unwrap(), local);
    }

    #[test]
    fn what_an_analysis_has_not_is_named() {
        for (settings, named) in [
            ("model.parameters = [{ name = 'w', shape = [2] }]", "[model]"),
            ("training.steps = 1\ntraining.optimizer = { kind = 'sgd', learning_rate = 1.0 }", "[training]"),
            ("stop.rounds = 2", "[stop] rounds"),
            ("evaluation.every_rounds = 1", "[evaluation]"),
            ("update.norm_max = 5.0", "[update] norm_max"),
            ("analysis.noised_by = 5", "[analysis] noised_by"),
            ("aggregation.optimizer = { kind = 'adam' }", "[aggregation.optimizer]"),
            ("round.mode = { kind = 'buffered', buffer = 5, concurrency = 5 }", "[round] mode"),
        ] {
            let refused = JobFile::parse(&format!("{FILE}{settings}")).unwrap_err().to_string();
            assert!(refused.contains(named), "{settings}: {refused}");
        }
        let nothing = JobFile::parse("name = 'a'\npopulation = 'b'").unwrap_err().to_string();
        assert_eq!(nothing, "[model] must be given, or an [analysis]");
        let no_training =
            JobFile::parse("name = 'a'\npopulation = 'b'\nmodel.parameters = [{ name = 'w', shape = [2] }]");
        assert!(no_training.unwrap_err().to_string().contains("epochs"));
    }
}
