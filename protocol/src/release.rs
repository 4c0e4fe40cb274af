//! Released models: which version the apps of a population predict with.
//!
//! A **channel** is a name that apps ask for, such as `stable` or `beta`. Its **releases** are numbered from 1. Each is
//! a version of some job, for a share of the clients, and for those with certain attributes. A client has the newest
//! release of the channel that is meant for it.
//!
//! ```text
//! place(client, release) = first 8 bytes of SHA-256("<release> <client>") / 2^64
//! client has release  <=>  release is out, client has its attributes, place < share
//! ```
//!
//! The place follows from both ids, so a share that grows keeps everybody who had the release, and each release begins
//! with other clients.
//!
//! Where the channel had a release with the same parameters, the new one is made of it by 8-bit differences
//! ([`crate::update::add_model_delta`]): whoever has that one downloads the differences alone, and has the same bits as
//! whoever downloads the whole file.

use serde::{Deserialize, Serialize};

use crate::card::ModelCard;
use crate::hash::Sha256Hash;
use crate::id::{ClientId, JobId, Name, ReleaseId};

/// Most channels that one client follows.
pub const CHANNELS_MAX: usize = 8;
/// Most differences that lead to a release: a client that missed more downloads the whole file.
pub const DIFFERENCES_MAX: usize = 3;

/// A share of clients in millionths: 1 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(into = "u32", try_from = "u32")]
pub struct Share(u32);

/// A share that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share is above 0 and at most 100 %, such as 5% or 0.05")]
pub struct ShareError;

impl Share {
    /// Everybody.
    pub const ALL: Self = Self(1_000_000);

    /// The share in millionths.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// Whether these are all clients.
    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// Whether a place is within the share.
    pub fn covers(self, place: u64) -> bool {
        u128::from(place) * 1_000_000 < u128::from(self.0) << 64
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::ALL
    }
}

impl TryFrom<u32> for Share {
    type Error = ShareError;

    fn try_from(millionths: u32) -> Result<Self, ShareError> {
        if (1..=1_000_000).contains(&millionths) { Ok(Self(millionths)) } else { Err(ShareError) }
    }
}

impl From<Share> for u32 {
    fn from(share: Share) -> Self {
        share.0
    }
}

impl std::str::FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (number, of) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim(), 10_000.0),
            None => (text.trim(), 1_000_000.0),
        };
        let share: f64 = number.parse().map_err(|_| ShareError)?;
        let millionths = (share * of).round();
        if !(1.0..=1_000_000.0).contains(&millionths) {
            return Err(ShareError);
        }
        Ok(Self(millionths as u32))
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// Where a client stands in the order in which a release reaches clients: uniform in 0 to 2^64 - 1.
pub fn place(release: ReleaseId, client: ClientId) -> u64 {
    let hash = Sha256Hash::of(format!("{release} {client}").as_bytes());
    let first: [u8; 8] = hash.0[..8].try_into().expect("a hash has 32 bytes");
    u64::from_be_bytes(first)
}

/// Query of `GET /device/v1/release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ReleaseQuery {
    /// The channel.
    #[cfg_attr(feature = "openapi", param(value_type = String))]
    pub channel: Name,
}

/// What a channel has for a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChannelAnswer {
    /// The channel.
    pub channel: Name,
    /// The client's release. Absent where the channel has none for it: a client that has one stops using it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Box<Released>>,
    /// When to ask again, in milliseconds. It is randomised, so that a fleet does not ask at once.
    pub ask_after_ms: u64,
}

/// A release, as a client downloads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Released {
    /// Its id.
    pub id: ReleaseId,
    /// Its number in the channel, from 1.
    pub number: u32,
    /// The job that made it, whose own parameters a client may have kept.
    pub job: JobId,
    /// What the model is, and how it is used.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub card: ModelCard,
    /// SHA-256 of the model's file: a safetensors file of 32-bit values.
    pub sha256: Sha256Hash,
    /// Length of that file.
    pub bytes: u64,
    /// Differences up to this release, at most 3, in ascending order. A client whose file has the `base_sha256` of one
    /// of them downloads that one and those after it, instead of the whole file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

/// The 8-bit differences between a release and one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Difference {
    /// The release that results.
    pub release: ReleaseId,
    /// Its number, which the header of the file names.
    pub number: u32,
    /// SHA-256 of the file that they are added to.
    pub base_sha256: Sha256Hash,
    /// SHA-256 of the body as it is sent, compressed or not.
    pub sha256: Sha256Hash,
    /// Length of that body.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_as_people_write_it() {
        let read = |text: &str| text.parse::<Share>().map(Share::millionths);
        assert_eq!(read("5%"), Ok(50_000));
        assert_eq!(read(" 12.5 % "), Ok(125_000));
        assert_eq!(read("0.05"), Ok(50_000));
        assert_eq!(read("100%"), Ok(1_000_000));
        assert_eq!(read("1"), Ok(1_000_000));
        for wrong in ["0", "0%", "101%", "5", "-1%", "nan", "", "%", "0.00000001%"] {
            assert_eq!(read(wrong), Err(ShareError), "{wrong:?}");
        }
        assert_eq!("12.5%".parse::<Share>().unwrap().to_string(), "12.5%");
        assert!(serde_json::from_str::<Share>("0").is_err() && serde_json::from_str::<Share>("1000001").is_err());
    }

    #[test]
    fn a_share_that_grows_keeps_everybody_and_is_met_within_a_point() {
        let release = ReleaseId::from_random([7; 16]);
        let clients = (0u32..10_000).map(|number| {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&number.to_le_bytes());
            ClientId::from_random(id)
        });
        let places: Vec<u64> = clients.map(|client| place(release, client)).collect();
        let mut before = vec![false; places.len()];
        for percent in [1u32, 5, 50, 99, 100] {
            let share = Share::try_from(percent * 10_000).unwrap();
            let now: Vec<bool> = places.iter().map(|place| share.covers(*place)).collect();
            assert!(before.iter().zip(&now).all(|(before, now)| !before || *now), "who had it keeps it");
            let met = now.iter().filter(|has| **has).count() as f64 / 100.0;
            assert!((met - f64::from(percent)).abs() < 1.0, "{met} of {percent}");
            before = now;
        }
        assert!(before.iter().all(|has| *has) && Share::ALL.covers(u64::MAX));
    }

    #[test]
    fn each_release_begins_with_other_clients() {
        let client = ClientId::from_random([1; 16]);
        let places = [1, 2].map(|release| place(ReleaseId::from_random([release; 16]), client));
        assert_ne!(places[0], places[1]);
    }
}
