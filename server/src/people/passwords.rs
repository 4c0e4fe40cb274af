//! Password hashes: Argon2id (RFC 9106) on blocking threads.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use tokio::sync::Semaphore;
use tributary_protocol::sealed::Sealed;

use crate::runtime::entropy;
use crate::runtime::offload::blocking;

/// Memory in KiB, passes and lanes: OWASP's Password Storage Cheat Sheet, first recommendation for Argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Hashes that wait for a processor. Further ones are refused, so that a flood of logins queues nothing for long.
const WAITING_MAX: usize = 32;

/// Too many hashes are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PasswordsBusy;

/// Computes hashes, one per processor at a time: each takes 19 MiB.
#[derive(Debug)]
pub(crate) struct Passwords {
    waiting: Semaphore,
    turns: Semaphore,
}

impl Default for Passwords {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { waiting: Semaphore::new(WAITING_MAX), turns: Semaphore::new(processors) }
    }
}

impl Passwords {
    /// The hash to store, in the PHC string format.
    pub(crate) async fn hash(&self, password: Sealed<String>) -> Result<String, PasswordsBusy> {
        self.compute(move || hashed(&password)).await
    }

    /// Whether a password has the stored hash. Without a stored hash the answer is no, after the same work.
    pub(crate) async fn verify(&self, password: Sealed<String>, stored: Option<String>) -> Result<bool, PasswordsBusy> {
        self.compute(move || match stored.as_deref().map(PasswordHash::new) {
            Some(Ok(stored)) => argon2().verify_password(password.expose().as_bytes(), &stored).is_ok(),
            _ => {
                hashed(&password);
                false
            }
        })
        .await
    }

    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PasswordsBusy> {
        let _place = self.waiting.try_acquire().map_err(|_| PasswordsBusy)?;
        let _turn = self.turns.acquire().await.map_err(|_| PasswordsBusy)?;
        Ok(blocking(work).await)
    }
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("constants within the limits of the algorithm");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hashed(password: &Sealed<String>) -> String {
    let hash = argon2().hash_password_with_salt(password.expose().as_bytes(), &entropy::random::<16>());
    hash.expect("a salt of 16 bytes and a password of limited length can be hashed").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_known_by_its_hash_and_no_other_is() {
        let passwords = Passwords::default();
        let stored = passwords.hash("correct horse battery".into()).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_ne!(stored, passwords.hash("correct horse battery".into()).await.unwrap(), "each hash has its salt");
        assert_eq!(passwords.verify("correct horse battery".into(), Some(stored.clone())).await, Ok(true));
        assert_eq!(passwords.verify("correct horse batterz".into(), Some(stored)).await, Ok(false));
        assert_eq!(passwords.verify("correct horse battery".into(), None).await, Ok(false));
    }

    #[tokio::test]
    async fn a_flood_of_hashes_is_refused_and_not_queued() {
        let passwords = Passwords::default();
        let _held = passwords.waiting.acquire_many(WAITING_MAX as u32).await.unwrap();
        assert_eq!(passwords.hash("x".into()).await, Err(PasswordsBusy));
    }
}
