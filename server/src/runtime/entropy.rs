//! Secrets and ids from the operating system's random bytes. (Draws of a job come from its seed instead.)

use tributary_protocol::id::{Name, Secret, SecretKind};
use tributary_protocol::seed::Seed;

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("an operating system that gives no random bytes cannot serve");
    bytes
}

pub fn secret(kind: SecretKind) -> Secret {
    Secret::from_random(kind, random())
}

/// A seed for a job that names none.
pub fn seed() -> Seed {
    Seed(u64::from_le_bytes(random())).derive("job", 0)
}

/// A name for a coordinator process that was given none.
pub fn node() -> Name {
    let number = u32::from_le_bytes(random());
    format!("node-{number:08x}").parse().expect("letters, digits and a dash make a name")
}
