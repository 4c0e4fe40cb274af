//! Identifiers, names and secrets: types whose values are valid by construction.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;
use crate::hex::{parse_hex, write_hex};
use crate::sealed::Sealed;

/// A text that is not an id, name or secret of the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {expected}")]
pub struct IdError {
    given: String,
    expected: &'static str,
}

impl IdError {
    fn new(given: &str, expected: &'static str) -> Self {
        Self { given: given.chars().take(80).collect(), expected }
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name([u8; 16]);

        impl $name {
            /// Makes an id of 16 random bytes, which the caller draws.
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The 16 bytes, for messages that are not text.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($prefix, "_"))?;
                write_hex(formatter, &self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let expected = concat!("an id of the form ", $prefix, "_ with 32 hexadecimal digits");
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(parse_hex)
                    .map(Self)
                    .ok_or_else(|| IdError::new(text, expected))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
    };
}

random_id!(
    /// Id of a client: an enrolled device or silo. Text: `client_` and 32 hexadecimal digits.
    ClientId, "client"
);
random_id!(
    /// Id of a job. Text: `job_` and 32 hexadecimal digits.
    JobId, "job"
);
random_id!(
    /// Id of an assignment, the work of one client in one round. Text: `assignment_` and 32 hexadecimal digits.
    AssignmentId, "assignment"
);
random_id!(
    /// Id of a group, whose members' updates are summed under masks. Text: `group_` and 32 hexadecimal digits.
    GroupId, "group"
);
random_id!(
    /// Id of a release of a model to the apps of a population. Text: `release_` and 32 hexadecimal digits.
    ReleaseId, "release"
);
random_id!(
    /// Id of an operator token or enrolment token; it is not a credential. Text: `token_` and 32 hexadecimal digits.
    TokenId, "token"
);

/// A name that people choose for a population, a job, a coordinator or an account: 1 to 64 ASCII letters, digits, `-`,
/// `_` and `.`, starting with a letter or digit. Such names are safe in URLs and file names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Name(String);

impl Name {
    /// The name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let starts_well = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if starts_well && text.len() <= 64 && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::new(text, "a name: 1 to 64 letters, digits, '-', '_' or '.', starting with a letter or digit"))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl TryFrom<String> for Name {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

/// The kind of caller that a bearer secret authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// An operator: the calls of the operator API that its role allows.
    Operator,
    /// An app: enrolment of clients in one population.
    Enrolment,
    /// An enrolled client: the calls of the device API.
    Client,
}

impl SecretKind {
    const ALL: [Self; 3] = [Self::Operator, Self::Enrolment, Self::Client];

    fn prefix(self) -> &'static str {
        match self {
            Self::Operator => "tributary_operator_",
            Self::Enrolment => "tributary_enrolment_",
            Self::Client => "tributary_client_",
        }
    }
}

/// A bearer credential: a prefix for its kind and 32 random bytes in hexadecimal.
///
/// The prefix lets scanners find leaked credentials. `Debug` does not show the random bytes, and a server stores only
/// their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Secret {
    kind: SecretKind,
    random: Sealed<[u8; 32]>,
}

impl Secret {
    /// Makes a credential of 32 random bytes, which the caller draws.
    pub fn from_random(kind: SecretKind, random: [u8; 32]) -> Self {
        Self { kind, random: Sealed::new(random) }
    }

    /// The kind of caller that it authenticates.
    pub fn kind(&self) -> SecretKind {
        self.kind
    }

    /// The text of the bearer token. It must not be logged.
    pub fn expose(&self) -> String {
        let mut text = String::from(self.kind.prefix());
        write_hex(&mut text, self.random.expose()).expect("writing to a String cannot fail");
        text
    }
}

impl FromStr for Secret {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        SecretKind::ALL
            .into_iter()
            .find_map(|kind| {
                let random = text.strip_prefix(kind.prefix()).and_then(parse_hex)?;
                Some(Self::from_random(kind, random))
            })
            // The text may be a mistyped secret, so the error does not repeat it.
            .ok_or(IdError { given: "the given text".into(), expected: "a Tributary token" })
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> Self {
        secret.expose()
    }
}

impl TryFrom<String> for Secret {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

/// What separates a secret from the fingerprint of its CA.
const CA_MARK: &str = "_ca_";

/// A secret as people copy it. An enrolment secret may carry the fingerprint of the coordinator's private CA: clients
/// then accept only certificates of this CA, whatever their system trusts. Text: the secret, and for a CA `_ca_` and 64
/// hexadecimal digits. The fingerprint is no secret, and requests carry only the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PinnedSecret {
    secret: Secret,
    ca: Option<Sha256Hash>,
}

impl PinnedSecret {
    /// `ca` is the SHA-256 of the CA's certificate in DER. Only enrolment secrets carry it.
    pub fn new(secret: Secret, ca: Option<Sha256Hash>) -> Self {
        let ca = ca.filter(|_| secret.kind() == SecretKind::Enrolment);
        Self { secret, ca }
    }

    /// The bearer credential.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The fingerprint of the only CA whose certificates may be accepted.
    pub fn ca(&self) -> Option<Sha256Hash> {
        self.ca
    }

    /// The whole text. It must not be logged.
    pub fn expose(&self) -> String {
        let mut text = self.secret.expose();
        if let Some(ca) = self.ca {
            text.push_str(CA_MARK);
            text.push_str(&ca.to_string());
        }
        text
    }
}

impl FromStr for PinnedSecret {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let Some((secret, ca)) = text.split_once(CA_MARK) else {
            return Ok(Self { secret: text.parse()?, ca: None });
        };
        let (secret, ca): (Secret, Option<Sha256Hash>) = (secret.parse()?, ca.parse().ok());
        if secret.kind() == SecretKind::Enrolment && ca.is_some() {
            Ok(Self { secret, ca })
        } else {
            Err(IdError { given: "the given text".into(), expected: "a Tributary token" })
        }
    }
}

impl From<PinnedSecret> for String {
    fn from(secret: PinnedSecret) -> Self {
        secret.expose()
    }
}

impl TryFrom<String> for PinnedSecret {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_what_it_wrote_and_nothing_else() {
        let id = ClientId::from_random([0xab; 16]);
        assert_eq!(id.to_string(), "client_abababababababababababababababab");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "client_", "job_abababababababababababababababab", "client_ABABABABABABABABABABABABABABABAB"]
        {
            assert!(wrong.parse::<ClientId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_safe_in_urls_and_files() {
        for good in ["a", "digits", "Site-7", "v1.2_x"] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "-x", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_hides_from_logs_and_errors() {
        let secret = Secret::from_random(SecretKind::Operator, [7; 32]);
        assert_eq!(format!("{secret:?}"), "Secret { kind: Operator, random: Sealed(..) }");
        assert_eq!(secret.expose().parse(), Ok(secret.clone()));
        let almost = &secret.expose()[..60];
        let error = almost.parse::<Secret>().expect_err("too short");
        assert!(!error.to_string().contains("0707"));
    }
    #[test]
    fn an_enrolment_secret_may_carry_a_ca_and_no_other_secret_does() {
        let secret = |kind| Secret::from_random(kind, [7; 32]);
        let ca = Some(Sha256Hash([9; 32]));
        let pinned = PinnedSecret::new(secret(SecretKind::Enrolment), ca);
        assert_eq!(pinned.expose(), format!("{}_ca_{}", pinned.secret().expose(), "09".repeat(32)));
        assert_eq!(pinned.expose().parse(), Ok(pinned.clone()));
        let plain = PinnedSecret::new(secret(SecretKind::Enrolment), None);
        assert_eq!((plain.expose(), plain.expose().parse()), (plain.secret().expose(), Ok(plain)));
        let operator = PinnedSecret::new(secret(SecretKind::Operator), ca);
        assert_eq!((operator.ca(), operator.expose()), (None, operator.secret().expose()));
        let suffix = &pinned.expose()[pinned.secret().expose().len()..];
        for wrong in [
            operator.expose() + suffix,
            pinned.expose() + suffix,
            format!("{}_ca_", pinned.secret().expose()),
            format!("{}_ca_{}", pinned.secret().expose(), "09".repeat(31)),
            suffix.to_owned(),
        ] {
            let error = wrong.parse::<PinnedSecret>().expect_err(&wrong);
            assert!(!error.to_string().contains("0707"));
        }
        assert!(!format!("{pinned:?}").contains("0707"));
    }
}
