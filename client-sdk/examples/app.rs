//! A whole app, which trains the network of a job file on data of its own. See README.md.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, token, state] = arguments.as_slice() else { return Err("usage: app SERVER TOKEN STATE_DIR".into()) };

    // What the app has collected: ten pictures of 8 by 8 pixels, each with its digit.
    let pictures: Vec<f32> =
        (0..10).flat_map(|digit| (0..64).map(move |pixel| f32::from(pixel % 10 == digit))).collect();
    let digits: Vec<u32> = (0..10).collect();

    let examples = MemoryExamples::new(vec![1, 8, 8], pictures, Targets::Classes(digits))?;
    let mut trainer = LayerTrainer::new(Arc::new(examples));
    let client = Client::builder(server, token).state_dir(state).wait(Duration::from_secs(60)).build()?;
    match client.run_once(&mut trainer, &AlwaysOn).await? {
        Outcome::Contributed { round, .. } => println!("contributed to round {round}"),
        other => println!("{other:?}; come back in {:?}", other.retry_after()),
    }
    Ok(())
}
