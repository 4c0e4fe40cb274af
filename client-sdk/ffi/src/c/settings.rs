//! Settings of a client as C has them.

use std::collections::HashMap;
use std::ffi::c_char;

use super::status::{text, values};
use super::types::{TributaryAttribute, TributarySettings};
use crate::errors::TributaryError;
use crate::settings::{Consent, PrivacyFloor, Settings};

/// How many seconds lie between two checkpoints of a training if the app does not say.
const CHECKPOINT_EVERY_S: u32 = 300;

/// The settings that an app has filled in.
///
/// # Safety
/// The pointers are null or valid, and texts end with a zero.
pub(super) unsafe fn read(asked: &TributarySettings) -> Result<Settings, TributaryError> {
    // SAFETY: the caller promises what the functions ask for.
    unsafe {
        let mut attributes = HashMap::new();
        for TributaryAttribute { name, value } in values("attributes", asked.attributes, asked.attributes_count)? {
            attributes.insert(text("an attribute's name", *name)?, text("an attribute's value", *value)?);
        }
        let channels = values("channels", asked.channels, asked.channels_count)?;
        let channels: Result<_, _> = channels.iter().map(|channel| text("a channel", *channel)).collect();
        let optional =
            |name, value: *const c_char| if value.is_null() { Ok(None) } else { text(name, value).map(Some) };
        let given_at_ms = asked.consent_given_at_ms;
        let survivors_min = u16::try_from(asked.survivors_min);
        Ok(Settings {
            server: text("server", asked.server)?,
            token: text("token", asked.token)?,
            state_dir: text("state_dir", asked.state_dir)?,
            attributes,
            wait_ms: asked.wait_ms,
            checkpoint_every_s: match asked.checkpoint_every_s {
                0 => CHECKPOINT_EVERY_S,
                u32::MAX => 0,
                seconds => seconds,
            },
            channels: channels?,
            consent: optional("consent", asked.consent)?.map(|text| Consent { text, given_at_ms }),
            privacy_floor: Some(PrivacyFloor {
                secure_aggregation: asked.secure_aggregation != 0,
                survivors_min: survivors_min.map_err(|_| TributaryError::bad_input("survivors_min is above 65535"))?,
                signed: asked.signed_groups != 0,
                epsilon_max: (asked.epsilon_max != 0.0).then_some(asked.epsilon_max),
                clip_max: (asked.clip_max != 0.0).then_some(asked.clip_max),
            }),
            ca_pem: optional("ca_pem", asked.ca_pem)?,
            allow_plaintext: asked.allow_plaintext != 0,
            sdk: Some("c".to_owned()),
        })
    }
}
