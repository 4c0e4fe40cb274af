//! The hybrid key exchange `X25519MLKEM768`: a secret that holds while either X25519 or ML-KEM-768 holds.
//!
//! Source: draft-ietf-tls-ecdhe-mlkem, sections 3.1 to 3.3; ML-KEM is FIPS 203. In every message and in the secret the
//! part of ML-KEM comes first:
//!
//! | | ML-KEM-768 | X25519 | bytes |
//! |---|---|---|---|
//! | the client sends | encapsulation key, 1184 | public key, 32 | 1216 |
//! | the server sends | ciphertext, 1088 | public key, 32 | 1120 |
//! | both derive | shared secret, 32 | shared secret, 32 | 64 |

use ml_kem::kem::{Decapsulate, KeyExport};
use ml_kem::{Ciphertext, DecapsulationKey, EncapsulationKey, Key, MlKem768, Seed};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SecureRandom, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};
use zeroize::Zeroizing;

const ENCAPSULATION_KEY_LEN: usize = 1184;
const CIPHERTEXT_LEN: usize = 1088;
const SECRET_LEN: usize = 64;

const INVALID_SHARE: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

#[derive(Debug)]
pub(crate) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let x25519 = X25519.start()?;
        let mut seed = Zeroizing::new(Seed::default());
        random().fill(&mut seed)?;
        let ml_kem = DecapsulationKey::<MlKem768>::from_seed(*seed);
        let share = [&ml_kem.encapsulation_key().to_bytes()[..], x25519.pub_key()].concat();
        Ok(Box::new(Started { ml_kem, x25519, share }))
    }

    fn start_and_complete(&self, client: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, x25519) = client.split_at_checked(ENCAPSULATION_KEY_LEN).ok_or(INVALID_SHARE)?;
        // X25519 refuses a share that has not 32 bytes.
        let x25519 = X25519.start_and_complete(x25519)?;
        let key = Key::<EncapsulationKey<MlKem768>>::try_from(key).map_err(|_| INVALID_SHARE)?;
        // Refuses coefficients that are not reduced (FIPS 203, 7.2).
        let key = EncapsulationKey::<MlKem768>::new(&key).map_err(|_| INVALID_SHARE)?;
        let mut message = Zeroizing::new(ml_kem::B32::default());
        random().fill(&mut message)?;
        let (ciphertext, ml_kem) = key.encapsulate_deterministic(&message);
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &x25519.pub_key].concat(),
            secret: join(&Zeroizing::new(ml_kem), &x25519.secret),
        })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// A client that waits for the server's share.
struct Started {
    ml_kem: DecapsulationKey<MlKem768>,
    x25519: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, server: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, x25519) = server.split_at_checked(CIPHERTEXT_LEN).ok_or(INVALID_SHARE)?;
        let x25519 = self.x25519.complete(x25519)?;
        let ciphertext = Ciphertext::<MlKem768>::try_from(ciphertext).map_err(|_| INVALID_SHARE)?;
        let ml_kem = Zeroizing::new(self.ml_kem.decapsulate(&ciphertext));
        Ok(join(&ml_kem, &x25519))
    }

    /// A server that knows only X25519 answers to this part at once, without a second round trip.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.x25519.group(), self.x25519.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, server: &[u8]) -> Result<SharedSecret, Error> {
        self.x25519.complete(server)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

fn random() -> &'static dyn SecureRandom {
    crate::provider().secure_random
}

fn join(ml_kem: &[u8], x25519: &SharedSecret) -> SharedSecret {
    let mut joined = Zeroizing::new([0; SECRET_LEN]);
    let (first, second) = joined.split_at_mut(SECRET_LEN / 2);
    first.copy_from_slice(ml_kem);
    second.copy_from_slice(x25519.secret_bytes());
    SharedSecret::from(&joined[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of a whole exchange, and the secret that both ends derive.
    fn exchange() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let client = X25519MlKem768.start().unwrap();
        let client_share = client.pub_key().to_vec();
        let server = X25519MlKem768.start_and_complete(&client_share).unwrap();
        let secret = client.complete(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        (client_share, server.pub_key, secret.secret_bytes().to_vec())
    }

    #[test]
    fn both_ends_derive_one_secret_from_shares_of_the_published_lengths() {
        let (client, server, secret) = exchange();
        assert_eq!((client.len(), server.len(), secret.len()), (1216, 1120, 64));
        let (other_client, other_server, other) = exchange();
        assert!(client != other_client && server != other_server && secret != other, "keys are used once");
    }

    #[test]
    fn the_part_of_x25519_alone_is_an_exchange_with_a_server_that_knows_no_more() {
        let client = X25519MlKem768.start().unwrap();
        let (group, share) = client.hybrid_component().unwrap();
        assert_eq!(group, NamedGroup::X25519);
        let server = X25519.start_and_complete(share).unwrap();
        let secret = client.complete_hybrid_component(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    }

    #[test]
    fn a_share_of_another_length_or_outside_the_field_is_refused() {
        let (client, server, _) = exchange();
        for len in [0, 31, 32, ENCAPSULATION_KEY_LEN, 1215] {
            assert!(X25519MlKem768.start_and_complete(&client[..len]).is_err(), "{len} bytes");
        }
        assert!(X25519MlKem768.start_and_complete(&[&client[..], &[0]].concat()).is_err());
        let mut unreduced = client;
        unreduced[..3].fill(0xff);
        assert!(X25519MlKem768.start_and_complete(&unreduced).is_err());
        for len in [0, 32, CIPHERTEXT_LEN, 1119] {
            assert!(X25519MlKem768.start().unwrap().complete(&server[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_changed_ciphertext_gives_another_secret() {
        let client = X25519MlKem768.start().unwrap();
        let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
        let mut changed = server.pub_key.clone();
        changed[100] ^= 1;
        let secret = client.complete(&changed).unwrap();
        assert_ne!(secret.secret_bytes(), server.secret.secret_bytes());
    }
}
