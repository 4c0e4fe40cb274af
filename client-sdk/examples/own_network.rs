//! A whole app with a network of its own, written in burn.
//!
//! It prints the `[model]` of its job file, then takes part in one session:
//!
//! ```sh
//! cargo run -p tributary-client --example own_network -- http://127.0.0.1:7300 tributary_enrolment_.. state
//! ```
//!
//! Started twice with the same state directory it is the same client; killed after training, it delivers its update at
//! the next start.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, activation};
use tributary_client::burn;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::trainer::{Network, Pass, parameters_of};
use tributary_client::{AlwaysOn, BurnTrainer, Client};

/// Two hidden units are enough for the exclusive or of two bits.
#[derive(Module, Debug)]
struct Xor {
    hidden: Linear,
    output: Linear,
}

impl Xor {
    fn new(device: &Device) -> Self {
        Self { hidden: LinearConfig::new(2, 4).init(device), output: LinearConfig::new(4, 2).init(device) }
    }
}

impl Network for Xor {
    fn forward(&mut self, inputs: Tensor<2>, _: &mut Pass) -> Tensor<2> {
        self.output.forward(activation::tanh(self.hidden.forward(inputs)))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let parameters = parameters_of(&Xor::new(&Device::flex()));
    println!("[model]\nparameters = [");
    for parameter in parameters {
        println!("  {{ name = {:?}, shape = {:?} }},", parameter.name, parameter.shape);
    }
    println!("]");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, token, state] = arguments.as_slice() else {
        eprintln!("to take part: own_network SERVER ENROLMENT_TOKEN STATE_DIR");
        return Ok(());
    };
    let inputs = vec![0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0];
    let examples = MemoryExamples::new(vec![2], inputs, Targets::Classes(vec![0, 1, 1, 0]))?;
    let mut trainer = BurnTrainer::with_network(Xor::new, Arc::new(examples));
    let client = Client::builder(server, token).state_dir(state).wait(Duration::from_secs(60)).build()?;
    println!("client {}", client.enrol().await?);
    let outcome = client.run_once(&mut trainer, &AlwaysOn).await?;
    println!("{outcome:?}");
    Ok(())
}
