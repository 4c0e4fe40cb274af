//! The shortest app: it takes part in a round of the job `points` and predicts. `smallest SERVER TOKEN`

use std::sync::Arc;

use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Client, LayerTrainer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, server, token] = arguments.as_slice() else { return Err("usage: smallest SERVER TOKEN".into()) };
    let examples = MemoryExamples::new(vec![2], vec![0.5, -1.0, -0.25, 0.75], Targets::Classes(vec![0, 1]))?;
    let client = Client::builder(server, token).state_dir("state").build()?;
    client.run_once(&mut LayerTrainer::new(Arc::new(examples)), &AlwaysOn).await?;
    if let Some(model) = client.model("points")? {
        let prediction = model.predict(&[0.1, -0.4])?;
        println!("{:?}: {:?}", prediction.class.map(|class| model.class_name(class)), prediction.probabilities);
    }
    Ok(())
}
