//! What jobs in simulated time learn, and who trains them: digits that are split among a fleet.

use std::path::Path;

use tributary::data::labels;
use tributary::data::partition::Partition;
use tributary::demo::args::{Dataset, DemoArgs, Network};
use tributary::demo::data::{DemoData, of_clients};
use tributary::demo::{job_file, load_data};
use tributary::error::CliError;
use tributary::output::Output;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::Codec;
use tributary_simulation::{Learner, SimulationError};

use crate::error::BenchError;

/// A fleet of clients with examples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) clients: u32,
    pub(crate) partition: Partition,
    pub(crate) network: Network,
    pub(crate) seed: u64,
}

impl Split {
    /// The demo's job and its data: MNIST from a folder, into which missing files are downloaded, or the embedded
    /// digits.
    pub(crate) async fn load(&self, data_dir: Option<&Path>, output: &Output) -> Result<(JobFile, DemoData), CliError> {
        let demo = DemoArgs {
            dataset: if data_dir.is_some() { Dataset::Mnist } else { Dataset::Digits },
            data_dir: data_dir.map(Path::to_path_buf).unwrap_or_default(),
            model: self.network,
            seed: self.seed,
            partition: Some(self.partition),
            clients: Some(self.clients),
            codec: Some(Codec::F32),
            no_faults: true,
            ..DemoArgs::default()
        };
        let file = job_file(&demo)?;
        let data = load_data(&demo, &file, output).await?;
        Ok((file, data))
    }

    /// The clients with their parts of the examples.
    pub(crate) fn learner(&self, data: &DemoData) -> Result<Learner, BenchError> {
        let labels = labels(&data.train).ok_or_else(|| BenchError::Train("the examples have no classes".to_owned()))?;
        let split = self.partition.split(&labels, self.clients as usize, Seed(self.seed)).map_err(failed)?;
        Ok(Learner::new(of_clients(&data.train, &split).map_err(failed)?, data.test.clone()))
    }
}

pub(crate) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Train(error.to_string())
}

impl From<SimulationError> for BenchError {
    fn from(error: SimulationError) -> Self {
        failed(error)
    }
}
