//! The GPU of the browser (WebGPU), as the SDK's trainer uses it.

use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use tributary_client::trainer::{Accelerator, Work};

use crate::errands::{Errand, Errands, answered};

/// Leaves work for the GPU as errands.
#[derive(Clone, Debug)]
pub(crate) struct BrowserGpu(pub(crate) Errands);

impl Accelerator for BrowserGpu {
    fn run(&mut self, work: Work) -> BoxFuture<'static, Result<Vec<f32>, String>> {
        let (answer, done) = oneshot::channel();
        self.0.leave(Errand::Compute { work, answer });
        Box::pin(async move {
            let done = answered(done).await;
            done.unwrap_or_else(|| Err("the page is being closed".to_owned()))
        })
    }
}
