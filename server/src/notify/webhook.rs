//! The receiver of notifications, and how it recognises them.

use ring::hmac;
use tributary_protocol::sealed::Sealed;
use url::Url;

/// Rounds abandoned in a row that are a notification, unless the configuration says otherwise.
pub const ABANDONED_DEFAULT: u32 = 3;

/// Where notifications go.
#[derive(Clone, Debug)]
pub struct NotifySettings {
    pub url: Url,
    /// Signs each notification.
    pub secret: Sealed<String>,
    /// Rounds of a job that are abandoned in a row before one is sent.
    pub abandoned: u32,
}

/// The value of the header `Tributary-Signature`: `t=SECONDS,v1=HEX`, with HMAC-SHA-256 (RFC 2104) over the seconds, a
/// dot and the body. A receiver that checks the seconds refuses what somebody recorded and repeats.
pub fn signature(secret: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_covers_time_and_body() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        let expected = "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
        assert_eq!(signature("key", 1_700_000_000, "{}"), expected);
        assert_ne!(
            signature("key", 1_700_000_001, "{}").split_once(",v1=").unwrap().1,
            expected.split_once(",v1=").unwrap().1
        );
    }
}
