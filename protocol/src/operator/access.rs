//! Who may do what: tokens, accounts and their sessions.

use serde::{Deserialize, Serialize};

use crate::device::Attributes;
use crate::id::{Name, PinnedSecret, TokenId};
use crate::sealed::Sealed;
use crate::state::{Role, TokenKind};

/// Header that a browser's script sends with each request of a session that changes something. Forms and links of other
/// sites cannot set it.
pub const REQUESTED_BY: &str = "x-tributary-request";
/// Fewest characters of a password (NIST SP 800-63B-4, section 3.1.1.2, recommends no rule but the length).
pub const PASSWORD_CHARS_MIN: usize = 12;
/// Longest password in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// Longest label of a token in bytes.
pub const LABEL_BYTES_MAX: usize = 200;
/// Lifetime of an operator token whose request names none: 90 days, in milliseconds.
pub const OPERATOR_TOKEN_VALID_FOR_MS_DEFAULT: u64 = 90 * 24 * 3_600_000;

/// Request for a new token. Its kind is explicit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CreateToken {
    /// A token for the operator API.
    Operator {
        /// Role of its holder.
        role: Role,
        /// The only population that it shows and changes. Default: the whole deployment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        population: Option<Name>,
        /// Purpose of the token, for people: at most 200 bytes, no control or invisible characters.
        #[serde(default)]
        label: String,
        /// Lifetime in milliseconds. Default: 90 days.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_for_ms: Option<u64>,
    },
    /// A token with which apps enrol clients.
    Enrolment {
        /// Population in which it can enrol clients.
        population: Name,
        /// Purpose of the token, for people: at most 200 bytes, no control or invisible characters.
        #[serde(default)]
        label: String,
        /// Lifetime in milliseconds. Default: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_for_ms: Option<u64>,
        /// Most clients that it can enrol. Default: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uses_max: Option<u64>,
        /// Most clients that it can enrol in a minute. Default: 600; null: unlimited.
        #[serde(default = "per_minute_default")]
        per_minute_max: Option<u32>,
        /// Attributes of each client that it enrols. The client cannot change them.
        #[serde(default)]
        attributes: Attributes,
    },
}

/// Most clients that an enrolment token can enrol in a minute, unless its maker says otherwise.
pub const ENROLMENTS_PER_MINUTE_DEFAULT: u32 = 600;

fn per_minute_default() -> Option<u32> {
    Some(ENROLMENTS_PER_MINUTE_DEFAULT)
}

impl CreateToken {
    /// An enrolment token without limits.
    pub fn enrolment(population: Name, label: &str) -> Self {
        Self::Enrolment {
            population,
            label: label.to_owned(),
            valid_for_ms: None,
            uses_max: None,
            per_minute_max: None,
            attributes: Attributes::default(),
        }
    }
}

/// A new token with its secret, which no later call returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token without its secret.
    pub token: Token,
    /// Bearer credential.
    pub secret: PinnedSecret,
    /// Address at which clients reach the coordinator, with an enrolment token. Absent if it is that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Id of the token.
    pub id: TokenId,
    /// For operators or for apps.
    pub kind: TokenKind,
    /// Population in which an enrolment token enrols clients, or to which an operator token is restricted. Absent for
    /// an operator token of the whole deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<Name>,
    /// Role of an operator token. Absent for an enrolment token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Purpose of the token, as given at its creation.
    pub label: String,
    /// Time of creation.
    pub created_at_ms: i64,
    /// Time from which the token is no longer valid. Absent if its lifetime is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
    /// Time at which an operator revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<i64>,
    /// Time of its last use, to the minute. Absent if it was never used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at_ms: Option<i64>,
    /// Number of clients that it enrolled.
    pub uses: u64,
    /// Most clients that it can enrol. Absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_max: Option<u64>,
    /// Most clients that it can enrol in a minute. Absent if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_minute_max: Option<u32>,
    /// Attributes that it grants to the clients that it enrols.
    #[serde(default)]
    pub attributes: Attributes,
}

impl Token {
    /// A new token that was never used and has no limits.
    pub fn unlimited(id: TokenId, kind: TokenKind, label: String, now_ms: i64) -> Self {
        Self {
            id,
            kind,
            population: None,
            role: None,
            label,
            created_at_ms: now_ms,
            expires_at_ms: None,
            revoked_at_ms: None,
            last_used_at_ms: None,
            uses: 0,
            uses_max: None,
            per_minute_max: None,
            attributes: Attributes::default(),
        }
    }
}

/// The operator that a request's credential stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignedIn {
    /// Name of the account, or label of the token.
    pub name: String,
    /// Id in the audit log: `token_..`, `account:NAME` or `oidc:SUBJECT`.
    pub actor: String,
    /// Role of the operator.
    pub role: Role,
    /// The only population that it shows and changes. Absent for the whole deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<Name>,
    /// Time at which the credential expires. Absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
}

/// Request for a new account.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateAccount {
    /// Name of the account, unique in the deployment.
    pub name: Name,
    /// Role of the account.
    pub role: Role,
    /// The only population that it shows and changes. Default: the whole deployment.
    #[serde(default)]
    pub population: Option<Name>,
    /// Password: at least 12 characters, at most 1024 bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub password: Sealed<String>,
}

/// Request for a new password of an account.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangePassword {
    /// Password: at least 12 characters, at most 1024 bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub password: Sealed<String>,
}

/// How people can sign in, besides with an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignInWays {
    /// With an identity provider, at `/operator/v1/oidc/login`.
    pub provider: bool,
}

/// Request of a browser for a session.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Name of the account.
    pub account: String,
    /// Password of the account.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub password: Sealed<String>,
}

/// An account: a person who signs in with a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// Name of the account.
    pub name: Name,
    /// Role of the account.
    pub role: Role,
    /// The only population that it shows and changes. Absent for the whole deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<Name>,
    /// Time of creation.
    pub created_at_ms: i64,
    /// Time at which the password was set.
    pub password_at_ms: i64,
    /// Time at which an operator revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<i64>,
}

/// A session: a browser in which an account is signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Address from which the account signed in. Absent where the coordinator does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Time of the sign-in.
    pub created_at_ms: i64,
    /// Time of its last request, to the minute.
    pub last_used_at_ms: i64,
    /// Time at which the session ends.
    pub expires_at_ms: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(json: serde_json::Value) -> Result<CreateToken, serde_json::Error> {
        serde_json::from_value(json)
    }

    #[test]
    fn a_token_is_asked_for_by_kind_and_role() {
        for vague in [
            json!({}),
            json!({ "label": "x" }),
            json!({ "population": "p" }),
            json!({ "kind": "operator" }),
            json!({ "kind": "enrolment" }),
            json!({ "kind": "client", "role": "admin" }),
            json!({ "kind": "operator", "role": "root" }),
            json!({ "kind": "operator", "role": "viewer", "uses_max": 1 }),
            json!({ "kind": "enrolment", "population": "p", "role": "admin" }),
        ] {
            assert!(wanted(vague.clone()).is_err(), "{vague}");
        }
        let operator = wanted(json!({ "kind": "operator", "role": "viewer" })).unwrap();
        assert!(matches!(operator, CreateToken::Operator { role: Role::Viewer, population: None, .. }));
        assert_eq!(serde_json::to_value(&operator).unwrap()["kind"], "operator");
    }
}
