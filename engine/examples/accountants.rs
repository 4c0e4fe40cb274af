//! What ledgers spend, for `scripts/accountants`: JSON lines in, a JSON line out for each.
//!
//! In: `{"delta": 1e-6, "charges": [{"kind": "sampled", "noise_multiplier": 1.0, "rate": 0.01, "times": 500}]}`; other
//! kinds are `gaussian`, `correlated` (with `mu` alone) and `laplace` (with `scale`). Out: `{"epsilon": 1.2, "renyi":
//! 1.4}`, by the tight accountant and by Rényi divergences.

use std::error::Error;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use tributary_engine::privacy::{Charge, Spent, spent};

#[derive(Deserialize)]
struct Ledger {
    charges: Vec<Entry>,
    delta: f64,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Entry {
    Gaussian { noise_multiplier: f64, times: u32 },
    Sampled { noise_multiplier: f64, rate: f64, times: u32 },
    Correlated { mu: f64 },
    Laplace { scale: f64, times: u32 },
}

impl From<Entry> for Charge {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Gaussian { noise_multiplier, times } => Self::Gaussian { noise_multiplier, times },
            Entry::Sampled { noise_multiplier, rate, times } => Self::Sampled { noise_multiplier, rate, times },
            Entry::Correlated { mu } => Self::Correlated { mu },
            Entry::Laplace { scale, times } => Self::Laplace { scale, times },
        }
    }
}

#[derive(Serialize)]
struct Answer {
    epsilon: f64,
    renyi: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ledger { charges, delta } = serde_json::from_str(&line?)?;
        let charges: Vec<Charge> = charges.into_iter().map(Charge::from).collect();
        // Accountants that disagree are shown as well: the script says by how much.
        let (epsilon, renyi) = match spent(&charges, delta) {
            Ok(Spent { epsilon, epsilon_renyi }) => (epsilon, epsilon_renyi),
            Err(error) => (error.tight, error.renyi),
        };
        writeln!(output, "{}", serde_json::to_string(&Answer { epsilon, renyi })?)?;
    }
    Ok(())
}
