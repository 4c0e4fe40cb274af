//! ID tokens: signed JSON (RFC 7515, 7519), checked as OpenID Connect Core 1.0, section 3.1.3.7, says.
//!
//! A member that comes twice in the header, a key or among the checked claims makes a token malformed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

/// How far the provider's clock may be from ours, in seconds.
const SKEW_S: i64 = 60;

/// Why an ID token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("it is not a signed JSON token")]
    Malformed,
    #[error("its algorithm is neither RS256 nor ES256")]
    Algorithm,
    /// The key may be newer than the ones that are known.
    #[error("its key is not among the provider's")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for another client")]
    Audience,
    #[error("it has expired, or is of the future")]
    Time,
    #[error("it belongs to another sign-in")]
    Nonce,
}

/// The keys of a provider (RFC 7517).
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Clone, Debug, Deserialize)]
struct Key {
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood; we understand none.
    crit: Option<Value>,
}

/// The claims of an ID token, of which only some are known.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claims {
    iss: String,
    pub(super) sub: String,
    aud: OneOrMany,
    azp: Option<String>,
    exp: i64,
    iat: i64,
    nbf: Option<i64>,
    nonce: Option<String>,
    #[serde(flatten)]
    pub(super) other: serde_json::Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// What the claims must say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now_ms: i64,
}

/// The claims of a token whose signature and claims are right.
pub(super) fn verified(token: &str, keys: &KeySet, expected: &Expected<'_>) -> Result<Claims, TokenError> {
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = message.split_once('.').ok_or(TokenError::Malformed)?;
    let header: Header = json(header)?;
    if header.crit.is_some() {
        return Err(TokenError::Malformed);
    }
    keys.verify(&header, message.as_bytes(), &bytes(signature)?)?;
    let claims: Claims = json(claims)?;
    claims.check(expected)?;
    Ok(claims)
}

impl Claims {
    fn check(&self, expected: &Expected<'_>) -> Result<(), TokenError> {
        if self.iss != expected.issuer {
            return Err(TokenError::Issuer);
        }
        let is_for_us = match &self.aud {
            OneOrMany::One(audience) => audience == expected.client_id,
            OneOrMany::Many(audiences) => audiences.iter().any(|audience| audience == expected.client_id),
        };
        let is_ours_alone =
            matches!(&self.aud, OneOrMany::One(_)) || matches!(&self.aud, OneOrMany::Many(all) if all.len() == 1);
        let is_asked_by_us = self.azp.as_ref().map_or(is_ours_alone, |party| party == expected.client_id);
        if !is_for_us || !is_asked_by_us {
            return Err(TokenError::Audience);
        }
        let now_s = expected.now_ms.div_euclid(1000);
        let begins = self.nbf.map_or(self.iat, |nbf| nbf.max(self.iat));
        if self.exp <= now_s.saturating_sub(SKEW_S) || begins > now_s.saturating_add(SKEW_S) {
            return Err(TokenError::Time);
        }
        if self.nonce.as_deref() != Some(expected.nonce) {
            return Err(TokenError::Nonce);
        }
        if self.sub.is_empty() { Err(TokenError::Malformed) } else { Ok(()) }
    }
}

impl KeySet {
    fn verify(&self, header: &Header, message: &[u8], signature: &[u8]) -> Result<(), TokenError> {
        let kind = match header.alg.as_str() {
            "RS256" => "RSA",
            "ES256" => "EC",
            _ => return Err(TokenError::Algorithm),
        };
        let fits = |key: &&Key| {
            key.kty == kind
                && key.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
                && (header.kid.is_none() || key.kid == header.kid)
        };
        let mut keys = self.keys.iter().filter(fits).peekable();
        keys.peek().ok_or(TokenError::UnknownKey)?;
        if keys.any(|key| key.verifies(message, signature)) { Ok(()) } else { Err(TokenError::Signature) }
    }
}

impl Key {
    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let part = |part: &Option<String>| part.as_deref().and_then(|part| bytes(part).ok());
        if self.kty == "RSA" {
            let (Some(n), Some(e)) = (part(&self.n), part(&self.e)) else { return false };
            return RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok();
        }
        let (Some(x), Some(y)) = (part(&self.x), part(&self.y)) else { return false };
        if self.crv.as_deref() != Some("P-256") || x.len() != 32 || y.len() != 32 {
            return false;
        }
        // An uncompressed point (SEC 1, section 2.3.3).
        let point = [&[4][..], &x, &y].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed)
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, TokenError> {
    serde_json::from_slice(&bytes(text)?).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    /// RFC 7515, appendix A.2: an RS256 signature with its key. Its payload is no ID token.
    const RFC_RSA: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv\
        bS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2\
        Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB\
        _eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy\
        wlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    const RFC_RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d\
        4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-\
        UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91k\
        zk2PAcDTW9gb54h4FRWyuXpoQ";
    /// RFC 7515, appendix A.3: the same with ES256.
    const RFC_EC: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvb\
        S9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    fn keys() -> KeySet {
        serde_json::from_value(json!({ "keys": [
            { "kty": "RSA", "n": RFC_RSA_N, "e": "AQAB" },
            { "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
              "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" },
        ] }))
        .unwrap()
    }

    fn signature_is_right(token: &str) -> Result<(), TokenError> {
        let (message, signature) = token.rsplit_once('.').unwrap();
        let header: Header = json(message.split_once('.').unwrap().0).unwrap();
        keys().verify(&header, message.as_bytes(), &bytes(signature).unwrap())
    }

    #[test]
    fn the_signatures_of_the_rfc_are_right_and_changed_ones_are_not() {
        for token in [RFC_RSA, RFC_EC] {
            assert_eq!(signature_is_right(token), Ok(()));
            let changed = token.replacen(".eyJpc3Mi", ".eyJpc3Mj", 1);
            assert_eq!(signature_is_right(&changed), Err(TokenError::Signature));
        }
    }

    /// A provider with one key on P-256.
    struct Provider(EcdsaKeyPair);

    impl Provider {
        fn new() -> Self {
            let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            Self(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
        }

        fn token(&self, header: &str, claims: &str) -> String {
            let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
            let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }

        /// Its only key, with these members changed.
        fn keys(&self, changes: &Value) -> KeySet {
            let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
            let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
            let mut key = json!({ "kty": "EC", "crv": "P-256", "kid": "a", "x": x, "y": y });
            key.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            serde_json::from_value(json!({ "keys": [key] })).unwrap()
        }
    }

    const HEADER: &str = r#"{"alg":"ES256","kid":"a"}"#;
    const CLAIMS: &str = r#"{"iss":"i","sub":"7","aud":"c","exp":1000,"iat":900,"nonce":"n","x":1,"x":2}"#;
    const EXPECTED: Expected<'_> = Expected { issuer: "i", client_id: "c", nonce: "n", now_ms: 950_000 };

    #[test]
    fn a_key_of_another_kind_name_or_purpose_verifies_nothing() {
        let provider = Provider::new();
        let token = provider.token(HEADER, CLAIMS);
        for fine in [json!({}), json!({ "use": "sig" }), json!({ "unknown": [1] })] {
            assert_eq!(verified(&token, &provider.keys(&fine), &EXPECTED).unwrap().sub, "7");
        }
        for (changes, why) in [
            (json!({ "kid": "b" }), TokenError::UnknownKey),
            (json!({ "kid": null }), TokenError::UnknownKey),
            (json!({ "use": "enc" }), TokenError::UnknownKey),
            (json!({ "kty": "RSA" }), TokenError::UnknownKey),
            (json!({ "kty": "oct", "k": "AA" }), TokenError::UnknownKey),
            (json!({ "crv": "P-384" }), TokenError::Signature),
            (json!({ "crv": null }), TokenError::Signature),
            (json!({ "x": "AA" }), TokenError::Signature),
            (json!({ "y": null }), TokenError::Signature),
        ] {
            assert_eq!(verified(&token, &provider.keys(&changes), &EXPECTED).unwrap_err(), why, "{changes}");
        }
        assert_eq!(verified(&token, &Provider::new().keys(&json!({})), &EXPECTED).unwrap_err(), TokenError::Signature);
        // A token that names no key may be signed with any of them.
        let nameless = provider.token(r#"{"alg":"ES256"}"#, CLAIMS);
        assert!(verified(&nameless, &provider.keys(&json!({})), &EXPECTED).is_ok());
    }

    #[test]
    fn members_that_come_twice_or_must_be_understood_are_refused() {
        let provider = Provider::new();
        let keys = provider.keys(&json!({}));
        for header in [
            r#"{"alg":"ES256","alg":"ES256"}"#,
            r#"{"alg":"none","alg":"ES256"}"#,
            r#"{"alg":"ES256","kid":"a","kid":"a"}"#,
            r#"{"alg":"ES256","crit":["b64"],"b64":false}"#,
            r#"{"alg":["ES256"]}"#,
            "{}",
            r#"{"alg":"ES256"} {}"#,
        ] {
            let token = provider.token(header, CLAIMS);
            assert_eq!(verified(&token, &keys, &EXPECTED).unwrap_err(), TokenError::Malformed, "{header}");
        }
        for twice in [r#""iss":"i""#, r#""sub":"7""#, r#""aud":"c""#, r#""exp":1000"#, r#""iat":900"#, r#""nonce":"n""#]
        {
            let token = provider.token(HEADER, &CLAIMS.replacen('{', &format!("{{{twice},"), 1));
            assert_eq!(verified(&token, &keys, &EXPECTED).unwrap_err(), TokenError::Malformed, "{twice}");
        }
        let twice = r#"{"keys":[{"kty":"EC","kty":"RSA"}]}"#;
        assert!(serde_json::from_str::<KeySet>(twice).is_err());
    }

    #[test]
    fn a_token_that_is_changed_anywhere_is_refused() {
        let provider = Provider::new();
        let (keys, token) = (provider.keys(&json!({})), provider.token(HEADER, CLAIMS));
        for at in 0..token.len() {
            let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = [&token[..at], other, &token[at + 1..]].concat();
            assert!(verified(&changed, &keys, &EXPECTED).is_err(), "letter {at}");
            assert!(verified(&token[..at], &keys, &EXPECTED).is_err(), "{at} letters");
        }
        for more in ["A", ".", ".e30", "=", " "] {
            assert!(verified(&format!("{token}{more}"), &keys, &EXPECTED).is_err(), "{more}");
        }
    }

    #[test]
    fn tokens_without_a_signature_or_with_a_symmetric_one_are_refused() {
        for algorithm in ["none", "HS256", "RS512", "rs256", ""] {
            let header = URL_SAFE_NO_PAD.encode(json!({ "alg": algorithm }).to_string());
            assert_eq!(signature_is_right(&format!("{header}.e30.")), Err(TokenError::Algorithm), "{algorithm}");
        }
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "RS256", "kid": "other" }).to_string());
        assert_eq!(signature_is_right(&format!("{header}.e30.")), Err(TokenError::UnknownKey));
        let expected = Expected { issuer: "i", client_id: "c", nonce: "n", now_ms: 0 };
        for broken in ["", "a", "a.b", "a.b.c", "....", &format!("{header}.e30")] {
            assert_eq!(verified(broken, &keys(), &expected).unwrap_err(), TokenError::Malformed, "{broken}");
        }
    }

    #[test]
    fn claims_are_of_the_issuer_for_the_client_in_time_and_of_this_sign_in() {
        let right = json!({ "iss": "https://id", "sub": "7", "aud": "c", "exp": 1_000, "iat": 900, "nonce": "n" });
        let expected = Expected { issuer: "https://id", client_id: "c", nonce: "n", now_ms: 950_000 };
        let checked = |changes: Value| {
            let mut claims = right.clone();
            claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            serde_json::from_value::<Claims>(claims).unwrap().check(&expected)
        };
        for fine in [
            json!({}),
            json!({ "aud": ["c"] }),
            json!({ "aud": ["c", "d"], "azp": "c" }),
            json!({ "exp": 891, "iat": 1_010, "nbf": 1_010 }),
        ] {
            assert_eq!(checked(fine.clone()), Ok(()), "{fine}");
        }
        for (wrong, why) in [
            (json!({ "iss": "https://id/" }), TokenError::Issuer),
            (json!({ "aud": "d" }), TokenError::Audience),
            (json!({ "aud": ["c", "d"] }), TokenError::Audience),
            (json!({ "aud": ["c", "d"], "azp": "d" }), TokenError::Audience),
            (json!({ "aud": [] }), TokenError::Audience),
            (json!({ "exp": 890 }), TokenError::Time),
            (json!({ "iat": 1_011 }), TokenError::Time),
            (json!({ "nbf": 1_011 }), TokenError::Time),
            (json!({ "nonce": "m" }), TokenError::Nonce),
            (json!({ "nonce": null }), TokenError::Nonce),
            (json!({ "sub": "" }), TokenError::Malformed),
        ] {
            assert_eq!(checked(wrong.clone()), Err(why), "{wrong}");
        }
    }
}
